"""What holds of every permit, whether it is on a list or signed by an issuer."""

import dataclasses
from pathlib import Path

import pytest

from aggregator.protocol.reports import prepare_reports, seal_report
from aggregator.service.config import HelperSettings
from aggregator.service.storage.engine.objects import objects_at
from aggregator.service.storage.reports import bodies
from tests.integration.test_permits import answers, collected
from tests.support.kinds_of_permits import KINDS, Kind
from tests.support.pair import NOW
from tests.support.permitted import OTHER_ID, names, spent

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


async def test_the_next_draft_has_the_same_words_for_permits(tmp_path: Path, kind: Kind) -> None:
    async with kind.pair(tmp_path, kind.task(profile="dap-19")) as pair:
        permits = kind.permits(pair.task, 3)
        assert names(pair, await pair.upload(await kind.reports(pair, permits, [0, 1, 2]))) == []
        again = await kind.reports(pair, permits[:1], [3])
        guessed = await kind.reports(pair, [kind.guess], [1])
        refused = await pair.upload([*again, *guessed])
        assert [each.error for each in refused.status] == [243, 241]
        assert await answers(pair, guessed) == ["permit_unknown"]
        assert await collected(pair) == (1, 1, 1, 0)


async def test_a_wrong_opening_costs_only_the_permit_of_whoever_sent_it(
    tmp_path: Path, kind: Kind
) -> None:
    async with kind.pair(tmp_path) as pair:
        task, entropy, permits = pair.task, pair.client_entropy, kind.permits(pair.task, 4)
        opened = kind.openings(task, permits[:1])
        (wrong,) = prepare_reports(task, [3], task.time(NOW), entropy, *opened)
        wrong = dataclasses.replace(wrong, opening=bytes(16))
        sealed = seal_report(task, wrong, *await pair.configs(), entropy)
        honest = await kind.reports(pair, permits[1:], [0, 1, 2])
        assert names(pair, await pair.upload([sealed, *honest])) == []
        assert await collected(pair) == (1, 1, 1, 0)
        for service in (pair.leader, pair.helper):
            found = service.counts(task)
            assert found == {"aggregated": 3, "permit_unknown": 1}
        assert (spent(pair.leader), spent(pair.helper)) == (4, 3)


async def test_a_permit_is_good_for_one_task_of_its_domain(tmp_path: Path, kind: Kind) -> None:
    async with kind.pair(tmp_path) as pair:
        other = kind.task(OTHER_ID)
        await pair.provision(other)
        permits = kind.permits(pair.task, 6)
        one = await kind.reports(pair, permits[:3], [0, 1, 2])
        two = await kind.reports(pair, permits[2:], [0, 0, 1, 2], task=other)
        assert names(pair, await pair.upload(one)) == []
        assert names(pair, await pair.upload(two, other)) == ["permit_spent"]
        assert await collected(pair) == (1, 1, 1, 0)
        pair.task = other
        assert await collected(pair) == (1, 1, 1, 0)
        # A leader that lets it in twice gains nothing.
        again = await kind.reports(pair, permits[:1], [3])
        assert await answers(pair, again) == ["permit_spent"]


@pytest.mark.parametrize("defers", [False, True], ids=["at once", "deferred"])
@pytest.mark.parametrize("mode", ["time_interval", "leader_selected"])
async def test_without_windows_a_permit_is_good_once_for_ever(
    tmp_path: Path, kind: Kind, mode: str, *, defers: bool
) -> None:
    task = kind.task(window=None, batch_mode=mode)
    helper = HelperSettings(database="none", defer_jobs=defers)
    async with kind.pair(tmp_path, task, helper_settings=helper) as pair:
        permits = kind.permits(task, 4)
        first = await kind.reports(pair, permits[:3], [0, 1, 2])
        assert names(pair, await pair.upload(first)) == []
        pair.clock.advance(1000)
        later = await kind.reports(pair, permits[2:], [3, 3], NOW + 1000)
        assert names(pair, await pair.upload(later)) == ["permit_spent"]
        await pair.work_until_idle()
        assert (spent(pair.leader), spent(pair.helper)) == (4, 4)
        assert pair.helper.counts(task) == {"aggregated": 4}


async def test_permits_are_spent_where_bodies_lie_in_object_storage(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "LEAST_BYTES", 1)
    async with kind.pair(tmp_path) as pair:
        place = tmp_path / "objects"
        place.mkdir()
        pair.leader.make_objects = lambda: objects_at(f"file://{place}")
        pair.leader.restart()
        permits = kind.permits(pair.task, 4)
        assert names(pair, await pair.upload(await kind.reports(pair, permits, [0, 1, 1, 2]))) == []
        assert [each for each in place.rglob("*") if each.is_file()]
        again = await kind.reports(pair, permits, [3] * 4)
        assert names(pair, await pair.upload(again)) == ["permit_spent"] * 4
        assert await collected(pair) == (1, 2, 1, 0)
