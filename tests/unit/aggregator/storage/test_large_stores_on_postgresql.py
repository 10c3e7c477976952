"""What is done often reads no more rows the more a store on a server holds: the server counts them.

The server plans by what it knows of its tables, which is what its own ANALYZE finds every minute.
"""

import time

import pytest
from sqlalchemy import text

from aggregator.protocol.batches import Batch
from aggregator.storage import tables
from aggregator.storage.aggregation_jobs import create_aggregation_job
from aggregator.storage.closed_batches import mark_collected
from aggregator.storage.database import Database, Transaction
from aggregator.storage.reports import JobSize, claimable_reports
from tests.support.engines import ON_POSTGRESQL
from tests.support.store import TASK_ID, report_id, unit, units

pytestmark = [ON_POSTGRESQL, pytest.mark.slow]

ROWS = 20_000
JOB = JobSize(100, 10**9)
_READ = text(
    "SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0)"
    " FROM pg_stat_xact_user_tables"
)


def rows_read(tx: Transaction) -> int:
    """Return how many rows the transaction has read so far."""
    return int(tx.connection.execute(_READ).scalar_one())


def put_waiting_reports(tx: Transaction) -> None:
    task = tx.task_key(TASK_ID)
    waiting = {"task": task, "received_at": tx.now, "bytes": 5000, "generation": 0}
    rows = [
        {**waiting, "report_id": report_id(number), "bucket": unit(number // 100)}
        for number in range(ROWS)
    ]
    tx.insert_many(tx.insert(tables.reports), rows)


def test_a_job_is_made_of_the_first_reports_without_a_look_at_all_that_wait(
    store: Database,
) -> None:
    def create(tx: Transaction) -> int:
        before = rows_read(tx)
        assert claimable_reports(tx, TASK_ID, JOB).reports == JOB.reports
        assert create_aggregation_job(tx, TASK_ID, JOB) is not None
        return rows_read(tx) - before

    store.run_sync("reports", put_waiting_reports)
    store.run_sync("analyze", lambda tx: tx.connection.execute(text("ANALYZE")))
    assert store.run_sync("create", create) < 20 * JOB.reports


def put_keys(tx: Transaction) -> None:
    task, keys = tx.task_key(TASK_ID), [bytes(64)] * ROWS
    slots = tx.keys.put(keys, 0)
    place = {"task": task, "shard": 0}
    rows = [{**place, "bucket": unit(n), "slot": slot} for n, slot in enumerate(slots)]
    tx.insert_many(tx.insert(tables.bucket_keys), rows)


def test_the_keys_of_a_large_batch_are_destroyed_at_once(store: Database) -> None:
    def collect(tx: Transaction, batch: Batch) -> float:
        before = time.thread_time()
        mark_collected(tx, TASK_ID, batch)
        return time.thread_time() - before

    store.run_sync("keys", put_keys)
    store.run_sync("warm up", lambda tx: collect(tx, units(0, 1)))
    assert store.run_sync("collect", lambda tx: collect(tx, units(1, ROWS))) < 0.1
    left = text("SELECT count(*) FROM bucket_key_slots")
    assert store.read_sync("left", lambda tx: tx.connection.execute(left).scalar_one()) == 0
