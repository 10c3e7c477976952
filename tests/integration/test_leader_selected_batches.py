"""A task whose leader selects the batches: filled one after the other, each released once."""

import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from aggregator.codec import encode
from aggregator.collector import Collection, CollectionTimeout, TaskCollector, opened, results
from aggregator.collector.driver import Driver
from aggregator.collector.opened import AsyncCollector
from aggregator.collector.results.result import Result
from aggregator.dap.auth import hash_token
from aggregator.dap.extensions import Extensions
from aggregator.dap.messages import CollectionJobReq, Report, TimeIntervalQuery
from aggregator.dap.problems import BatchInvalid
from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.protocol.leader_selected import LeaderSelected
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.service.config import CollectorSettings
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.batches.selected import next_batch as oldest
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.ledger.charges import list_ledger
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.caller_tokens import add_caller_token, end_caller_token
from aggregator.service.storage.tasks.tasks import end_task, replace_peer_token
from aggregator.service.transport.interpretation import PeerUnreachable
from tests.support.collector_service import CollectorService
from tests.support.helper_jobs import errors_of, send_job
from tests.support.pair import COLLECTOR_TOKEN, LEADER_TOKEN, NOW, Answer, Pair, Service
from tests.support.tasks import LAPLACE, NO_NOISE, TIME_PRECISION, collector_keypair, make_task

MODE = LeaderSelected()
SIZE = 3


def task_of(**privacy: str | int) -> Task:
    count = {"type": "Prio3Count"}
    return make_task(count, privacy or NO_NOISE, batch_mode="leader_selected", min_batch_size=SIZE)


@asynccontextmanager
async def running(folder: Path, task: Task | None = None, job_size: int = 2) -> AsyncIterator[Pair]:
    pair = Pair(folder, task or task_of(), job_size=job_size)
    await pair.provision()
    try:
        yield pair
    finally:
        await pair.close()


async def upload(pair: Pair, measurements: Sequence[int], seconds: int = NOW) -> None:
    assert (await pair.upload(await pair.reports(list(measurements), seconds))).status == ()


async def next_result(pair: Pair) -> Result:
    """Collect the next batch and have the leader forget it."""
    asked = await pair.ask()
    await pair.work_until_idle()
    location = asked.headers["location"]
    result = pair.open((await pair.poll(location)).body)
    await pair.forget(location)
    return result


async def next_batch(pair: Pair) -> tuple[int | None, ...]:
    return (await next_result(pair)).values


async def released(service: Service) -> list[Batch]:
    entries = await service.database.read("ledger", list_ledger)
    return [entry.batch for entry in entries]


def garbled(report: Report) -> Report:
    """Return a report that only the helper can tell is bad."""
    share = report.helper_encrypted_input_share
    payload = share.payload[:-1] + bytes([share.payload[-1] ^ 1])
    return dataclasses.replace(
        report, helper_encrypted_input_share=dataclasses.replace(share, payload=payload)
    )


async def offer(pair: Pair, reports: Sequence[Report], extensions: Extensions) -> Answer:
    """Ask the helper to aggregate reports, as a leader that does what it likes."""
    return await send_job(pair, await pair.job(reports, pair.clock.now(), extensions))


@pytest.mark.parametrize("job_size", [2, 100])
async def test_reports_come_out_in_batches_of_the_least_size_oldest_first(
    tmp_path: Path, job_size: int
) -> None:
    async with running(tmp_path, job_size=job_size) as pair:
        await upload(pair, [1, 1, 1, 0, 1, 0, 0])
        await pair.work_until_idle()
        assert await next_batch(pair) == (3,)
        assert await next_batch(pair) == (1,)
        for service in (pair.leader, pair.helper):
            first, second = await released(service)
            assert first != second
        assert await released(pair.leader) == await released(pair.helper)


async def test_a_result_covers_the_times_of_its_own_batch(tmp_path: Path) -> None:
    async with running(tmp_path) as pair:
        await upload(pair, [0, 0], NOW - 5 * TIME_PRECISION)
        await upload(pair, [0])
        assert (await pair.collect()).interval == pair.interval(NOW - 5 * TIME_PRECISION, 6)


async def test_two_batches_of_one_interval_are_two_draws_of_noise(tmp_path: Path) -> None:
    async with running(tmp_path, task_of(**LAPLACE)) as pair:
        await upload(pair, [0] * 6)
        first, second = await next_result(pair), await next_result(pair)
        assert first.interval == second.interval
        values = [results.Batch.of_result(pair.task, each)["0"] for each in (first, second)]
        assert len((values[0] - values[1]).terms) == 2


async def test_an_equal_request_gets_the_same_batch_until_the_collector_forgets_it(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, task_of(**LAPLACE)) as pair:
        await upload(pair, [0, 1] * SIZE)
        asked = await pair.ask()
        await pair.work_until_idle()
        first = await pair.poll(asked.headers["location"])
        for _ in range(2):
            again = await pair.ask()
            assert (again.headers["location"], again.body) == (
                asked.headers["location"],
                first.body,
            )
        await pair.forget(asked.headers["location"])
        other = await pair.ask()
        assert other.headers["location"] != asked.headers["location"]
        assert len(await released(pair.helper)) == 1


async def test_a_request_waits_until_a_batch_is_full(tmp_path: Path) -> None:
    async with running(tmp_path) as pair:
        await upload(pair, [1, 1])
        asked = await pair.ask()
        for _ in range(3):
            await pair.work()
            pair.clock.advance(5)
        assert (await pair.poll(asked.headers["location"])).body == b""
        await upload(pair, [0])
        await pair.work_until_idle()
        assert pair.open((await pair.poll(asked.headers["location"])).body).values == (2,)


async def test_once_the_task_has_ended_nobody_waits_for_a_batch_that_is_never_full(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as pair:
        await upload(pair, [1, 1])
        task_id = pair.task.task_id.value
        await pair.leader.database.run("end", lambda tx: end_task(tx, task_id))
        pair.clock.advance(3600)
        asked = await pair.ask()
        await pair.work_until_idle()
        failed = await pair.poll(asked.headers["location"])
        assert failed.problem_type == "invalidBatchSize"
        assert await released(pair.leader) == []


async def test_another_report_takes_the_place_of_a_rejected_one(tmp_path: Path) -> None:
    async with running(tmp_path) as pair:
        good, bad, other = await pair.reports([1, 1, 1])
        await pair.upload([good, garbled(bad), other])
        await upload(pair, [0, 0, 1])
        await pair.work_until_idle()
        assert await next_batch(pair) == (1,)  # the second, for the first has a place left
        await upload(pair, [0])
        assert await next_batch(pair) == (2,)


async def test_a_report_counts_in_one_batch_only_whatever_the_leader_does(tmp_path: Path) -> None:
    async with running(tmp_path) as pair:
        reports = await pair.reports([0, 0, 0])
        first = await offer(pair, reports, MODE.job_extensions(b"a" * 32))
        assert errors_of(first.body) == [None] * 3
        second = await offer(pair, reports, MODE.job_extensions(b"b" * 32))
        assert errors_of(second.body) == [ReportError.REPORT_REPLAYED] * 3


async def test_no_report_falls_into_a_batch_that_was_collected(tmp_path: Path) -> None:
    async with running(tmp_path) as pair:
        batch = MODE.selected(MODE.selector(Batch(b"a" * 32, b"a" * 32)), pair.request().query)
        task_id = pair.task.task_id.value
        await pair.helper.database.run("close", lambda tx: mark_collected(tx, task_id, batch))
        answer = await offer(pair, await pair.reports([0]), MODE.job_extensions(batch.first))
        assert errors_of(answer.body) == [ReportError.BATCH_COLLECTED]


async def test_the_helper_refuses_a_job_that_names_no_batch(tmp_path: Path) -> None:
    async with running(tmp_path) as pair:
        answer = await offer(pair, await pair.reports([0]), ())
        assert answer.problem_type == "invalidMessage"
        assert "leader_selected_batch_id: missing" in str(answer.problem["detail"])


async def test_a_query_for_an_interval_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as pair:
        body = encode(CollectionJobReq(TimeIntervalQuery(pair.interval())))
        url, message = pair.url_of("collection_jobs"), CollectionJobReq.message
        answer = await pair.send("POST", url, message, body, COLLECTOR_TOKEN)
        assert answer.problem_type == "invalidMessage"
        assert "leader_selected" in str(answer.problem["detail"])


async def test_each_aggregator_refuses_a_batch_more_than_the_task_may_release(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, task_of(**LAPLACE, max_releases=1)) as pair:
        await upload(pair, [0] * 6)
        await pair.work_until_idle()
        await next_batch(pair)
        asked = await pair.ask()
        await pair.work_until_idle()
        failed = await pair.poll(asked.headers["location"])
        assert failed.problem_type.endswith("budget-exceeded")
        assert len(await released(pair.leader)) == len(await released(pair.helper)) == 1


async def test_a_batch_that_the_helper_refused_does_not_stand_in_the_way_of_the_next(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as pair:
        await upload(pair, [1, 1, 1, 0, 0, 1])
        await pair.work_until_idle()
        task_id = pair.task.task_id.value
        batch = await pair.leader.database.read("oldest", lambda tx: oldest(tx, task_id, SIZE))
        assert batch is not None
        await pair.helper.database.run("close", lambda tx: mark_collected(tx, task_id, batch))
        asked = await pair.ask()
        await pair.work_until_idle()
        failed = await pair.poll(asked.headers["location"])
        assert failed.problem_type == "batchOverlap"
        assert await released(pair.leader) == []
        assert await next_batch(pair) == (1,)


REQUIREMENTS, TOKEN = "more is required now", "a token was retired"


@pytest.mark.parametrize("wrong", [REQUIREMENTS, TOKEN])
async def test_a_batch_outlasts_a_wrong_setting_of_the_helper(tmp_path: Path, wrong: str) -> None:
    async with running(tmp_path) as pair:
        await upload(pair, [1, 1, 1])
        await pair.work_until_idle()
        task_id, helper = pair.task.task_id.value, pair.helper
        if wrong == REQUIREMENTS:
            helper.requirements = Requirements(min_batch_size=100)
            helper.restart()
        else:
            new = hash_token("another")
            await helper.database.run("new", lambda tx: add_caller_token(tx, task_id, new))
            old = hash_token(LEADER_TOKEN)
            await helper.database.run("old", lambda tx: end_caller_token(tx, task_id, old, 0))
        asked = await pair.ask()
        for _ in range(5):
            await pair.work()
            pair.clock.advance(1800)
        failed = await pair.poll(asked.headers["location"])
        expected = "task-refused" if wrong == REQUIREMENTS else "collection-failed"
        assert failed.problem_type == expected
        if wrong == REQUIREMENTS:
            helper.requirements = Requirements()
            helper.restart()
        else:
            await pair.leader.database.run(
                "use", lambda tx: replace_peer_token(tx, task_id, "another")
            )
        assert await next_batch(pair) == (3,)


@asynccontextmanager
async def collecting(folder: Path, pair: Pair) -> AsyncIterator[tuple[Driver, httpx.AsyncClient]]:
    """Yield a collector's driver, and a client of its service."""
    service = CollectorService(folder, pair.task, clock=pair.clock, http=pair.http)
    async with service.client(path=f"/api/tasks/{pair.task.task_id}", shows_token=True) as api:
        yield service.driver, api
    service.database.close()


async def finish(driver: Driver, pair: Pair, collection_id: str) -> None:
    for _ in range(5):
        if await driver.ask(bytes.fromhex(collection_id)) is None:
            return
        await pair.work_until_idle()
    raise AssertionError("the collection never ended")


async def test_the_collector_service_keeps_one_batch_after_the_other(tmp_path: Path) -> None:
    async with running(tmp_path) as pair, collecting(tmp_path, pair) as (driver, api):
        await upload(pair, [1, 1, 1, 0, 0, 1])
        for _ in range(2):
            asked = await api.post("/collections", json={})
            assert (asked.status_code, asked.json()["query"]) == (201, {})
            again = await api.post("/collections", json={})
            assert again.json()["collection_id"] == asked.json()["collection_id"]
            await finish(driver, pair, asked.json()["collection_id"])
        kept = (await api.get("/collections")).json()
        assert [each["result"]["values"] for each in kept] == [[3], [1]]
        refused = await api.post("/collections", json={"start": 0, "end": TIME_PRECISION})
        assert refused.status_code == 400
        assert "start: the task is leader_selected" in refused.json()["detail"]


async def test_a_notebook_lists_selected_batches_by_the_times_of_their_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as pair, collecting(tmp_path, pair) as (driver, api):
        await upload(pair, [1, 1, 1])
        asked = await api.post("/collections", json={})
        await finish(driver, pair, asked.json()["collection_id"])
        notebook = notebook_of(tmp_path, pair, monkeypatch)
        (found,) = await notebook.results(pair.task)
        assert (found.start, found.end) == found.reports_between


async def test_a_notebook_collects_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as pair, collecting(tmp_path, pair) as (_, api):
        notebook = notebook_of(tmp_path, pair, monkeypatch)
        await upload(pair, [1, 1, 1, 0, 0, 1])
        found = [await notebook.collect_next(pair.task) for _ in range(2)]
        assert [each.result["values"] for each in found] == [[3], [1]]
        kept = (await api.get("/collections")).json()
        assert kept == [each.document for each in found]
        with pytest.raises(CollectionTimeout, match="was not ready"):
            await notebook.collect_next(pair.task, wait=timedelta(seconds=0.1))
        with pytest.raises(BatchInvalid, match="start: the task is leader_selected"):
            await notebook.collect(pair.task, datetime(2026, 11, 2, tzinfo=UTC), timedelta(hours=1))


def notebook_of(folder: Path, pair: Pair, patch: pytest.MonkeyPatch) -> AsyncCollector:
    """Return a collector whose leader works on a collection before it answers."""

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            await pair.http.send(request)
            await pair.work_until_idle()
        return await pair.http.send(request)

    transport = httpx.MockTransport(answer)
    patch.setattr(opened, "client_of", lambda _: httpx.AsyncClient(transport=transport))
    patch.setattr(opened, "keypair_of", lambda _: collector_keypair())
    store = str(folder / "collector.sqlite")
    database = Database.open(f"sqlite:///{store}", Crypter([bytes(32)]), pair.clock)
    return AsyncCollector(CollectorSettings(database=store), database)


async def test_a_batch_that_the_leader_was_not_told_to_forget_is_not_kept_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forget(_collector: TaskCollector, _collection: Collection) -> None:
        raise PeerUnreachable("the leader is away")

    async with running(tmp_path) as pair, collecting(tmp_path, pair) as (driver, api):
        await upload(pair, [1, 1, 1, 0, 0, 1])
        with monkeypatch.context() as patch:
            patch.setattr(TaskCollector, "forget", forget)
            asked = await api.post("/collections", json={})
            await finish(driver, pair, asked.json()["collection_id"])
        asked = await api.post("/collections", json={})
        await finish(driver, pair, asked.json()["collection_id"])
        kept = (await api.get("/collections")).json()
        assert [each["result"]["values"] for each in kept] == [[3], [1]]
