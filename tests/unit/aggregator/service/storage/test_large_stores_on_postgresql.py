"""What is done often reads no more rows the more a store on a server holds: the server counts them.

The server plans by what it knows of its tables, which is what its own ANALYZE finds every minute.
"""

import dataclasses
import gc
import time
from functools import partial

import pytest
from sqlalchemy import text

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import AggregationJobState, BatchState, ResourceState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import create_aggregation_job
from aggregator.service.storage.reports import id_memory
from aggregator.service.storage.reports.claims import JobSize, claimable_reports
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.id_memory import Place, begin_memories, forget_ids
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks.garbage import collect_garbage
from aggregator.service.storage.tasks.tasks import put_task
from tests.support.clock import ManualClock
from tests.support.engines import ON_POSTGRESQL
from tests.support.patience import measured
from tests.support.store import (
    TASK_ID,
    body_of,
    keep_for_longest,
    leader_task,
    report_id,
    unit,
    units,
)

pytestmark = [ON_POSTGRESQL, pytest.mark.slow]

ROWS = 20_000
JOB = JobSize(100, 10**9)
_READ = text(
    "SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0)"
    " FROM pg_stat_xact_user_tables"
)

_TEN_MILLION = text("SELECT count(*) FROM generate_series(1, 10000000)")


def rows_read(tx: Transaction) -> int:
    """Return how many rows the transaction has read so far."""
    return int(tx.connection.execute(_READ).scalar_one())


def put_waiting_reports(tx: Transaction) -> None:
    task = tx.task_key(TASK_ID)
    waiting = {"task": task, "received_at": tx.now, "width": 5000, "generation": 0}
    waiting |= {"size": 1, "reports": 1}
    rows = [{**waiting, "bucket": unit(number // 100)} for number in range(ROWS)]
    tx.insert_many(tx.insert(tables.report_groups), rows)


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
    slots = tx.keys.put(keys).slots
    place = {"task": task, "shard": 0}
    rows = [{**place, "bucket": unit(n), "slot": slot} for n, slot in enumerate(slots)]
    tx.insert_many(tx.insert(tables.bucket_keys), rows)


def test_the_keys_of_a_large_batch_are_destroyed_at_once(store: Database) -> None:
    def collect(tx: Transaction, batch: Batch) -> float:
        gc.disable()  # a look through all that the tests have loaded takes as long
        try:
            with measured(time.thread_time) as spent:
                mark_collected(tx, TASK_ID, batch)
            return spent.yardsticks
        finally:
            gc.enable()

    store.run_sync("keys", put_keys)
    store.run_sync("warm up", lambda tx: collect(tx, units(0, 1)))
    assert store.run_sync("collect", lambda tx: collect(tx, units(1, ROWS))) < 12
    left = text("SELECT count(*) FROM bucket_key_slots")
    assert store.read_sync("left", lambda tx: tx.connection.execute(left).scalar_one()) == 0


def put_bound_ids(tx: Transaction) -> None:
    """Store the ids of a day's reports, all of one batch."""
    ids = {"task": tx.task_key(TASK_ID), "day": 0}
    rows = [{**ids, "report_id": report_id(number)} for number in range(ROWS)]
    tx.insert_many(tx.insert(tables.report_ids), rows)
    bound = {"bucket": bytes(32), "sha256": bytes(32)}
    tx.insert_many(tx.insert(tables.bound_reports), [{**each, **bound} for each in rows])


@pytest.mark.parametrize("is_known", [False, True])
def test_a_replay_is_looked_up_among_bound_ids_without_a_look_at_all(
    store: Database, *, is_known: bool
) -> None:
    """Whether the server knows of its tables, or has not looked at them since they were filled."""
    again = [
        StoredReport(report_id(number), b"\1" * 32, 0, body_of(number)) for number in range(100)
    ]

    def replay(tx: Transaction) -> int:
        before = rows_read(tx)
        told = put_reports(tx, TASK_ID, again, 10**6, digests=[bytes(32)] * len(again))
        assert told == [ReportError.REPORT_REPLAYED] * len(again)
        return rows_read(tx) - before

    store.run_sync("ids", put_bound_ids)
    if is_known:
        store.run_sync("analyze", lambda tx: tx.connection.execute(text("ANALYZE")))
    assert store.run_sync("replay", replay) < 20 * len(again)


def test_steps_that_forget_ids_read_those_that_they_delete(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_memory, "IDS_PER_STEP", 100)
    while store.run_sync("begin", begin_memories):
        pass
    store.run_sync("ids", put_bound_ids)
    store.run_sync("analyze", lambda tx: tx.connection.execute(text("ANALYZE")))
    read = []

    def forget(tx: Transaction, after: Place | None) -> Place | None:
        before = rows_read(tx)
        last = forget_ids(tx, "report_ids", TASK_ID, 5, after)
        read.append(rows_read(tx) - before)
        return last

    place: Place | None = None
    for _ in range(20):
        place = store.run_sync("forget", partial(forget, after=place))
    # The first one begins before all of them, and may read them all.
    assert max(read[2:]) < 20 * id_memory.IDS_PER_STEP, read


AGE = 1000


def put_what_has_ended(tx: Transaction) -> None:
    """Store ended jobs and answers, which no batch counts."""
    task = tx.task_key(TASK_ID)
    lease = {"lease_expires_at": tx.now, "lease_set_at": tx.now, "lease_attempts": 0}
    job = {"task": task, "created_at": tx.now, "failures": 0, "unanswered": 0, **lease}
    job |= {"state": AggregationJobState.FINISHED, "ended_at": tx.now}
    answer = {"task": task, "state": ResourceState.LIVE, "response": b"", "created_at": tx.now}
    names = [report_id(number) for number in range(ROWS)]
    jobs = [{**job, "job_id": name} for name in names]
    tx.insert_many(tx.insert(tables.aggregation_jobs), jobs)
    answers = [{**answer, "job_id": name, "body_sha256": name * 2} for name in names]
    tx.insert_many(tx.insert(tables.answered_jobs), answers)


def test_what_one_task_keeps_for_longer_is_not_looked_at_for_the_others(
    store: Database, clock: ManualClock
) -> None:
    def read_by(tx: Transaction) -> tuple[int, int]:
        before = rows_read(tx)
        return collect_garbage(tx, AGE), rows_read(tx) - before

    store.run_sync("keep", lambda tx: keep_for_longest(tx, TASK_ID, AGE))
    store.run_sync("put", put_what_has_ended)
    store.run_sync("analyze", lambda tx: tx.connection.execute(text("ANALYZE")))
    clock.advance(10 * AGE)
    deleted, read = store.run_sync("garbage", read_by)
    assert (deleted, read < 500) == (0, True), read
    clock.advance(1)
    deleted, read = store.run_sync("garbage", read_by)
    assert (deleted, read < 20 * deleted) == (500, True), read


def put_old_windows_between_open_units(tx: Transaction) -> None:
    """Store windows that are collected and have no totals, with an open unit between any two."""
    task, units_of_time = tx.task_key(TASK_ID), range(0, 2 * ROWS, 2)
    closed = {
        "task": task,
        "state": BatchState.COLLECTED,
        "changed_at": tx.now,
        "leftovers": 0,
        "dropped": 0,
    }
    windows = [
        {**closed, "first_bucket": unit(each), "last_bucket": unit(each)} for each in units_of_time
    ]
    tx.insert_many(tx.insert(tables.closed_batches), windows)
    totals = {"task": task, "shard": 0, "report_count": 1, "checksum": bytes(32)}
    totals |= {"first_time": None, "last_time": None}
    buckets = [{**totals, "bucket": unit(each + 1)} for each in units_of_time]
    tx.insert_many(tx.insert(tables.buckets), buckets)


def test_open_buckets_are_not_compared_with_all_batches_that_were_collected(
    store: Database, clock: ManualClock
) -> None:
    """In an order of the tables that the server may choose that is 4 * 10^8 comparisons.

    Counting to ten million is what the server does as a measure, in the same moment.
    """

    def provision(tx: Transaction) -> None:
        for number in range(1000):
            task_id = number.to_bytes(32, "big")
            put_task(tx, dataclasses.replace(leader_task(), task_id=task_id))

    store.run_sync("provision", provision)
    store.run_sync("put", put_old_windows_between_open_units)
    store.run_sync("analyze", lambda tx: tx.connection.execute(text("ANALYZE")))
    clock.advance(AGE + 1)

    def collecting_in_measures() -> float:
        began = time.monotonic()
        assert store.run_sync("garbage", lambda tx: collect_garbage(tx, AGE)) == 0
        counting = time.monotonic()
        store.read_sync("count", lambda tx: tx.connection.execute(_TEN_MILLION).scalar_one())
        return (counting - began) / (time.monotonic() - counting)

    # Only once in a while the machine stands still, and in one of the two.
    assert any(collecting_in_measures() < 4 for _ in range(5))
