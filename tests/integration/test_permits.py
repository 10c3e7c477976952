"""Reports count with a permit of their window, once, whatever people or a leader try."""

import dataclasses
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from aggregator.dap.extensions import Extension
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import Report
from aggregator.protocol import reports as sealing
from aggregator.protocol.permit_lists import listed
from aggregator.protocol.reports import prepare_reports, seal_report
from aggregator.protocol.task import Task
from aggregator.service.config import HelperSettings, LeaderSettings
from aggregator.service.leader.uploads import Grouping
from aggregator.service.runtime.report_ages import forget_old_ids
from aggregator.service.storage.operator.permits import add_permits
from aggregator.service.storage.reports.counters import Stage
from tests.support.engines import ON_SQLITE
from tests.support.helper_jobs import errors_of, send_job
from tests.support.pair import NOW, Pair
from tests.support.patience import PATIENCE_SECONDS
from tests.support.permitted import (
    OTHER_ID,
    PERMITS,
    SECRETS,
    WINDOW_SECONDS,
    given,
    names,
    openings,
    permitted,
    permitted_pair,
    reports_of,
    spent,
    windows,
)
from tests.support.tasks import make_task

WINDOW_START = NOW - NOW % WINDOW_SECONDS
LATER = NOW + WINDOW_SECONDS
THIRD_ID = TaskId(bytes([255]) * 32)

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with permitted_pair(tmp_path) as made:
        yield made


async def collected(pair: Pair) -> tuple[int, ...]:
    result = await pair.collect(pair.interval(WINDOW_START, 2))
    assert isinstance(result.values, tuple)
    return result.values


async def answers(pair: Pair, reports: list[Report]) -> list[str]:
    """Send reports to the helper as a leader would, whoever made them; return what it says."""
    answer = await send_job(pair, await pair.job(reports, pair.clock.now()))
    found = errors_of(answer.body, pair.task.profile)
    return ["counted" if each is None else each.draft_name for each in found]


async def test_reports_with_a_permit_count_once_and_a_repetition_is_silent(pair: Pair) -> None:
    sent = await reports_of(pair, SECRETS[:5], [0, 1, 1, 2, 3])
    assert names(pair, await pair.upload(sent)) == []
    assert names(pair, await pair.upload(sent)) == []
    assert await collected(pair) == (1, 2, 1, 1)
    for service in (pair.leader, pair.helper):
        assert [(each.given, each.spent) for each in windows(service)] == [(10, 5), (10, 0)]


async def test_strangers_are_refused_before_anything_is_stored(pair: Pair) -> None:
    plain = make_task(privacy={"mechanism": "None", "window": 2})
    without = await pair.reports([1], task=plain)
    guessed = await pair.reports([1], openings=[bytes(16)])
    assert names(pair, await pair.upload(without)) == ["permit_missing"]
    assert names(pair, await pair.upload(guessed)) == ["permit_unknown"]
    refused = {"permit_missing": 1, "permit_unknown": 1}
    assert pair.leader.counts(pair.task, Stage.UPLOAD) == refused
    assert spent(pair.leader) == 0


async def test_a_report_of_any_other_size_is_no_message_and_lacks_no_permit(pair: Pair) -> None:
    longer = make_task(
        vdaf={"type": "Prio3Histogram", "length": 5, "chunk_length": 2},
        privacy={"mechanism": "None", "window": 2},
    )
    assert names(pair, await pair.upload(await pair.reports([1], task=longer))) == [
        "invalid_message"
    ]


async def test_two_devices_of_one_person_count_once(tmp_path: Path, many: int) -> None:
    people = [bytes([100 + n]) * 16 for n in range(many)]
    async with permitted_pair(tmp_path) as pair:
        for service in (pair.leader, pair.helper):
            given(service, pair.task, secrets=people)
        first = await reports_of(pair, people, [0] * many)
        second = await reports_of(pair, people, [3] * many)
        others = await reports_of(pair, SECRETS[:3], [1, 1, 2])
        assert names(pair, await pair.upload([*first, *others])) == []
        assert names(pair, await pair.upload(second)) == ["permit_spent"] * many
        assert pair.leader.counts(pair.task, Stage.UPLOAD)["permit_spent"] == many
        assert await collected(pair) == (many, 2, 1, 0)


async def test_of_two_in_one_request_the_first_counts(pair: Pair) -> None:
    one = await reports_of(pair, SECRETS[:3], [0, 1, 1])
    two = await reports_of(pair, SECRETS[:1], [3])
    assert names(pair, await pair.upload([*one, *two, *one])) == ["permit_spent"]
    assert names(pair, await pair.upload(two)) == ["permit_spent"]
    assert await collected(pair) == (1, 2, 0, 0)


async def test_a_permit_of_another_window_stays_good_in_its_own(pair: Pair) -> None:
    early = await pair.reports([1], openings=openings(pair.task, SECRETS[5:6], LATER))
    assert names(pair, await pair.upload(early)) == ["permit_of_another_window"]
    assert pair.leader.counts(pair.task, Stage.UPLOAD) == {"permit_of_another_window": 1}
    pair.clock.advance(WINDOW_SECONDS)
    assert names(pair, await pair.upload(await reports_of(pair, SECRETS[5:6], [1], LATER))) == []


async def test_a_leader_can_neither_make_reports_up_nor_use_an_id_that_it_has_seen(
    pair: Pair,
) -> None:
    honest = await reports_of(pair, SECRETS[:3], [0, 1, 2])
    assert names(pair, await pair.upload(honest)) == []
    guess = bytes(16)
    later = openings(pair.task, SECRETS[7:8], LATER)[0]
    made = await pair.reports([3, 3], openings=[guess, later])
    seen = prepare_reports(
        pair.task,
        [3],
        pair.task.time(NOW),
        pair.client_entropy,
        openings(pair.task, SECRETS[:1]),  # gives the report the id that the leader has seen
    )
    taken = seal_report(
        pair.task,
        dataclasses.replace(seen[0], opening=guess),  # which is all that the leader knows
        *await pair.configs(),
        pair.client_entropy,
    )
    said = await answers(pair, [*made, taken])
    assert said == ["permit_unknown", "permit_of_another_window", "permit_unknown"]
    assert spent(pair.helper) == 0
    assert await collected(pair) == (1, 1, 1, 0)


async def test_a_share_without_its_permit_and_one_with_a_foreign_extension_are_told_apart(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = await pair.configs()
    time, entropy = pair.task.time(NOW), pair.client_entropy
    prepared = prepare_reports(
        pair.task, [1, 1, 1], time, entropy, openings(pair.task, SECRETS[:3])
    )
    filler = prepared[1].helper_input_share + bytes(20)
    lists = [
        (Extension(0xFF7F, bytes(16)),),
        (),
        (Extension(0xFF51, bytes(12)), Extension(0xFF51, b"")),
    ]
    changed = [
        prepared[0],
        dataclasses.replace(prepared[1], helper_input_share=filler),
        prepared[2],
    ]
    sealed = []
    for each, extensions in zip(changed, lists, strict=True):
        monkeypatch.setattr(sealing, "extensions_with", lambda o, e=extensions: e if o else ())
        sealed.append(seal_report(pair.task, each, *configs, entropy))
    said = await answers(pair, sealed)
    renamed = pair.task.profile.at_aggregation
    assert len(renamed)  # this draft calls a foreign extension an invalid message
    assert said == ["invalid_message", "permit_missing", "invalid_message"]


async def test_a_share_that_does_not_open_is_refused_whatever_its_permit(pair: Pair) -> None:
    honest, other = await reports_of(pair, SECRETS[:2], [1, 1])
    sealed = honest.helper_encrypted_input_share
    changed = dataclasses.replace(
        honest,
        helper_encrypted_input_share=dataclasses.replace(
            sealed, payload=sealed.payload[:-1] + bytes([sealed.payload[-1] ^ 1])
        ),
    )
    assert await answers(pair, [changed]) == ["hpke_decrypt_error"]
    assert await answers(pair, [changed, other]) == ["hpke_decrypt_error", "counted"]
    assert await answers(pair, [honest]) == ["counted"]


async def test_a_leader_that_sends_a_report_again_counts_it_once(pair: Pair) -> None:
    honest = await reports_of(pair, SECRETS[:3], [0, 1, 2])
    assert await answers(pair, honest[:2]) == ["counted", "counted"]
    assert await answers(pair, honest) == ["report_replayed", "report_replayed", "counted"]
    # The same permit, and another report: its client and leader together.
    again = await reports_of(pair, SECRETS[:1], [3])
    assert await answers(pair, again) == ["report_replayed"]
    assert spent(pair.helper) == 3


async def test_a_list_at_one_aggregator_only_counts_nothing(tmp_path: Path) -> None:
    pair = Pair(tmp_path, permitted())
    await pair.provision()
    given(pair.leader, pair.task)
    assert names(pair, await pair.upload(await reports_of(pair, SECRETS[:3], [0, 1, 2]))) == []
    await pair.work_until_idle()
    assert pair.helper.counts(pair.task) == {"permit_unknown": 3}
    assert pair.leader.counts(pair.task) == {"permit_unknown": 3}
    await pair.close()


async def test_a_list_may_come_while_reports_do(pair: Pair) -> None:
    late = [bytes([200 + n]) * 16 for n in range(3)]
    assert (
        names(pair, await pair.upload(await reports_of(pair, late, [0, 0, 0])))
        == ["permit_unknown"] * 3
    )
    for service in (pair.helper, pair.leader):
        given(service, pair.task, secrets=late)
    assert names(pair, await pair.upload(await reports_of(pair, late, [0, 0, 0]))) == []
    assert await collected(pair) == (3, 0, 0, 0)


async def test_uploads_to_two_tasks_of_a_domain_in_one_transaction_spend_a_permit_once(
    pair: Pair,
) -> None:
    other = permitted(OTHER_ID)
    await pair.provision(other)
    plain = make_task(id=str(THIRD_ID), privacy={"mechanism": "None", "window": 2})
    await pair.provision(plain)
    begun: Counter[str] = Counter()

    def note(name: str, moment: str) -> None:
        begun[name] += moment == "begin"

    pair.leader.on_moment = note
    pair.leader.grouping = Grouping(delay_seconds=PATIENCE_SECONDS, reports=13)
    pair.leader.restart()
    sent = [
        (pair.task, await reports_of(pair, SECRETS[:6], [0] * 6)),
        (other, await reports_of(pair, SECRETS[4:9], [1] * 5, task=other)),
        (plain, await pair.reports([2, 2], task=plain)),
    ]
    async with anyio.create_task_group() as tasks:
        refused: dict[str, list[str]] = {}

        async def upload(task: Task, reports: list[Report]) -> None:
            refused[str(task.task_id)] = names(pair, await pair.upload(reports, task))

        for task, reports in sent:
            tasks.start_soon(upload, task, reports)
    assert begun["upload"] == 1
    # The first task by its id takes what both want.
    assert refused == {
        str(pair.task.task_id): [],
        str(other.task_id): ["permit_spent"] * 2,
        str(plain.task_id): [],
    }
    assert spent(pair.leader) == 9
    pair.leader.grouping = None
    pair.leader.restart()
    pair.task = other
    assert await collected(pair) == (0, 3, 0, 0)


async def test_whoever_has_the_list_or_has_seen_openings_has_no_permit(pair: Pair) -> None:
    """A stolen list, an id that was seen, and what a helper learns of reports that it counts."""
    window = windows(pair.leader)[0].window
    hashes = [PERMITS.entry_of(SECRETS[0], window)]
    used = openings(pair.task, SECRETS[:1])
    hashes.append(PERMITS.report_id(used[0]))
    stolen = await pair.reports([3, 3], openings=hashes)
    assert names(pair, await pair.upload(stolen)) == ["permit_unknown"] * 2
    assert names(pair, await pair.upload(await reports_of(pair, SECRETS[:3], [0, 0, 0]))) == []
    await pair.work_until_idle()
    seen = await pair.reports([3], openings=used)
    assert names(pair, await pair.upload(seen)) == ["permit_spent"]
    assert await collected(pair) == (3, 0, 0, 0)


def files_of_helper(folder: Path) -> dict[Path, bytes]:
    """Return the files of the helper's store."""
    return {each: each.read_bytes() for each in folder.glob("helper.sqlite*")}


def put_back(folder: Path, files: dict[Path, bytes]) -> None:
    for each in folder.glob("helper.sqlite*"):
        each.unlink()
    for each, data in files.items():
        each.write_bytes(data)


@ON_SQLITE
async def test_a_store_that_was_set_back_forgets_sums_and_spent_permits_together(
    pair: Pair, tmp_path: Path
) -> None:
    before = files_of_helper(tmp_path)
    sent = await reports_of(pair, SECRETS[:3], [0, 1, 2])
    assert await answers(pair, sent) == ["counted"] * 3
    pair.helper.database.close()
    put_back(tmp_path, before)
    pair.helper.start()
    assert spent(pair.helper) == 0
    assert await answers(pair, sent) == ["counted"] * 3
    assert spent(pair.helper) == 3


async def test_tasks_of_different_domains_ask_for_different_permits(pair: Pair) -> None:
    other = permitted(OTHER_ID, bytes(32))
    await pair.provision(other)
    taken = await reports_of(pair, SECRETS[:1], [0])
    assert names(pair, await pair.upload(taken)) == []
    assert other.permits is not None
    foreign = await pair.reports([0], task=other, openings=openings(pair.task, SECRETS[:1]))
    assert names(pair, await pair.upload(foreign, other)) == ["permit_unknown"]


async def test_a_report_that_is_sealed_again_is_no_second_one(pair: Pair) -> None:
    time, entropy = pair.task.time(NOW), pair.client_entropy
    made = prepare_reports(pair.task, [0, 1, 2], time, entropy, openings(pair.task, SECRETS[:3]))
    configs = await pair.configs()
    for _ in range(2):
        sealed = [seal_report(pair.task, each, *configs, entropy) for each in made]
        assert names(pair, await pair.upload(sealed)) == []
    found = pair.leader.counts(pair.task, Stage.UPLOAD)
    assert found == {"stored": 3, "report_replayed": 3}


async def test_a_permit_is_never_forgotten_for_its_age_while_its_window_is_open(
    tmp_path: Path,
) -> None:
    day = 86_400
    # One window of 200 days, of reports that are refused when they are older than ten.
    task = permitted(window=200 * day // 100)
    ages = {"max_report_age_seconds": 10 * day}
    start = NOW - NOW % (200 * day)
    async with permitted_pair(
        tmp_path,
        task,
        leader_settings=LeaderSettings(database="none", **ages),
        helper_settings=HelperSettings(database="none", **ages),
    ) as pair:
        pair.clock.advance(start + 10 - NOW)
        for service in (pair.leader, pair.helper):
            given(service, task, start)
        first = await reports_of(pair, SECRETS[:3], [0, 0, 0], start)
        assert names(pair, await pair.upload(first)) == []
        await pair.work_until_idle()
        services = (pair.leader, pair.helper)
        for _ in range(3):
            for service in services:
                await forget_old_ids(service.runtime, ages["max_report_age_seconds"])
            pair.clock.advance(50 * day)
        again = await reports_of(pair, SECRETS[:3], [3, 3, 3], start + 150 * day)
        assert names(pair, await pair.upload(again)) == ["permit_spent"] * 3
        assert await answers(pair, again) == ["report_replayed"] * 3


async def test_a_person_may_have_several_permits_of_a_window(tmp_path: Path) -> None:
    task = permitted(privacy={"max_reports_per_person": 2})
    async with permitted_pair(tmp_path, task) as pair:
        window = windows(pair.leader)[0].window
        second = {window: [PERMITS.entry_of(each, window, 1) for each in SECRETS]}
        for service in (pair.leader, pair.helper):
            add_permits(service.database, listed(PERMITS.domain, second))
        both = [PERMITS.opening(SECRETS[0], window, number) for number in (0, 1)]
        third = PERMITS.opening(SECRETS[0], window, 2)
        sent = await pair.reports([0, 1, 2], openings=[*both, third])
        assert names(pair, await pair.upload(sent)) == ["permit_unknown"]
        await pair.upload(await reports_of(pair, SECRETS[1:2], [2]))
        assert await collected(pair) == (1, 1, 1, 0)
