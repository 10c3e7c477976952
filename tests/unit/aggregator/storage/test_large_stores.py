"""What is done often takes no longer the more a store holds: counted in steps of SQLite's machine.

Steps are the same on every run, whatever else the machine does.
"""

import pytest
from sqlalchemy import insert

from aggregator.storage import garbage, tables
from aggregator.storage.database import Database, Transaction
from aggregator.storage.garbage import collect_garbage
from aggregator.storage.states import AggregationJobState
from tests.support.clock import ManualClock
from tests.support.engines import ON_SQLITE
from tests.support.steps import steps_of
from tests.support.store import TASK_ID, report_id, unit

pytestmark = ON_SQLITE

ROWS = 20_000
AGE = 1000


def put_ended_jobs(tx: Transaction, count: int) -> None:
    task, jobs = tx.task_key(TASK_ID), tables.aggregation_jobs
    ended = {
        "task": task,
        "state": AggregationJobState.FINISHED,
        "failures": 0,
        "unanswered": 1,
        "lease_expires_at": tx.now,
        "lease_set_at": tx.now,
        "lease_attempts": 0,
        "created_at": tx.now,
        "ended_at": tx.now,
    }
    rows = [{**ended, "job_id": report_id(number)} for number in range(count)]
    tx.connection.execute(insert(jobs), rows)


def put_waiting_reports(tx: Transaction, count: int) -> None:
    task, reports = tx.task_key(TASK_ID), tables.reports
    waiting = {"task": task, "received_at": tx.now, "bytes": 5000, "generation": 0}
    rows = [
        {**waiting, "report_id": report_id(number), "bucket": unit(number // 100)}
        for number in range(count)
    ]
    tx.connection.execute(insert(reports), rows)


def test_a_job_is_deleted_without_a_look_at_all_reports(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "ROWS_PER_STEP", 10)
    store.run_sync("jobs", lambda tx: put_ended_jobs(tx, 20))
    clock.advance(AGE + 1)
    alone = steps_of(store, lambda tx: collect_garbage(tx, AGE))
    store.run_sync("reports", lambda tx: put_waiting_reports(tx, ROWS))
    assert steps_of(store, lambda tx: collect_garbage(tx, AGE)) < 2 * alone + 1000
