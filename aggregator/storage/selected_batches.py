"""Batches that the Leader selects: which of a task's is filled, and which is collected next.

A batch is filled up to a size. It counts the reports that are aggregated and those in unfinished
jobs, so a batch of which reports were rejected takes others in their place. A batch is selected for
one collection job at most, whatever became of that.

Source: DAP, "Leader-selected Batch Mode".
"""

from sqlalchemy import func, select

from aggregator.protocol.batches import Batch
from aggregator.protocol.leader_selected import new_bucket
from aggregator.storage import tables
from aggregator.storage.batches import has_share
from aggregator.storage.database import Transaction


def batch_with_room(tx: Transaction, task_id: bytes, size: int) -> tuple[bytes, int]:
    """Return the key of the oldest batch with room, or of a new one, and how many reports it takes.

    Args:
        tx: The transaction, in which the reports are also claimed.
        task_id: The task.
        size: How many reports fill a batch.
    """
    bucket, job, report = tables.buckets.c, tables.aggregation_jobs.c, tables.reports.c
    task = tx.task_key(task_id)
    of_task = (job.task == task, job.bucket.is_not(None))
    newest = tx.connection.execute(select(func.max(job.bucket)).where(*of_task)).scalar() or b""
    short = (
        select(bucket.bucket)
        .join(tables.bucket_keys, has_share())
        .where(bucket.task == task, bucket.report_count < size)
    )
    # A batch is filled before the next one is begun, so one with room is the newest, or reports of
    # it were rejected.
    keys = {newest, *tx.connection.execute(short).scalars()} - {b""}
    for key in sorted(keys):
        aggregated = select(bucket.report_count).where(bucket.task == task, bucket.bucket == key)
        jobs = select(job.id).where(job.task == task, job.bucket == key)
        claimed = select(func.count()).where(report.task == task, report.job.in_(jobs))
        count = tx.connection.execute(aggregated).scalar() or 0
        room = size - count - tx.connection.execute(claimed).scalar_one()
        if room > 0:
            return key, room
    return new_bucket(newest, tx.entropy), size


def next_batch(tx: Transaction, task_id: bytes, size: int) -> Batch | None:
    """Return the oldest batch of `size` reports that was not selected before, if any.

    Its reports are all aggregated, for no more than `size` were ever put into it.
    """
    bucket, job = tables.buckets.c, tables.collection_jobs.c
    selected = select(job.id).where(job.task == bucket.task, job.first_bucket == bucket.bucket)
    query = (
        select(bucket.bucket)
        .join(tables.bucket_keys, has_share())
        .where(
            bucket.task == tx.task_key(task_id),
            bucket.report_count >= size,
            ~selected.exists(),
        )
        .order_by(bucket.bucket)
        .limit(1)
    )
    key = tx.connection.execute(query).scalar()
    return None if key is None else Batch(key, key)
