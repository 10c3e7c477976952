"""Deletes the shares of collected batches step by step, after their keys are destroyed.

Without its key a share is unreadable, so it may stay for a while; deleting all shares of a large
batch at once would keep every other writer waiting.
"""

import itertools
from typing import Any

from sqlalchemy import Column, Row, bindparam, delete, func, select, update

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction

_SHARES_PER_STEP = 256
_BYTES_PER_STEP = 2**20
_BATCH = select(tables.closed_batches).where(tables.closed_batches.c.leftovers == 1).limit(1)


def has_leftovers(tx: Transaction) -> bool:
    """Return whether shares of any collected batch are still to be deleted."""
    return tx.connection.execute(_BATCH).first() is not None


def delete_some_leftovers(tx: Transaction) -> int:
    """Delete some shares of one collected batch; return 0 if no batch has any left."""
    closed, shares, jobs = tables.closed_batches, tables.bucket_shares, tables.job_shares
    batch = tx.connection.execute(_BATCH).first()
    if batch is None:
        return 0
    if any(_delete_some(tx, batch, share) for share in (shares.c.share, jobs.c.share)):
        return 1
    tx.connection.execute(update(closed).where(closed.c.id == batch.id).values(leftovers=0))
    tx.scrub_log = True
    return 1


def _delete_some(tx: Transaction, batch: Row[Any], share: Column[bytes]) -> bool:
    """Delete some of the batch's shares in a column; return whether there may be more."""
    column, key = share.table.c, list(share.table.primary_key.columns)
    left = (
        column.task == batch.task,
        column.bucket.between(batch.first_bucket, batch.last_bucket),
    )
    query = select(func.length(share), *key).where(*left).order_by(column.bucket)
    rows = tx.connection.execute(query.limit(_SHARES_PER_STEP)).all()
    sizes = itertools.accumulate(row[0] for row in rows)
    count = sum(size < _BYTES_PER_STEP for size in sizes) + 1
    names = [f"the_{each.name}" for each in key]
    gone = [dict(zip(names, row[1:], strict=True)) for row in rows[:count]]
    if gone:
        is_it = (each == bindparam(name) for each, name in zip(key, names, strict=True))
        tx.connection.execute(delete(share.table).where(*is_it), gone)
    return bool(len(rows) >= min(count, _SHARES_PER_STEP))
