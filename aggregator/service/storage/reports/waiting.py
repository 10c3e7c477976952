"""How many stored reports of each bucket wait to be aggregated, counted as they come and go.

Counting the reports for every upload would take longer the more there are. So every verb that
stores, deletes or moves reports says so here, in the same transaction. A count is the sum of its
shards (`locks.own_shard`): a report may come in one and leave in another, which may be negative.
"""

from collections.abc import Callable, Mapping

from sqlalchemy import Table, bindparam, func, select

from aggregator.protocol.batches import Batch
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Insert
from aggregator.service.storage.engine.transaction import Transaction


def count_waiting(tx: Transaction, task: int, change: Mapping[bytes, int]) -> None:
    """Add `change`, which may be negative, to each bucket's number of waiting reports.

    Args:
        tx: The transaction.
        task: The task's key.
        change: The difference, by bucket.
    """
    if not change:
        return
    place = {"task": task, "shard": locks.own_shard(tx, task)}
    changes = [{**place, "bucket": bucket, "reports": more} for bucket, more in change.items()]
    tx.run(tx.prepared(_adding), *changes)


def _adding(insert: Callable[[Table], Insert]) -> Insert:
    table = tables.waiting_reports
    statement = insert(table)
    return statement.on_conflict_do_update(
        index_elements=["task", "bucket", "shard"],
        set_={"reports": table.c.reports + statement.excluded.reports},
    )


def count_left(tx: Transaction, task: int, gone: Mapping[bytes, int]) -> None:
    """Subtract the reports in `gone`, by bucket, which no longer wait."""
    count_waiting(tx, task, {bucket: -reports for bucket, reports in gone.items()})


def waiting_buckets(tx: Transaction, task_id: bytes) -> list[tuple[bytes, int]]:
    """Return the buckets of a task's waiting reports, with counts; key empty if not chosen yet."""
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
    place = {"task": tx.task_key(task_id), "first": batch.first, "last": batch.last}
    return int(tx.connection.execute(_IN_BATCH, place).scalar_one())


_IN_BATCH = select(func.coalesce(func.sum(tables.waiting_reports.c.reports), 0)).where(
    tables.waiting_reports.c.task == bindparam("task"),
    tables.waiting_reports.c.bucket.between(bindparam("first"), bindparam("last")),
)
