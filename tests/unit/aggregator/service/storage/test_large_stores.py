"""What is done often takes no longer the more a store holds: counted in steps of SQLite's machine.

Steps are the same on every run, whatever else the machine does.
"""

import dataclasses
from collections.abc import Callable

import pytest
from sqlalchemy import delete, insert

from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import AggregationJobState, BatchState, ResourceState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import (
    AGGREGATION_JOBS,
    create_aggregation_job,
)
from aggregator.service.storage.reports.claims import JobSize
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks import forgetting, garbage
from aggregator.service.storage.tasks.forgetting import begin_to_forget, forget_some
from aggregator.service.storage.tasks.garbage import collect_garbage
from aggregator.service.storage.tasks.tasks import end_task, put_task
from tests.support.clock import ManualClock
from tests.support.engines import ON_SQLITE
from tests.support.steps import steps_of
from tests.support.store import (
    MAX_REPORTS,
    TASK_ID,
    create_job,
    keep_for_longest,
    leader_task,
    new_reports,
    report_id,
    reports_in,
    unit,
    units,
    upload,
)

pytestmark = [ON_SQLITE, pytest.mark.slow]

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
    task, groups = tx.task_key(TASK_ID), tables.report_groups
    waiting = {"task": task, "received_at": tx.now, "width": 5000, "generation": 0}
    waiting |= {"size": 1, "reports": 1}
    rows = [{**waiting, "bucket": unit(number // 100)} for number in range(count)]
    tx.connection.execute(insert(groups), rows)


def test_a_job_is_deleted_without_a_look_at_all_reports(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "ROWS_PER_STEP", 10)
    store.run_sync("jobs", lambda tx: put_ended_jobs(tx, 20))
    clock.advance(AGE + 1)
    alone = steps_of(store, lambda tx: collect_garbage(tx, AGE))
    store.run_sync("reports", lambda tx: put_waiting_reports(tx, ROWS))
    assert steps_of(store, lambda tx: collect_garbage(tx, AGE)) < 2 * alone + 1000


def test_a_job_is_leased_and_made_without_a_look_at_all_that_have_ended(store: Database) -> None:
    def make_and_lease(tx: Transaction) -> None:
        assert create_aggregation_job(tx, TASK_ID, JobSize(1, 100)) is not None
        assert len(AGGREGATION_JOBS.lease(tx, 1, 60, TASK_ID)) == 1

    upload(store, range(2))
    alone = steps_of(store, make_and_lease)
    store.run_sync("jobs", lambda tx: put_ended_jobs(tx, ROWS))
    assert steps_of(store, make_and_lease) < 2 * alone


def test_a_task_is_added_without_a_look_at_all_others(store: Database) -> None:
    """A survey's text questions may have hundreds."""

    def add(first: int, count: int) -> Callable[[Transaction], None]:
        def put(tx: Transaction) -> None:
            for number in range(first, first + count):
                put_task(tx, dataclasses.replace(leader_task(), task_id=number.to_bytes(32, "big")))

        return put

    alone = steps_of(store, add(1, 10))
    store.run_sync("tasks", add(100, 1000))
    assert steps_of(store, add(2000, 10)) < 2 * alone


def close_every_other_window(tx: Transaction, count: int) -> None:
    """Collect windows of one unit, no two of which follow each other."""
    task, closed = tx.task_key(TASK_ID), tables.closed_batches
    row = {
        "task": task,
        "state": BatchState.COLLECTED,
        "changed_at": tx.now,
        "leftovers": 0,
        "dropped": 0,
    }
    rows = [
        {**row, "first_bucket": unit(2 * number), "last_bucket": unit(2 * number)}
        for number in range(count)
    ]
    tx.connection.execute(insert(closed), rows)


def put_open_buckets(tx: Transaction, count: int) -> None:
    """Store totals of buckets of which every second one was just collected."""
    row = {"task": tx.task_key(TASK_ID), "shard": 0, "report_count": 1, "checksum": bytes(32)}
    rows = [{**row, "bucket": unit(number)} for number in range(count)]
    tx.connection.execute(insert(tables.buckets), rows)
    waiting = {"task": tx.task_key(TASK_ID), "shard": 0, "reports": 0}
    tx.connection.execute(
        insert(tables.waiting_reports), [{**waiting, "bucket": unit(n)} for n in range(count)]
    )


def test_buckets_are_not_compared_with_all_batches_that_were_collected(
    store: Database, clock: ManualClock
) -> None:
    store.run_sync("close", lambda tx: close_every_other_window(tx, ROWS // 10))
    store.run_sync("buckets", lambda tx: put_open_buckets(tx, ROWS // 5))
    clock.advance(AGE)
    assert steps_of(store, lambda tx: collect_garbage(tx, AGE)) < 50 * ROWS


def test_what_was_collected_long_ago_slows_down_no_upload_and_no_job(store: Database) -> None:
    def latest(tx: Transaction) -> None:
        reports = new_reports(range(10), time=2 * ROWS + 1)
        assert put_reports(tx, TASK_ID, reports, MAX_REPORTS) == [None] * 10
        assert create_aggregation_job(tx, TASK_ID, JobSize(100, 10**6)) is not None
        tx.connection.execute(delete(tables.report_ids))

    before = steps_of(store, latest)
    store.run_sync("close", lambda tx: close_every_other_window(tx, ROWS))
    assert steps_of(store, latest) < 2 * before


def test_a_report_of_a_closed_batch_is_in_no_job(store: Database) -> None:
    for time in (1, 4, 7):
        upload(store, [time], time)
    store.run_sync("close", lambda tx: mark_collected(tx, TASK_ID, units(3, 6)))
    job = create_job(store)
    assert job is not None
    found = {each.report_id for each in reports_in(store, job.key)}
    assert found == {report_id(1), report_id(7)}


def put_answers(tx: Transaction, count: int) -> None:
    """Store answers, each counted by an open batch."""
    task = tx.task_key(TASK_ID)
    answer = {"task": task, "state": ResourceState.LIVE, "response": b"", "created_at": tx.now}
    rows = [
        {**answer, "job_id": report_id(number), "body_sha256": report_id(number) * 2}
        for number in range(count)
    ]
    tx.connection.execute(insert(tables.answered_jobs), rows)
    share = {"task": task, "shard": 0, "share": b"", "report_count": 1, "checksum": bytes(32)}
    share |= {"first_time": 0, "last_time": 0, "counted_at": tx.now}
    shares = [
        {**share, "bucket": unit(number % 100), "job": report_id(number) * 2}
        for number in range(count)
    ]
    tx.connection.execute(insert(tables.job_shares), shares)


def test_answers_that_are_not_old_are_not_looked_at(store: Database, clock: ManualClock) -> None:
    store.run_sync("answers", lambda tx: put_answers(tx, ROWS))
    clock.advance(AGE)
    assert steps_of(store, lambda tx: collect_garbage(tx, AGE)) < 2000
    clock.advance(1)
    assert steps_of(store, lambda tx: collect_garbage(tx, AGE)) < 50 * ROWS


def test_what_one_task_keeps_for_longer_is_not_looked_at_for_the_others(
    store: Database, clock: ManualClock
) -> None:
    store.run_sync("keep", lambda tx: keep_for_longest(tx, TASK_ID, AGE))
    alone = steps_of(store, lambda tx: collect_garbage(tx, AGE))
    store.run_sync("jobs", lambda tx: put_ended_jobs(tx, ROWS))
    store.run_sync("answers", lambda tx: put_answers(tx, ROWS))
    clock.advance(10 * AGE)
    assert steps_of(store, lambda tx: collect_garbage(tx, AGE)) < 2 * alone
    clock.advance(1)
    assert store.run_sync("garbage", lambda tx: collect_garbage(tx, AGE)) == garbage.ROWS_PER_STEP


def put_ids(tx: Transaction, count: int) -> None:
    task = tx.task_key(TASK_ID)
    ids = map(report_id, range(count))
    rows = [{"task": task, "report_id": each, "day": 0} for each in ids]
    tx.connection.execute(insert(tables.report_ids), rows)


def test_a_task_is_forgotten_in_steps_that_do_not_grow_with_it(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "ROWS_PER_STEP", 10)
    store.run_sync("reports", lambda tx: put_waiting_reports(tx, 1000))
    store.run_sync("ids", lambda tx: put_ids(tx, ROWS))
    store.run_sync("end", lambda tx: end_task(tx, TASK_ID))
    store.run_sync("forget", lambda tx: begin_to_forget(tx, TASK_ID))
    assert max(steps_of(store, forget_some) for _ in range(200)) < 5000


def test_what_was_forgotten_long_ago_is_not_looked_for_again(store: Database) -> None:
    def provision(tx: Transaction) -> None:
        for number in range(1, 31):
            task_id = bytes([number]) * 32
            put_task(tx, dataclasses.replace(leader_task(), task_id=task_id))
            end_task(tx, task_id)
            begin_to_forget(tx, task_id)

    alone = steps_of(store, lambda tx: collect_garbage(tx, AGE))
    store.run_sync("provision", provision)
    assert steps_of(store, lambda tx: collect_garbage(tx, AGE)) > 10 * alone
    assert steps_of(store, lambda tx: collect_garbage(tx, AGE)) < 4 * alone


def test_an_upload_to_now_and_to_long_ago_looks_at_nothing_in_between(store: Database) -> None:
    """A stranger would have all that was ever collected read with each request."""

    def upload_to_both(tx: Transaction, number: int) -> None:
        reports = [*new_reports([number], 1), *new_reports([number + 1], 10 * ROWS)]
        assert put_reports(tx, TASK_ID, reports, MAX_REPORTS) == [None, None]

    alone = steps_of(store, lambda tx: upload_to_both(tx, 0))
    store.run_sync("close", lambda tx: close_every_other_window(tx, ROWS))
    assert steps_of(store, lambda tx: upload_to_both(tx, 10)) < 2 * alone + 1000
