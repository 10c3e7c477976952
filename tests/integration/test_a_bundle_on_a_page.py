"""A bundle of reports that is handed in by a form of the collector's pages, and its histogram."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NoReturn

import anyio
import anyio.lowlevel
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.codec import encode
from aggregator.collector import store
from aggregator.collector.collect import Collection, TaskCollector
from aggregator.collector.pages.forms import parts_of
from aggregator.dap.messages import Report, UploadRequest
from aggregator.errors import PeerError
from aggregator.protocol.reports import prepare_reports, seal_reports
from aggregator.service.config import LeaderSettings
from aggregator.service.storage.engine.states import CollectionState
from tests.support.collector_service import CollectorService, log_in
from tests.support.entropy import SeededEntropy
from tests.support.look import Page
from tests.support.pair import Pair
from tests.support.tasks import ATTRIBUTION, NO_NOISE, make_task

SIZE = 4
HISTOGRAMS = [[1, 0, 2], [0, 0, 3], [3, 0, 0], [0, 1, 0]]
TASK = make_task(
    {"type": "Prio3L1BoundSum", "length": 3, "max_value": 3, "chunk_length": 3},
    {**NO_NOISE, "bound": False},
    attribution=ATTRIBUTION,
    batch_mode="collector_selected",
    min_batch_size=SIZE,
)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with Pair(
        tmp_path, TASK, leader_settings=LeaderSettings(database="none", bundle_linger_seconds=0)
    ) as made:
        yield made


@pytest.fixture
def service(pair: Pair, tmp_path: Path) -> CollectorService:
    (tmp_path / "site").mkdir()
    return CollectorService(tmp_path / "site", TASK, http=pair.http, clock=pair.clock)


async def bundle(pair: Pair, *budgets: int) -> bytes:
    """Return encoded reports of the histograms."""
    entropy, (leader, helper) = SeededEntropy(sum(budgets)), await pair.configs()
    reports = []
    for histogram, budget in zip(HISTOGRAMS, budgets, strict=True):
        now = TASK.time(pair.clock.now())
        prepared = prepare_reports(TASK, [histogram], now, entropy, budget=budget)
        reports += seal_reports(TASK, prepared, leader, helper, entropy)
    return encode(UploadRequest(tuple(reports)))


async def hand_in(
    client: httpx.AsyncClient, reports: bytes, epsilon: str = "1/2", **fields: str
) -> httpx.Response:
    """Send the form of the page of a task's batches."""
    path = f"/questions/{TASK.task_id}"
    form = Page((await client.get(f"{path}/batches")).text).form(f"{path}/bundle")
    data = {**form, "epsilon": epsilon, **fields}
    data.pop("reports", None)
    return await client.post(f"{path}/bundle", data=data, files={"reports": ("file", reports)})


async def collected(pair: Pair, service: CollectorService) -> list[CollectionState]:
    """Let all parties work until nothing is pending; return how the collections ended."""
    for _ in range(20):
        pending = service.database.read_sync(
            "pending", lambda tx: store.list_collections(tx, state=CollectionState.PENDING)
        )
        for each in pending:
            await service.driver.ask(each.collection_id)
        if not pending:
            break
        await pair.work_until_idle()
    found = service.database.read_sync("all", store.list_collections)
    return [each.state for each in found]


async def test_a_bundle_is_handed_in_by_a_form_and_its_histogram_is_shown(
    pair: Pair, service: CollectorService
) -> None:
    async with service.client() as client:
        await log_in(client)
        answer = await hand_in(client, await bundle(pair, *[500_000] * SIZE))
        assert answer.status_code == 303, answer.text
        assert await collected(pair, service) == [CollectionState.FINISHED]
        shown = (await client.get(f"/questions/{TASK.task_id}.json")).json()
        assert [each["value"] for each in shown["rows"]] == [4, 1, 5]


async def test_who_is_refused_is_said_and_a_bundle_that_comes_to_nothing_may_be_handed_in_again(
    pair: Pair, service: CollectorService
) -> None:
    async with service.client() as client:
        await log_in(client)
        poor = await bundle(pair, 500_000, 500_000, 500_000, 499_999)
        answer = await hand_in(client, poor)
        assert (answer.status_code, "1 of 4 reports (report_dropped 1)" in answer.text) == (
            200,
            True,
        )
        assert await collected(pair, service) == [CollectionState.FAILED]
        answer = await hand_in(client, poor, "0.499999")
        assert answer.status_code == 303, answer.text
        assert (await collected(pair, service))[-1] == CollectionState.FINISHED
        again = await hand_in(client, poor, "0.499999")
        assert "4 of 4 reports (report_replayed 4)" in again.text


async def test_a_bundle_whose_upload_breaks_off_may_be_handed_in_again(
    pair: Pair, service: CollectorService, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in_reports = TaskCollector.hand_in

    async def broken(
        self: TaskCollector, collection: Collection, reports: Sequence[Report]
    ) -> NoReturn:
        await hand_in_reports(self, collection, reports)
        raise PeerError("the leader does not answer")

    reports = await bundle(pair, *[500_000] * SIZE)
    async with service.client() as client:
        await log_in(client)
        with monkeypatch.context() as patched:
            patched.setattr(TaskCollector, "hand_in", broken)
            answer = await hand_in(client, reports)
        assert (answer.status_code, "the leader does not answer" in answer.text) == (400, True)
        assert (await hand_in(client, reports)).status_code == 303
        ended = await collected(pair, service)
        assert ended == [CollectionState.ABANDONED, CollectionState.FINISHED]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_bundle_that_breaks_off_is_free_when_the_leader_is_there_again(
    pair: Pair, service: CollectorService, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    hand_in_reports, scope = TaskCollector.hand_in, anyio.CancelScope()

    async def broken(
        self: TaskCollector, collection: Collection, reports: Sequence[Report]
    ) -> NoReturn:
        await hand_in_reports(self, collection, reports)
        if is_cancelled:
            scope.cancel()
        await anyio.lowlevel.checkpoint()
        raise PeerError("the leader does not answer")

    async def unheard(_: TaskCollector, __: Collection) -> NoReturn:
        raise PeerError("the leader does not answer")

    reports = await bundle(pair, *[500_000] * SIZE)
    async with service.client() as client:
        await log_in(client)
        with monkeypatch.context() as patched, scope:
            patched.setattr(TaskCollector, "hand_in", broken)
            patched.setattr(TaskCollector, "forget", unheard)
            assert "the leader does not answer" in (await hand_in(client, reports)).text
        assert scope.cancelled_caught is is_cancelled
        (broken_off,) = service.database.read_sync("all", store.list_collections)
        await hand_in(client, reports)  # too early, but that changes nothing
        await service.driver.ask(broken_off.collection_id)
        await collected(pair, service)
        assert (await hand_in(client, reports)).status_code == 303
        assert (await collected(pair, service))[-1] is CollectionState.FINISHED


@pytest.mark.parametrize(
    ("data", "epsilon", "said"),
    [
        (b"no reports", "1/2", "no reports one after the other"),
        (b"", "a half", "epsilon"),
        (b"", "1/2", "nothing is there"),
    ],
)
async def test_what_cannot_be_handed_in_is_refused_by_name(
    pair: Pair, service: CollectorService, data: bytes, epsilon: str, said: str
) -> None:
    async with service.client() as client:
        await log_in(client)
        answer = await hand_in(client, data, epsilon)
        assert (answer.status_code, said in answer.text) == (400, True)
        stranger = await hand_in(client, await bundle(pair, *[500_000] * SIZE), csrf="another")
        assert stranger.status_code == 403
    assert await collected(pair, service) == []


@given(st.binary(max_size=200), st.sampled_from([b"\r", b"\n", b"\r\n", b""]))
def test_a_file_in_a_form_comes_as_it_is(content: bytes, ending: bytes) -> None:
    body = httpx.Request(
        "POST", "http://x", files={"reports": ("a", content + ending)}, data={"epsilon": "1/2"}
    )
    found = parts_of(body.headers["content-type"], body.read())
    assert found == {"reports": content + ending, "epsilon": b"1/2"}
