"""`prio doctor` between the aggregators of a pair."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from aggregator.cli import doctor
from aggregator.cli.parties import AggregatorDesk
from aggregator.config import HelperSettings, LeaderSettings
from aggregator.dap.profile import Role
from aggregator.storage.tasks import replace_peer_token
from tests.support.pair import Pair
from tests.support.tasks import HELPER_URL, LEADER_URL, make_task

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path, make_task())
    await pair.provision()

    def client(_seconds: float, **_: object) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            mounts={
                LEADER_URL.rstrip("/"): httpx.ASGITransport(pair.leader),
                HELPER_URL.rstrip("/"): httpx.ASGITransport(pair.helper),
            }
        )

    monkeypatch.setattr(doctor, "open_client", client)
    yield pair
    await pair.close()


async def findings(desk: AggregatorDesk, endpoint: str) -> dict[str, tuple[str, str]]:
    found = await doctor._examine(desk, endpoint)
    return {each.subject: (each.verdict, each.says) for each in found}


def leaders(pair: Pair) -> AggregatorDesk:
    settings = LeaderSettings(database=":memory:")
    return AggregatorDesk(Role.LEADER, settings, pair.leader.database, pair.leader.journal)


async def test_a_leader_sees_that_its_helper_serves_the_task(pair: Pair) -> None:
    found = await findings(leaders(pair), HELPER_URL)
    assert found["HPKE"][0] == "ok"
    verdict, says = found["task"]
    assert verdict == "ok"
    assert pair.task.fingerprint in says
    assert says.endswith("the helper serves it and knows our token")


async def test_a_token_that_the_helper_does_not_know_is_a_fault(pair: Pair) -> None:
    await pair.leader.database.run(
        "other token", lambda tx: replace_peer_token(tx, pair.task.task_id.value, "another-token")
    )
    verdict, says = (await findings(leaders(pair), HELPER_URL))["task"]
    assert verdict == "fault"
    assert "401" in says
    assert "another-token" not in says


async def test_a_helper_sees_the_fingerprint_and_a_stranger_that_nothing_is_shared(
    pair: Pair,
) -> None:
    settings = HelperSettings(database=":memory:")
    desk = AggregatorDesk(Role.HELPER, settings, pair.helper.database, pair.helper.journal)
    assert (await findings(desk, LEADER_URL))["task"][1].endswith(pair.task.fingerprint)
    verdict, says = (await findings(desk, LEADER_URL.rstrip("/")))["tasks"]
    assert (verdict, "none of ours names" in says) == ("look", True)
