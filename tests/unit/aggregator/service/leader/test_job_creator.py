"""Jobs of many tasks: made in turns, and only looked for where there are reports."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from aggregator.clock import SystemClock
from aggregator.dap.ids import TaskId
from aggregator.dap.profile import Role
from aggregator.protocol.requirements import Requirements
from aggregator.service.leader import job_creator
from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.runtime import Runtime
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import AggregationJob, create_aggregation_job
from aggregator.service.storage.reports.claims import JobSize
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.tasks import TaskRecord, put_task
from tests.support.empty_store import upgraded
from tests.support.entropy import SeededEntropy
from tests.support.store import MAX_REPORTS, new_reports
from tests.support.tasks import task_text

FLOODED, SMALL, IDLE = (TaskId(bytes([number]) * 32) for number in range(3))


@pytest.fixture
def seen() -> list[str]:
    """The names of the store's transactions."""
    return []


@pytest.fixture
def database(tmp_path: Path, seen: list[str]) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path / 'leader.sqlite'}"
    upgraded(url)
    made = Database.open(
        url, Crypter([bytes(32)]), on_transaction=lambda name, _moment: seen.append(name)
    )
    for task in (FLOODED, SMALL, IDLE):
        record = TaskRecord(task.value, "leader", task_text(id=str(task)), bytes(32))
        made.run_sync("provision", lambda tx, record=record: put_task(tx, record))
    yield made
    made.close()


def creator_of(database: Database) -> JobCreator:
    runtime = Runtime(Role.LEADER, database, SystemClock(), SeededEntropy(b"creator"))
    return JobCreator(runtime, job_size=10, linger_seconds=0)


def upload(database: Database, task: TaskId, count: int) -> None:
    reports = new_reports(range(count))
    database.run_sync("upload", lambda tx: put_reports(tx, task.value, reports, MAX_REPORTS))


def jobs_in_order(database: Database) -> list[TaskId]:
    def read(tx: Transaction) -> list[TaskId]:
        job, task = tables.aggregation_jobs.c, tables.tasks.c
        query = select(task.task_id).join(tables.aggregation_jobs, task.id == job.task)
        return [TaskId(value) for value in tx.connection.execute(query.order_by(job.id)).scalars()]

    return database.read_sync("jobs", read)


async def test_a_task_with_a_large_backlog_delays_no_other(database: Database) -> None:
    upload(database, FLOODED, 200)
    upload(database, SMALL, 20)
    assert await creator_of(database).run_once() == 22
    assert jobs_in_order(database) == [FLOODED, SMALL, FLOODED, SMALL, *[FLOODED] * 18]


async def test_tasks_without_reports_are_not_even_read(database: Database, seen: list[str]) -> None:
    creator = creator_of(database)
    seen.clear()
    assert await creator.run_once() == 0
    assert set(seen) == {"tasks with unclaimed reports"}


async def test_a_task_that_protects_too_little_delays_no_other(database: Database) -> None:
    refused = TaskId(bytes([9]) * 32)
    record = TaskRecord(
        refused.value, "leader", task_text(id=str(refused), min_batch_size=1), bytes(32)
    )
    database.run_sync("provision", lambda tx: put_task(tx, record))
    upload(database, refused, 30)
    upload(database, SMALL, 10)
    runtime = Runtime(
        Role.LEADER,
        database,
        SystemClock(),
        SeededEntropy(b"creator"),
        requirements=Requirements(min_batch_size=2),
    )
    assert await JobCreator(runtime, job_size=10, linger_seconds=0).run_once() == 1
    assert jobs_in_order(database) == [SMALL]


async def test_a_task_that_cannot_be_read_delays_no_other(database: Database) -> None:
    upload(database, FLOODED, 10)
    upload(database, SMALL, 10)
    tasks = tables.tasks
    broken = update(tasks).where(tasks.c.task_id == FLOODED.value).values(definition="no task")
    database.run_sync("spoil", lambda tx: tx.connection.execute(broken))
    with capture_logs() as logs:
        assert await creator_of(database).run_once() == 1
    assert jobs_in_order(database) == [SMALL]
    assert [line["task"] for line in logs] == [str(FLOODED)]


async def test_a_task_whose_reports_come_during_a_flood_has_the_next_turn(
    database: Database,
) -> None:
    creator = creator_of(database)
    upload(database, FLOODED, 200)
    assert await creator.run_turn() == 1
    upload(database, SMALL, 10)
    assert await creator.run_turn() == 2
    assert jobs_in_order(database)[-1] == SMALL


def count_of_creations(seen: list[str]) -> int:
    """Return how many transactions made jobs; each is seen at three moments."""
    return seen.count("create aggregation jobs") // 3


async def test_jobs_of_many_tasks_are_made_in_one_transaction(
    database: Database, seen: list[str]
) -> None:
    for task in (FLOODED, SMALL, IDLE):
        upload(database, task, 10)
    seen.clear()
    assert await creator_of(database).run_turn() == 3
    assert count_of_creations(seen) == 1


async def test_a_transaction_makes_jobs_of_so_many_tasks_and_no_more(
    database: Database, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_creator, "AT_ONCE", 2)
    for task in (FLOODED, SMALL, IDLE):
        upload(database, task, 10)
    seen.clear()
    assert await creator_of(database).run_turn() == 3
    assert count_of_creations(seen) == 2


async def test_a_task_whose_job_cannot_be_stored_delays_no_other_of_its_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(
        tx: Transaction,
        task_id: bytes,
        size: JobSize,
        *,
        only_full: bool,
        bucket: bytes,
        of_one: bool,
    ) -> AggregationJob | None:
        if task_id == SMALL.value:
            raise tx.refuse(Conflict("this one fails"))
        return create_aggregation_job(
            tx, task_id, size, only_full=only_full, bucket=bucket, of_one=of_one
        )

    monkeypatch.setattr(job_creator, "create_aggregation_job", create)
    for task in (FLOODED, SMALL, IDLE):
        upload(database, task, 10)
    creator = creator_of(database)
    with capture_logs() as logs:
        assert [await creator.run_turn() for _ in range(2)] == [2, 0]
    assert jobs_in_order(database) == [FLOODED, IDLE]
    assert [(line["task"], line["reason"]) for line in logs] == [(str(SMALL), "this one fails")]
