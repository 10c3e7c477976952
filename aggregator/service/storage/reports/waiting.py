"""How many stored reports of each bucket wait to be aggregated, counted as they come and go.

Counting their rows would take longer the more there are, for every upload. Whatever stores, deletes
or moves rows of `reports` says so here, in the same transaction. A count is the sum of its shards
(`locks.own_shard`): reports come in one and leave in any other, which may be less than 0.
"""

from collections.abc import Mapping

from sqlalchemy import func, select

from aggregator.protocol.batches import Batch
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.database import Transaction


def count_waiting(tx: Transaction, task: int, change: Mapping[bytes, int]) -> None:
    """Count by how many the waiting reports of buckets are more, or if below 0 fewer.

    Args:
        tx: The transaction.
        task: The task's key.
        change: The difference, by bucket.
    """
    table = tables.waiting_reports
    if not change:
        return
    place = {"task": task, "shard": locks.own_shard(tx, task)}
    statement = tx.insert(table)
    tx.connection.execute(
        statement.on_conflict_do_update(
            index_elements=["task", "bucket", "shard"],
            set_={"reports": table.c.reports + statement.excluded.reports},
        ),
        [{**place, "bucket": bucket, "reports": more} for bucket, more in change.items()],
    )


def count_left(tx: Transaction, task: int, gone: Mapping[bytes, int]) -> None:
    """Count that so many reports of buckets wait no more."""
    count_waiting(tx, task, {bucket: -reports for bucket, reports in gone.items()})


def waiting_buckets(tx: Transaction, task_id: bytes) -> list[tuple[bytes, int]]:
    """Return the buckets of a task's stored reports, with their numbers; empty for none yet."""
    waiting = tables.waiting_reports.c
    reports = func.sum(waiting.reports)
    query = (
        select(waiting.bucket, reports)
        .where(waiting.task == tx.task_key(task_id))
        .group_by(waiting.bucket)
        .having(reports > 0)
    )
    return [(bucket, int(count)) for bucket, count in tx.connection.execute(query)]


def waiting_in_batch(tx: Transaction, task_id: bytes, batch: Batch) -> int:
    """Return how many stored reports of the batch are not aggregated yet."""
    waiting = tables.waiting_reports.c
    query = select(func.coalesce(func.sum(waiting.reports), 0)).where(
        waiting.task == tx.task_key(task_id), waiting.bucket.between(batch.first, batch.last)
    )
    return int(tx.connection.execute(query).scalar_one())
