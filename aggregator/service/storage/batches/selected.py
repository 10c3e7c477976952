"""Batches that the Leader selects: which one is being filled, and which is collected next.

A batch is filled up to a size. Aggregated reports and those in unfinished jobs count, so others
take the place of rejected ones. A batch is selected for at most one collection job, unless that job
fails through no fault of the batch.

Source: DAP, "Leader-selected Batch Mode".
"""

from sqlalchemy import func, select, update

from aggregator.protocol.batches import Batch
from aggregator.protocol.leader_selected import new_bucket
from aggregator.service.storage.batches.sums import has_share
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.states import CollectionJobState
from aggregator.service.storage.engine.transaction import Transaction


def batch_with_room(tx: Transaction, task_id: bytes, size: int) -> tuple[bytes, int]:
    """Return the key of the oldest batch with room, or of a new one, and the room it has.

    Args:
        tx: The transaction, in which the reports are also claimed.
        task_id: The task.
        size: How many reports fill a batch.
    """
    locks.claim_waiting(tx, task_id)
    bucket, job, group = tables.buckets.c, tables.aggregation_jobs.c, tables.report_groups.c
    task = tx.task_key(task_id)
    of_task = select(job.bucket).where(job.task == task, job.bucket.is_not(None))
    newest_first = of_task.order_by(job.bucket.desc()).limit(1)
    newest = tx.connection.execute(newest_first).scalar() or b""
    short = (
        select(bucket.bucket)
        .join(tables.bucket_keys, has_share())
        .where(bucket.task == task)
        .group_by(bucket.bucket)
        .having(func.sum(bucket.report_count) < size)
    )
    # A batch is filled before the next is begun, so one with room is the newest, or has had reports
    # rejected.
    keys = {newest, *tx.connection.execute(short).scalars()} - {b""}
    for key in sorted(keys):
        in_bucket = (bucket.task == task, bucket.bucket == key)
        aggregated = select(func.coalesce(func.sum(bucket.report_count), 0)).where(*in_bucket)
        jobs = select(job.id).where(job.task == task, job.bucket == key)
        claimed = select(func.coalesce(func.sum(group.reports), 0)).where(
            group.task == task, group.job.in_(jobs)
        )
        # In one statement, so that a job that ends meanwhile is counted once.
        both = select(aggregated.scalar_subquery() + claimed.scalar_subquery())
        room = size - int(tx.connection.execute(both).scalar_one())
        if room > 0:
            return key, room
    return new_bucket(newest, tx.entropy), size


def next_batch(tx: Transaction, task_id: bytes, size: int) -> Batch | None:
    """Return the oldest batch of `size` reports that was not selected before, if any.

    All its reports are aggregated, since it never takes more than `size`.
    """
    locks.change_batches(tx, task_id)  # or another transaction could select the same batch
    bucket, job = tables.buckets.c, tables.collection_jobs.c
    selected = select(job.id).where(job.task == bucket.task, job.first_bucket == bucket.bucket)
    query = (
        select(bucket.bucket)
        .join(tables.bucket_keys, has_share())
        .where(bucket.task == tx.task_key(task_id), ~selected.exists())
        .group_by(bucket.bucket)
        .having(func.sum(bucket.report_count) >= size)
        .order_by(bucket.bucket)
        .limit(1)
    )
    key = tx.connection.execute(query).scalar()
    return None if key is None else Batch(key, key)


def select_again(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Allow the batch of a failed collection job to be selected again: the failed job forgets it.

    We have released nothing of it. If the Helper has, it repeats its share for the same request and
    refuses any other.
    """
    locks.change_batches(tx, task_id)
    job = tables.collection_jobs
    tx.connection.execute(
        update(job)
        .where(
            job.c.task == tx.task_key(task_id),
            job.c.state.in_((CollectionJobState.FAILED, CollectionJobState.DELETED)),
            job.c.first_bucket.between(batch.first, batch.last),
        )
        .values(first_bucket=None, last_bucket=None)
    )
