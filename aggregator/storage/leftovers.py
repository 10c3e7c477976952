"""Shares of collected batches, whose keys are destroyed: they are deleted step by step afterwards.

Without its key a share is noise, so it may lie there for a while; deleting all of a large batch's
at once would keep every other writer waiting.
"""

import itertools
from typing import Any

from sqlalchemy import Column, Row, delete, func, select, update

from aggregator.storage import tables
from aggregator.storage.database import Transaction

_SHARES_PER_STEP = 256
_BYTES_PER_STEP = 2**20
_BATCH = select(tables.closed_batches).where(tables.closed_batches.c.leftovers == 1).limit(1)


def has_leftovers(tx: Transaction) -> bool:
    """Return whether shares of any collected batch are still to be deleted."""
    return tx.connection.execute(_BATCH).first() is not None


def delete_some_leftovers(tx: Transaction) -> None:
    """Delete some shares of one collected batch, if there are any."""
    closed, shares, jobs = tables.closed_batches, tables.bucket_shares, tables.job_shares
    batch = tx.connection.execute(_BATCH).first()
    if batch is None:
        return
    for share, key in ((shares.c.share, shares.c.bucket), (jobs.c.share, jobs.c.id)):
        if _delete_some(tx, batch, share, key):
            return
    tx.connection.execute(update(closed).where(closed.c.id == batch.id).values(leftovers=0))
    tx.scrub_log = True


def _delete_some(tx: Transaction, batch: Row[Any], share: Column[bytes], key: Column[Any]) -> bool:
    """Delete some shares of a table; return whether there may be more.

    Args:
        tx: The transaction.
        batch: The row of the batch.
        share: The table's column of shares.
        key: Its column that tells the shares of a task apart.
    """
    column = share.table.c
    left = (
        column.task == batch.task,
        column.bucket.between(batch.first_bucket, batch.last_bucket),
    )
    query = select(key, func.length(share)).where(*left).order_by(column.bucket)
    rows = tx.connection.execute(query.limit(_SHARES_PER_STEP)).all()
    sizes = itertools.accumulate(size for _, size in rows)
    count = sum(size < _BYTES_PER_STEP for size in sizes) + 1
    keys = [row[0] for row in rows[:count]]
    if keys:
        tx.connection.execute(delete(share.table).where(column.task == batch.task, key.in_(keys)))
    return bool(len(rows) >= min(count, _SHARES_PER_STEP))
