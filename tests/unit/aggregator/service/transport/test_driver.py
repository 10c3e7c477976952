"""Leased jobs side by side: none waits for another, and none is stepped by two drivers."""

import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import structlog
from structlog.testing import capture_logs
from typing_extensions import override

from aggregator.clock import Clock, SystemClock
from aggregator.dap.profile import Role
from aggregator.errors import AggregatorError, StoreError
from aggregator.service.runtime import Runtime
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import (
    AGGREGATION_JOBS,
    AggregationJob,
    create_aggregation_job,
)
from aggregator.service.storage.jobs.leases import Jobs, Lease, Leased, LeaseLost
from aggregator.service.storage.operator.interventions import abandon_aggregation_job
from aggregator.service.storage.operator.job_lists import list_waiting
from aggregator.service.storage.reports.claims import JobSize
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks.forgetting import begin_to_forget
from aggregator.service.storage.tasks.tasks import end_task, put_task
from aggregator.service.transport import driver as driver_module
from aggregator.service.transport.driver import Driver, DriverSettings
from tests.support.clock import ManualClock
from tests.support.entropy import SeededEntropy
from tests.support.patience import PATIENCE_SECONDS
from tests.support.store import (
    MAX_REPORTS,
    TASK_ID,
    create_job,
    leader_task,
    make_store,
    new_reports,
    upload,
)

JOBS = dataclasses.replace(AGGREGATION_JOBS, kind="test")
OTHER = b"\x09" * 32
Step = Callable[[Leased[AggregationJob]], Awaitable[None]]


LEASE_SECONDS = int(PATIENCE_SECONDS)
"""On a slow machine, too, it is renewed in time."""


def store_of(folder: Path, clock: Clock | None = None) -> Database:
    """Return a store with five jobs."""
    database = make_store(folder, clock)
    for number in range(5):
        upload(database, [number])
        create_job(database)
    return database


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    """A store by the system's clock."""
    database = store_of(tmp_path)
    yield database
    database.close()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew such leases many times a second."""
    monkeypatch.setattr(driver_module, "_RENEWALS", 50 * LEASE_SECONDS)


class Stepping(Driver[AggregationJob]):
    """Does with a job what a test says."""

    jobs = JOBS

    def __init__(self, runtime: Runtime, settings: DriverSettings, step: Step) -> None:
        super().__init__(runtime, settings)
        self._given = step

    @override
    async def _step(self, leased: Leased[AggregationJob]) -> None:
        await self._given(leased)


def driver_of(
    store: Database, step: Step, concurrency: int = 5, lease_seconds: int = 60
) -> Stepping:
    runtime = Runtime(Role.LEADER, store, SystemClock(), SeededEntropy(b"scheduler"))
    settings = DriverSettings(concurrency, lease_seconds, 5, jobs_per_helper=concurrency)
    return Stepping(runtime, settings, step)


async def end(store: Database, leased: Leased[AggregationJob]) -> None:
    await store.run(
        "end", lambda tx: abandon_aggregation_job(tx, leased.job.job_id, returned=False)
    )


async def test_every_job_is_stepped_and_what_fails_is_logged_by_its_id(store: Database) -> None:
    failures = [LeaseLost("gone"), AggregatorError("no helper"), ZeroDivisionError("surprise")]
    names: dict[int, str] = {}
    stepped: list[int] = []

    async def step(leased: Leased[AggregationJob]) -> None:
        key = leased.lease.key
        names[key] = leased.job.job_id.hex()
        await anyio.lowlevel.checkpoint()
        if key <= len(failures):
            raise failures[key - 1]
        stepped.append(key)

    with capture_logs([structlog.contextvars.merge_contextvars]) as logs:
        assert await driver_of(store, step).run_once() == 5
    assert sorted(stepped) == [4, 5]
    assert {(log["job"], log["event"], log.get("reason")) for log in logs} == {
        (names[1], "job taken by another driver, or deleted", None),
        (names[2], "job waits", None),
        (names[2], "job failed", "no helper"),
        (names[3], "job waits", None),
        (names[3], "job failed", None),
    }
    waiting = store.read_sync("jobs", list_waiting)
    why = {job.job_id.hex(): job.reason for job in waiting if job.reason is not None}
    assert why == {names[2]: "no helper", names[3]: "ZeroDivisionError"}
    assert {(line["kind"], line["attempt"]) for line in logs} == {("test", 1)}
    assert len({line["trace_id"] for line in logs}) == 3


async def test_a_job_that_stands_still_holds_up_no_other(store: Database) -> None:
    stop = anyio.Event()
    ended: list[int] = []

    async def step(leased: Leased[AggregationJob]) -> None:
        if leased.lease.key == 1:
            await anyio.sleep_forever()
        await end(store, leased)
        ended.append(leased.lease.key)
        if len(ended) == 4:
            stop.set()

    driver = driver_of(store, step, concurrency=2)
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(driver.run, stop, poll_seconds=2 * PATIENCE_SECONDS))
            await stop.wait()
            group.cancel_scope.cancel()
    assert ended == [2, 3, 4, 5]


async def test_what_is_under_way_ends_before_the_driver_does(store: Database) -> None:
    stop = anyio.Event()
    ended: list[int] = []

    async def step(leased: Leased[AggregationJob]) -> None:
        stop.set()
        await anyio.sleep(0.05)
        ended.append(leased.lease.key)

    with anyio.fail_after(PATIENCE_SECONDS):
        await driver_of(store, step, concurrency=2).run(stop, poll_seconds=2 * PATIENCE_SECONDS)
    assert sorted(ended) == [1, 2]


async def test_a_task_that_is_being_forgotten_stops_no_other(store: Database) -> None:
    def provision(tx: Transaction) -> None:
        put_task(tx, dataclasses.replace(leader_task(), task_id=OTHER))
        put_reports(tx, OTHER, new_reports([1]), MAX_REPORTS)
        create_aggregation_job(tx, OTHER, JobSize(1, 1000))
        end_task(tx, OTHER)

    store.run_sync("provision", provision)
    # The process that was about to delete its rows has been killed.
    store.run_sync("forget", lambda tx: begin_to_forget(tx, OTHER))
    ended: list[bytes] = []

    async def step(leased: Leased[AggregationJob]) -> None:
        await end(store, leased)
        ended.append(leased.job.task_id)

    assert await driver_of(store, step, concurrency=6).run_once() == 5
    assert ended == [TASK_ID] * 5


async def test_a_look_at_the_store_that_fails_is_not_the_last(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = anyio.Event()
    looks: list[int] = []
    look = Jobs.due

    def due(jobs: Jobs[AggregationJob], tx: Transaction) -> dict[bytes, int]:
        looks.append(1)
        if len(looks) == 1:
            raise StoreError("no disk")
        return look(jobs, tx)

    async def step(_leased: Leased[AggregationJob]) -> None:
        stop.set()

    monkeypatch.setattr(Jobs, "due", due)
    with anyio.fail_after(PATIENCE_SECONDS):
        await driver_of(store, step).run(stop, poll_seconds=0.01)
    assert len(looks) == 2


@pytest.mark.usefixtures("often")
async def test_a_step_that_outlasts_its_lease_is_made_by_one_driver_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the store's clock, which goes on whenever all leases were renewed."""
    clock = ManualClock(1_000_000)
    store = store_of(tmp_path, clock)
    stop, is_late = anyio.Event(), anyio.Event()
    steps: list[int] = []
    renewals = Counter[int]()
    renew_it = Jobs.renew

    async def step(leased: Leased[AggregationJob]) -> None:
        steps.append(leased.lease.key)
        await is_late.wait()
        await end(store, leased)
        stop.set()

    def renew(jobs: Jobs[AggregationJob], tx: Transaction, lease: Lease, seconds: int) -> None:
        renew_it(jobs, tx, lease, seconds)
        renewals[lease.key] += 1

    monkeypatch.setattr(Jobs, "renew", renew)
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                driver = driver_of(store, step, 1, LEASE_SECONDS)
                group.start_soon(partial(driver.run, stop, poll_seconds=0.01))
            for _ in range(3):
                before = renewals.copy()
                while any(renewals[key] == before[key] for key in (1, 2)):  # noqa: ASYNC110  polled
                    await anyio.sleep(0.01)
                clock.advance(LEASE_SECONDS - 10)
            is_late.set()
    assert sorted(steps) == [1, 2]
    store.close()


@pytest.mark.slow
async def test_a_step_ends_before_a_lease_that_cannot_be_renewed(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_arguments: object) -> None:
        raise StoreError("busy")

    async def step(_leased: Leased[AggregationJob]) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(Jobs, "renew", busy)
    with capture_logs() as logs, anyio.fail_after(PATIENCE_SECONDS):
        await driver_of(store, step, concurrency=1, lease_seconds=3).run_once()
    assert logs[-1]["event"] == "job left: its lease could not be renewed"


@pytest.mark.usefixtures("often")
async def test_a_step_ends_when_its_job_is_not_ours_any_more(store: Database) -> None:
    async def step(leased: Leased[AggregationJob]) -> None:
        await end(store, leased)  # as an operator would
        await anyio.sleep_forever()

    with capture_logs() as logs, anyio.fail_after(PATIENCE_SECONDS):
        await driver_of(store, step, 1, LEASE_SECONDS).run_once()
    assert [log["event"] for log in logs] == ["job taken by another driver, or deleted"]
