"""Many at once: the same request twice, two drivers, uploads in a group, a helper that is away."""

import threading
import time
from collections import defaultdict
from typing import Any

import anyio
import httpx
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from aggregator.codec import encode
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import Report, UploadRequest
from aggregator.dap.problems import TaskRefused, UnrecognizedTask
from aggregator.dap.report_errors import ReportError
from aggregator.errors import StoreError
from aggregator.protocol.reports import MAX_AGE_SECONDS
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.config import GROUP_REPORTS
from aggregator.service.leader import job_creator, upload_group, uploads
from aggregator.service.leader.collections import CollectionDriver
from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.leader.job_driver import JobDriver
from aggregator.service.leader.uploads import Grouping, Uploads
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.charges import list_ledger
from aggregator.service.storage.reports.counters import Stage, report_counts
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.tasks import TaskRecord, end_task, put_task
from aggregator.service.transport.driver import DriverSettings
from tests.support.helper_jobs import send_job
from tests.support.pair import Answer, Died, Pair, pair_of
from tests.support.patience import PATIENCE_SECONDS, yardstick
from tests.support.tasks import LAPLACE, TASK_ID, make_task

pair = pair_of(privacy=LAPLACE, job_size=2)


async def test_the_same_aggregation_request_many_times_at_once_is_one_job(pair: Pair) -> None:
    body = await pair.job(await pair.reports([0, 1, 2]))
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await send_job(pair, body))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(ask)
    assert (
        len({(answer.status, answer.body, answer.headers["location"]) for answer in answers}) == 1
    )
    assert pair.helper.counts(pair.task) == {"aggregated": 3}


async def test_the_same_collection_request_many_times_at_once_is_one_release(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    locations: set[str] = set()

    async def ask() -> None:
        locations.add((await pair.ask()).headers["location"])

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(ask)
    assert len(locations) == 1
    await pair.work_until_idle()
    for service in (pair.leader, pair.helper):
        assert len(await service.database.read("ledger", list_ledger)) == 1


async def test_two_drivers_share_the_jobs_and_count_every_report_once(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2, 3] * 5))
    await JobCreator(pair.leader.runtime, job_size=2, linger_seconds=0).run_once()
    settings = DriverSettings(concurrency=3, lease_seconds=30, max_attempts=5, peer_attempts=1)

    async def drive() -> None:
        driver = JobDriver(pair.leader.runtime, pair.http, settings)
        while await driver.run_once():
            pass

    async with anyio.create_task_group() as group:
        group.start_soon(drive)
        group.start_soon(drive)
    assert pair.helper.counts(pair.task) == {"aggregated": 20}


def group_by(pair: Pair, grouping: Grouping) -> None:
    pair.leader.grouping = grouping
    pair.leader.restart()


async def upload_at_once(pair: Pair, count: int) -> int:
    """Upload reports, each in its own request; return in how many transactions they were stored."""
    written: list[str] = []
    batches = [await pair.reports([n % 4]) for n in range(count)]

    def note(transaction: str, moment: str) -> None:
        if (transaction, moment) == ("upload", "committed"):
            written.append(transaction)

    pair.leader.on_moment = note
    async with anyio.create_task_group() as group:
        for reports in batches:
            group.start_soon(pair.upload, reports)
    return len(written)


async def test_uploads_that_arrive_together_are_written_together(pair: Pair) -> None:
    assert await upload_at_once(pair, 30) < 30
    assert (await pair.collect()).report_count == 30


async def test_uploads_wait_for_others_if_they_are_told_to(pair: Pair) -> None:
    group_by(pair, Grouping(reports=30, delay_seconds=3600))
    with anyio.fail_after(PATIENCE_SECONDS):
        assert await upload_at_once(pair, 30) == 1
    assert (await pair.collect()).report_count == 30


async def test_uploads_wait_for_others_no_longer_than_they_are_told_to(pair: Pair) -> None:
    group_by(pair, Grouping(reports=30, delay_seconds=0.1))
    began = time.monotonic()
    assert await upload_at_once(pair, 1) == 1
    assert 0.1 <= time.monotonic() - began < PATIENCE_SECONDS


async def test_a_full_group_waits_for_no_others(pair: Pair) -> None:
    group_by(pair, Grouping(reports=3, delay_seconds=3600))
    with anyio.fail_after(PATIENCE_SECONDS):
        assert (await pair.upload(await pair.reports([0, 1, 2]))).status == ()


async def test_a_large_upload_is_written_in_pieces_that_others_come_between(
    pair: Pair,
) -> None:
    taken = Uploads(pair.leader.runtime, MAX_AGE_SECONDS, Grouping(reports=2))
    large, small = await pair.reports([0, 1, 2, 3, 0, 1, 2]), await pair.reports([3])
    answered: list[int] = []
    is_waiting = threading.Event()

    def hold(transaction: str, moment: str) -> None:
        if (transaction, moment) == ("upload", "begin"):
            is_waiting.wait(PATIENCE_SECONDS)

    async def upload(reports: list[Report]) -> None:
        body = encode(UploadRequest(tuple(reports)))
        assert (await taken.take(pair.task.task_id, body)).status == ()
        answered.append(len(reports))

    pair.leader.on_moment = hold
    async with anyio.create_task_group() as group:
        for reports in (large, small):
            group.start_soon(upload, reports)
        while not taken._waiting:  # noqa: ASYNC110 - it is polled
            await anyio.sleep(0.01)
        is_waiting.set()
    assert answered == [1, 7]
    assert (await pair.collect()).report_count == 8


async def test_of_requests_that_wait_and_are_cancelled_nothing_is_written(pair: Pair) -> None:
    taken = Uploads(pair.leader.runtime, MAX_AGE_SECONDS, Grouping(reports=1))
    bodies = [encode(UploadRequest((each,))) for each in await pair.reports([0, 1, 2, 3])]
    scopes = [anyio.CancelScope() for _ in bodies]
    is_held = threading.Event()
    answered: list[int] = []

    async def upload(number: int) -> None:
        with scopes[number]:
            assert (await taken.take(pair.task.task_id, bodies[number])).status == ()
            answered.append(number)

    def hold(transaction: str, moment: str) -> None:
        if (transaction, moment) == ("upload", "begin"):
            is_held.wait(PATIENCE_SECONDS)

    pair.leader.on_moment = hold
    await pair.leader.runtime.upload_terms(pair.task.task_id)  # nobody reads, so none overtakes
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(upload, number)
            while len([*taken._waiting]) < 3:  # noqa: ASYNC110 - it is polled
                await anyio.sleep(0.01)
            scopes[0].cancel()  # it is being written, and stays so
            scopes[2].cancel()
            await checkpoint()
            is_held.set()
    assert answered == [1, 3]
    counts = await pair.leader.database.read(
        "counts", lambda tx: report_counts(tx, pair.task.task_id.value, Stage.UPLOAD)
    )
    assert counts == {"stored": 3}


async def test_a_fault_of_our_own_while_uploads_are_written_is_told_once_and_stops_no_other(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Uploads(pair.leader.runtime, MAX_AGE_SECONDS)
    bodies = [encode(UploadRequest((each,))) for each in await pair.reports([0, 1, 2])]
    raised: list[BaseException] = []

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def upload(body: bytes) -> None:
        try:
            await taken.take(pair.task.task_id, body)
        except (ZeroDivisionError, StoreError) as error:
            raised.append(error)

    await pair.leader.runtime.upload_terms(pair.task.task_id)
    with monkeypatch.context() as patch:
        patch.setattr(uploads, "put_group", fail)
        async with anyio.create_task_group() as group:
            for body in bodies:
                group.start_soon(upload, body)
        assert sorted(type(each).__name__ for each in raised) == [
            "StoreError",
            "StoreError",
            "ZeroDivisionError",
        ]
    for body in bodies:
        assert (await taken.take(pair.task.task_id, body)).status == ()


async def test_a_fault_of_our_own_for_which_nobody_waits_any_more_is_logged(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Uploads(pair.leader.runtime, MAX_AGE_SECONDS)
    (report,) = await pair.reports([0])
    begun, left = threading.Event(), threading.Event()

    def fail(*_: object) -> None:
        begun.set()
        left.wait(PATIENCE_SECONDS)
        raise ZeroDivisionError

    monkeypatch.setattr(uploads, "put_group", fail)
    with capture_logs() as lines:
        async with anyio.create_task_group() as group:
            group.start_soon(taken.take, pair.task.task_id, encode(UploadRequest((report,))))
            await to_thread.run_sync(begun.wait, PATIENCE_SECONDS)
            group.cancel_scope.cancel()
        left.set()
        with anyio.fail_after(PATIENCE_SECONDS):
            while taken._writer is not None:  # noqa: ASYNC110 - it is polled
                await anyio.sleep(0.01)
    assert [line["event"] for line in lines] == ["uploads failed"]


async def test_a_request_of_which_a_piece_failed_is_repeated_and_counts_once(
    pair: Pair,
) -> None:
    group_by(pair, Grouping(reports=2))
    reports = await pair.reports([0, 1, 2, 3])
    begun: list[str] = []

    def fail_the_second(transaction: str, moment: str) -> None:
        if (transaction, moment) == ("upload", "begin"):
            begun.append(transaction)
            if len(begun) == 2:
                raise StoreError("a fault")

    pair.leader.on_moment = fail_the_second
    with pytest.raises(AssertionError):
        await pair.upload(reports)
    assert (await pair.upload(reports)).status == ()
    assert (await pair.collect()).report_count == 4


@pytest.mark.slow
async def test_no_transaction_of_a_large_upload_holds_the_writer_for_long(pair: Pair) -> None:
    reports = await pair.reports([n % 4 for n in range(8 * GROUP_REPORTS)])
    began: list[float] = []
    held: list[float] = []

    def note(transaction: str, moment: str) -> None:
        if transaction == "upload" and moment == "begin":
            began.append(time.thread_time())
        if transaction == "upload" and moment == "committed":
            seconds = time.thread_time() - began[-1]
            held.append(seconds / yardstick(time.thread_time))

    pair.leader.on_moment = note
    await pair.upload(reports)
    assert len(held) == 8
    assert sorted(held)[-2] < 12  # one may meet the garbage collector


@pytest.mark.slow
async def test_a_transaction_locks_a_bounded_number_of_tasks(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: defaultdict[int, set[bytes]] = defaultdict(set)

    def noted(tx: Transaction, task_id: bytes, *more: Any) -> list[ReportError | None]:  # noqa: ANN401  as they come
        locked[id(tx.shards)].add(task_id)
        kept.append(tx)
        return put_reports(tx, task_id, *more)

    kept: list[Transaction] = []  # whose ids are not used again
    monkeypatch.setattr(upload_group, "put_reports", noted)
    tasks = [
        make_task(privacy=LAPLACE, id=str(TaskId(number.to_bytes(32, "big"))))
        for number in range(3 * uploads.GROUP_TASKS)
    ]

    def provision(tx: Transaction) -> None:
        for task in tasks:
            text = task_to_toml(task)
            put_task(tx, TaskRecord(task.task_id.value, "leader", text, bytes(32)))

    await pair.leader.database.run("provision", provision)
    taken = Uploads(pair.leader.runtime, MAX_AGE_SECONDS)

    async def upload(task: Task) -> None:
        body = encode(UploadRequest(tuple(await pair.reports([0], task=task))))
        assert (await taken.take(task.task_id, body)).status == ()

    all_are_here = threading.Event()

    def hold(transaction: str, moment: str) -> None:
        if (transaction, moment) == ("upload", "begin"):
            all_are_here.wait(PATIENCE_SECONDS)

    pair.leader.on_moment = hold
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(upload, task)
        while len([*taken._waiting]) < len(tasks) - uploads.GROUP_TASKS:  # noqa: ASYNC110 - it is polled
            await anyio.sleep(0.01)
        all_are_here.set()
    assert sum(map(len, locked.values())) == len(tasks)
    assert max(map(len, locked.values())) == uploads.GROUP_TASKS


async def test_a_flood_of_uploads_for_one_task_delays_another_by_one_transaction(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "GROUP_SIZE", 1)
    other = make_task(privacy=LAPLACE, id=str(TaskId(bytes(32))))
    record = TaskRecord(other.task_id.value, "leader", task_to_toml(other), bytes(32))
    await pair.leader.database.run("provision", lambda tx: put_task(tx, record))
    taken = Uploads(pair.leader.runtime, MAX_AGE_SECONDS)
    tasks = (*[pair.task] * 40, other)
    bodies = [encode(UploadRequest(tuple(await pair.reports([0], task=task)))) for task in tasks]
    stored: list[Task] = []

    all_are_here = threading.Event()

    def hold(transaction: str, moment: str) -> None:
        if (transaction, moment) == ("upload", "begin"):
            all_are_here.wait(PATIENCE_SECONDS)

    async def upload(task: Task, body: bytes) -> None:
        await taken.take(task.task_id, body)
        stored.append(task)

    pair.leader.on_moment = hold
    async with anyio.create_task_group() as group:
        for task, body in zip(tasks, bodies, strict=True):
            group.start_soon(upload, task, body)
        while len([*taken._waiting]) < 40:  # noqa: ASYNC110 - it is polled
            await anyio.sleep(0.01)
        all_are_here.set()
    assert len(stored) == 41
    assert stored.index(other) <= 2


async def test_when_a_groups_transaction_fails_none_of_its_clients_is_told_of_success(
    pair: Pair,
) -> None:
    def die(transaction: str, moment: str) -> None:
        if (transaction, moment) == ("upload", "before commit"):
            raise Died

    batches = [await pair.reports([n % 4]) for n in range(5)]
    pair.leader.on_moment = die
    outcomes: list[str] = []

    async def upload(index: int) -> None:
        try:
            await pair.upload(batches[index])
        except (httpx.TransportError, AssertionError):
            outcomes.append("failed")
        else:
            outcomes.append("stored")

    async with anyio.create_task_group() as group:
        for index in range(5):
            group.start_soon(upload, index)
    assert outcomes == ["failed"] * 5


async def test_of_uploads_written_together_only_those_of_a_forgotten_task_fail(pair: Pair) -> None:
    database = pair.leader.database
    other = make_task(privacy=LAPLACE, id=str(TaskId(bytes(32))))
    record = TaskRecord(other.task_id.value, "leader", task_to_toml(other), bytes(32))
    await database.run("provision", lambda tx: put_task(tx, record))
    taken = Uploads(pair.leader.runtime, MAX_AGE_SECONDS)
    tasks = (pair.task, other, pair.task)
    for task in tasks:
        await pair.leader.runtime.upload_terms(task.task_id)  # remembered
    bodies = [encode(UploadRequest(tuple(await pair.reports([0], task=task)))) for task in tasks]
    await database.run("end", lambda tx: end_task(tx, other.task_id.value))
    forget(database, other.task_id.value)
    outcomes: list[str] = []

    async def upload(index: int) -> None:
        try:
            await taken.take(tasks[index].task_id, bodies[index])
        except UnrecognizedTask:
            outcomes.append("no such task")
        else:
            outcomes.append("stored")

    async with anyio.create_task_group() as group:
        for index in range(3):
            group.start_soon(upload, index)
    assert sorted(outcomes) == ["no such task", "stored", "stored"]
    count = await database.read("counts", lambda tx: report_counts(tx, TASK_ID.value, Stage.UPLOAD))
    assert count == {"stored": 2}


async def test_a_report_that_is_uploaded_many_times_at_once_is_counted_once(pair: Pair) -> None:
    reports = await pair.reports([0, 1, 2])
    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(pair.upload, reports)
    assert (await pair.collect()).report_count == 3


async def test_a_few_reports_wait_for_company_and_then_go_alone(pair: Pair) -> None:
    creator = JobCreator(pair.leader.runtime, job_size=10, linger_seconds=5)
    await pair.upload(await pair.reports([0, 1, 2]))
    assert await creator.run_once() == 0
    pair.clock.advance(4)
    assert await creator.run_once() == 0
    pair.clock.advance(1)
    assert await creator.run_once() == 1


async def test_full_jobs_are_made_at_once_and_the_rest_waits(pair: Pair) -> None:
    creator = JobCreator(pair.leader.runtime, job_size=10, linger_seconds=5)
    await pair.upload(await pair.reports([0] * 23))
    assert await creator.run_once() == 2
    pair.clock.advance(1)
    assert await creator.run_once() == 0


async def test_reports_of_long_vectors_fill_a_job_sooner(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = await pair.reports([0] * 9)
    monkeypatch.setattr(job_creator, "MAX_JOB_BYTES", 4 * len(encode(reports[0])))
    await pair.upload(reports)
    assert await JobCreator(pair.leader.runtime, job_size=100, linger_seconds=5).run_once() == 2


async def test_a_helper_that_is_away_costs_nothing_but_time(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    away = httpx.AsyncClient(transport=httpx.MockTransport(_no_answer))
    settings = DriverSettings(concurrency=3, lease_seconds=30, max_attempts=5, peer_attempts=1)
    await JobCreator(pair.leader.runtime, job_size=10, linger_seconds=0).run_once()
    for _ in range(8):
        await JobDriver(pair.leader.runtime, away, settings).run_once()
        pair.clock.advance(61)
    assert (await pair.collect()).report_count == 3
    await away.aclose()


@pytest.mark.parametrize("driver", [JobDriver, CollectionDriver])
async def test_the_page_of_a_proxy_in_between_is_not_the_helpers_answer(
    pair: Pair, driver: type[JobDriver] | type[CollectionDriver]
) -> None:
    """A job given up for it would lose its reports, which the helper never saw."""
    page = httpx.Response(200, html="<html>back soon</html>")
    proxied = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: page))
    settings = DriverSettings(concurrency=3, lease_seconds=30, max_attempts=5, peer_attempts=1)
    await pair.upload(await pair.reports([0, 1, 2]))
    if driver is CollectionDriver:
        await pair.work_until_idle()
    else:
        await JobCreator(pair.leader.runtime, job_size=10, linger_seconds=0).run_once()
    await pair.ask()
    assert await driver(pair.leader.runtime, proxied, settings).run_once() == 1
    pair.clock.advance(61)
    assert (await pair.collect()).report_count == 3
    await proxied.aclose()


async def test_an_outage_does_not_count_as_a_refusal(pair: Pair) -> None:
    """After it, one refusal that an operator can repair must not cost the reports."""
    await pair.upload(await pair.reports([0, 1, 2]))
    problem = {"type": TaskRefused.type_uri}
    answers: list[httpx.Response] = []

    def answer(_request: httpx.Request) -> httpx.Response:
        if not answers:
            raise httpx.ConnectError("nobody there")
        return answers.pop()

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    settings = DriverSettings(concurrency=3, lease_seconds=30, max_attempts=3, peer_attempts=1)
    await JobCreator(pair.leader.runtime, job_size=10, linger_seconds=0).run_once()
    driver = JobDriver(pair.leader.runtime, http, settings)
    for _ in range(5):
        await driver.run_once()
        pair.clock.advance(61)
    answers.append(
        httpx.Response(400, json=problem, headers={"content-type": "application/problem+json"})
    )
    await driver.run_once()
    pair.clock.advance(61)
    assert (await pair.collect()).report_count == 3
    await http.aclose()


async def test_a_deferred_answer_is_polled_where_the_helper_put_it(pair: Pair) -> None:
    """The helper takes the request, answers with nothing, and has the answer later."""
    await pair.upload(await pair.reports([0, 1, 2]))
    held: list[httpx.Response] = []
    polled: list[str] = []

    async def deferring(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            held.append(
                await pair.http.request(
                    "POST", request.url, content=request.content, headers=request.headers
                )
            )
            location = held[0].headers["location"] + "?step=0"
            headers = {"location": location, "retry-after": "3"}
            return httpx.Response(202, headers=headers)
        polled.append(str(request.url))
        return httpx.Response(200, content=held[0].content, headers=held[0].headers)

    http = httpx.AsyncClient(transport=httpx.MockTransport(deferring))
    settings = DriverSettings(concurrency=3, lease_seconds=30, max_attempts=5, peer_attempts=1)
    await JobCreator(pair.leader.runtime, job_size=10, linger_seconds=0).run_once()
    assert await JobDriver(pair.leader.runtime, http, settings).run_once() == 1
    assert await JobDriver(pair.leader.runtime, http, settings).run_once() == 0
    pair.clock.advance(3)
    assert await JobDriver(pair.leader.runtime, http, settings).run_once() == 1
    assert polled == [f"https://helper.example{held[0].headers['location']}?step=0"]
    assert (await pair.collect()).report_count == 3
    await http.aclose()


def _no_answer(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody there")
