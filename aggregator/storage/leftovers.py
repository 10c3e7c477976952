"""Shares of collected batches, whose keys are destroyed: they are deleted step by step afterwards.

Without its key a share is noise, so it may lie there for a while; deleting all of a large batch's
at once would keep every other writer waiting.
"""

import itertools

from sqlalchemy import delete, func, select, update

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
    closed, shares = tables.closed_batches, tables.bucket_shares
    batch = tx.connection.execute(_BATCH).first()
    if batch is None:
        return
    left = (
        shares.c.task == batch.task,
        shares.c.bucket.between(batch.first_bucket, batch.last_bucket),
    )
    query = select(shares.c.bucket, func.length(shares.c.share)).where(*left)
    rows = tx.connection.execute(query.order_by(shares.c.bucket).limit(_SHARES_PER_STEP)).all()
    sizes = itertools.accumulate(size for _, size in rows)
    count = sum(size < _BYTES_PER_STEP for size in sizes) + 1
    if rows:
        last = rows[:count][-1].bucket
        tx.connection.execute(delete(shares).where(*left, shares.c.bucket <= last))
    if len(rows) < min(count, _SHARES_PER_STEP):
        tx.connection.execute(update(closed).where(closed.c.id == batch.id).values(leftovers=0))
        tx.scrub_log = True
