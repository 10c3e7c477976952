"""Batches that the leader selects: filled one after the other, and each selected once."""

from unittest.mock import patch

from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.selected import batch_with_room, next_batch, select_again
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs import collection_room
from aggregator.service.storage.jobs.aggregation_jobs import (
    create_aggregation_job,
    finish_aggregation_job,
)
from aggregator.service.storage.jobs.collection_jobs import (
    create_collection_job,
    fail_collection_job,
    select_batch,
)
from aggregator.service.storage.jobs.collection_room import delete_fruitless_jobs
from aggregator.service.storage.reports.claims import JobSize, reports_of_job
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.reports import has_reports, put_reports
from tests.support.store import (
    MAX_REPORTS,
    TASK_ID,
    add_to_bucket,
    adding,
    body_of,
    lease_collection,
    lease_job,
    report_id,
    totals,
)

SIZE = 5


def upload(store: Database, count: int, first: int = 0) -> None:
    """Upload reports that are in no bucket yet."""
    reports = [
        StoredReport(report_id(number), b"", 0, body_of(number))
        for number in range(first, first + count)
    ]
    store.run_sync("upload", lambda tx: put_reports(tx, TASK_ID, reports, MAX_REPORTS))


def fill(store: Database, limit: int = 100) -> bytes:
    """Make a job of the batch with room; return the batch's key."""

    def create(tx: Transaction) -> bytes:
        bucket, room = batch_with_room(tx, TASK_ID, SIZE)
        job = create_aggregation_job(tx, TASK_ID, JobSize(min(limit, room), 10_000), bucket=bucket)
        assert job is not None
        assert job.bucket == bucket
        return bucket

    return store.run_sync("fill", create)


def finish(store: Database, rejected: int = 0) -> None:
    """Finish the oldest job, of whose reports the first ones are rejected."""
    leased = lease_job(store)

    def end(tx: Transaction) -> None:
        ids = reports_of_job(tx, leased.job.key).ids
        good = ids[rejected:]
        add_to_bucket(tx, TASK_ID, leased.job.bucket, adding(len(good)), totals(good))
        reasons = dict.fromkeys(ids[:rejected], "vdaf_verify_error")
        finish_aggregation_job(tx, leased.lease, good, reasons)

    store.run_sync("finish", end)


def room(store: Database) -> tuple[bytes, int]:
    return store.read_sync("room", lambda tx: batch_with_room(tx, TASK_ID, SIZE))


def full(store: Database) -> Batch | None:
    return store.read_sync("full", lambda tx: next_batch(tx, TASK_ID, SIZE))


def test_a_batch_counts_what_is_aggregated_and_what_is_in_a_job(store: Database) -> None:
    upload(store, 4)
    first = fill(store, 2)
    assert room(store) == (first, SIZE - 2)
    finish(store)
    assert fill(store, 2) == first
    assert room(store) == (first, SIZE - 4)
    assert full(store) is None


def test_a_batch_is_filled_before_the_next_one_is_begun(store: Database) -> None:
    upload(store, 2 * SIZE)
    first, second = fill(store), fill(store)
    assert first < second
    assert room(store)[1] == SIZE
    finish(store)
    assert full(store) == Batch(first, first)


def test_the_place_of_rejected_reports_is_filled_first(store: Database) -> None:
    upload(store, 3 * SIZE)
    first, second = fill(store), fill(store)
    finish(store, rejected=2)
    assert room(store) == (first, 2)
    assert full(store) is None
    assert fill(store) == first
    assert fill(store) > second


def test_a_batch_whose_collection_failed_is_selected_again_only_when_that_is_said(
    store: Database,
) -> None:
    upload(store, 2 * SIZE)
    first, second = fill(store), fill(store)
    finish(store)
    store.run_sync("ask", lambda tx: create_collection_job(tx, TASK_ID, b"next", None))
    leased = lease_collection(store)
    assert leased.job.batch is None

    def fail(tx: Transaction) -> None:
        select_batch(tx, leased.lease, Batch(first, first))
        fail_collection_job(tx, leased.lease, "{}")

    store.run_sync("fail", fail)
    assert full(store) is None
    with patch.object(collection_room, "MOST_FRUITLESS", 0):
        store.run_sync("room", lambda tx: delete_fruitless_jobs(tx, TASK_ID, leader_selects=True))
    assert full(store) is None
    finish(store)
    assert full(store) == Batch(second, second)
    store.run_sync("again", lambda tx: select_again(tx, TASK_ID, Batch(first, first)))
    assert full(store) == Batch(first, first)


def test_reports_are_there_until_they_are_aggregated(store: Database) -> None:
    assert not store.read_sync("any", lambda tx: has_reports(tx, TASK_ID))
    upload(store, SIZE)
    fill(store)
    assert store.read_sync("any", lambda tx: has_reports(tx, TASK_ID))
    finish(store)
    assert not store.read_sync("any", lambda tx: has_reports(tx, TASK_ID))
