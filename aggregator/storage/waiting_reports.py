"""How many stored reports of each bucket wait to be aggregated, counted as they come and go.

Counting their rows would take longer the more there are, for every upload. Whatever stores, deletes
or moves rows of `reports` says so here, in the same transaction.
"""

from collections.abc import Mapping

from sqlalchemy import bindparam, delete, func, select, update

from aggregator.protocol.batches import Batch
from aggregator.storage import tables
from aggregator.storage.database import Transaction
from aggregator.storage.engine import Conflict


def add_waiting(tx: Transaction, task: int, reports: Mapping[bytes, int]) -> None:
    """Count more reports, by bucket, of the task with key `task`."""
    table = tables.waiting_reports
    if not reports:
        return
    statement = tx.insert(table)
    tx.connection.execute(
        statement.on_conflict_do_update(
            index_elements=["task", "bucket"],
            set_={"reports": table.c.reports + statement.excluded.reports},
        ),
        [
            {"task": task, "bucket": bucket, "reports": more}
            for bucket, more in sorted(reports.items())
        ],
    )


def remove_waiting(tx: Transaction, task: int, reports: Mapping[bytes, int]) -> None:
    """Count fewer reports, by bucket, of the task with key `task`.

    Raises:
        Conflict: Fewer were counted.
    """
    if not reports:
        return
    waiting = tables.waiting_reports
    place = (waiting.c.task == task, waiting.c.bucket == bindparam("of_bucket"))
    gone = [{"of_bucket": bucket, "fewer": fewer} for bucket, fewer in sorted(reports.items())]
    counted = tx.connection.execute(
        update(waiting).where(*place).values(reports=waiting.c.reports - bindparam("fewer")), gone
    )
    if counted.rowcount != len(gone):
        raise tx.refuse(Conflict("reports that leave were not counted when they came"))
    tx.connection.execute(delete(waiting).where(*place, waiting.c.reports == 0), gone)


def waiting_buckets(tx: Transaction, task_id: bytes) -> list[tuple[bytes, int]]:
    """Return the buckets of a task's stored reports, with their numbers; empty for none yet."""
    waiting = tables.waiting_reports.c
    query = select(waiting.bucket, waiting.reports).where(waiting.task == tx.task_key(task_id))
    return [(row.bucket, row.reports) for row in tx.connection.execute(query)]


def waiting_in_batch(tx: Transaction, task_id: bytes, batch: Batch) -> int:
    """Return how many stored reports of the batch are not aggregated yet."""
    waiting = tables.waiting_reports.c
    query = select(func.coalesce(func.sum(waiting.reports), 0)).where(
        waiting.task == tx.task_key(task_id), waiting.bucket.between(batch.first, batch.last)
    )
    return int(tx.connection.execute(query).scalar_one())
