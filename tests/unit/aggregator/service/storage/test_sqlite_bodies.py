"""What bodies of reports cost an SQLite file, and what emptying their tables leaves as it was."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import (
    AggregationJob,
    finish_aggregation_job,
    store_request,
)
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.rejecting import drop_reports
from aggregator.service.storage.reports.reports import put_reports
from tests.support.clock import ManualClock
from tests.support.engines import ON_SQLITE
from tests.support.store import (
    MAX_REPORTS,
    TASK_ID,
    bodies_left,
    create_job,
    lease_job,
    report_id,
    reports_in,
    rotate_all,
    unit,
    upload,
)

pytestmark = ON_SQLITE

BODY = 5480
"""Bytes of a histogram of 256 buckets, as uploaded."""
IO = Path("/proc/self/io")


def bodies(store: Database, job: AggregationJob) -> list[bytes]:
    found = reports_in(store, job.key)
    return [each.body for each in found]


def created(store: Database, limit: int = 100) -> AggregationJob:
    job = create_job(store, limit, stored_bytes=limit * BODY)
    assert job is not None
    return job


def drop(store: Database, job: AggregationJob) -> int:
    return store.run_sync("drop", lambda tx: drop_reports(tx, TASK_ID, job.key))


def setting(store: Database) -> int:
    def ask(tx: Transaction) -> int:
        return int(tx.connection.exec_driver_sql("PRAGMA secure_delete").scalar_one())

    return store.run_sync("ask", ask)


def test_sqlite_overwrites_again_what_is_deleted_after_a_generation_was_emptied(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(store, [1])
    drop(store, created(store))
    rotate_all(store, clock)
    assert (bodies_left(store), setting(store)) == (0, 1)

    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Connection, "execute", fails)
    with pytest.raises(RuntimeError):
        store.run_sync(
            "empty",
            lambda tx: tx.backend.empty(tx.connection, tables.report_bodies[0].c.body),
        )
    monkeypatch.undo()
    assert setting(store) == 1


def written() -> int:
    """Return how many bytes this process has written to files."""
    counts = dict(line.split(": ") for line in IO.read_text().splitlines())
    return int(counts["wchar"])


@pytest.mark.skipif(not IO.exists(), reason="only Linux counts what a process writes")
def test_a_body_is_written_once_beside_the_log(store: Database, clock: ManualClock) -> None:
    """Log, file, and what they round up to pages, in all: when the log is copied is not ours."""
    groups, size = 6, 500
    jobs: list[AggregationJob] = []

    def put(number: int) -> None:
        ids = [report_id(size * number + each) for each in range(size)]
        rest = BODY - len(ids[0])
        sent = [StoredReport(each, unit(number), 0, each + os.urandom(rest)) for each in ids]
        store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, sent, MAX_REPORTS))

    def each(step: Callable[[int], object]) -> float:
        before = written()
        for number in range(groups):
            step(number)
        return (written() - before) / (groups * size)

    def claim(_: int) -> None:
        jobs.append(created(store, size))

    uploading, claiming = each(put), each(claim)
    reading = each(lambda number: len(bodies(store, jobs[number])))
    dropping = each(lambda number: drop(store, jobs[number]))
    before = written()
    rotate_all(store, clock)
    emptying = (written() - before) / (groups * size)
    assert bodies_left(store) == 0
    total = uploading + claiming + reading + dropping + emptying
    assert total < 2.6 * BODY, (uploading, claiming, reading, dropping, emptying)


@pytest.mark.skipif(not IO.exists(), reason="only Linux counts what a process writes")
def test_a_jobs_request_is_not_written_again_when_the_job_ends(store: Database) -> None:
    """Log and file, which is written when the log has grown by so much."""
    store._scrubber.close()  # it copies the log into the file at some moment after the opening
    upload(store, [1])
    created(store)
    lease, request = lease_job(store).lease, os.urandom(2 << 20)
    before = written()
    store.run_sync("send", lambda tx: store_request(tx, lease, request, {}))
    storing = written() - before
    store.run_sync("finish", lambda tx: finish_aggregation_job(tx, lease, [report_id(1)], {}))
    finishing = written() - before - storing
    assert storing > len(request)
    assert finishing < len(request) / 4, (storing, finishing)
    assert setting(store) == 1
