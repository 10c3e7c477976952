"""Batches and their un-noised aggregate shares, which are destroyed on collection.

A bucket's share is encrypted under a random key of its own, which is itself stored encrypted
(`crypter`). Releasing a batch deletes the keys and the ciphertext, and empties the database's log.
Closed batches are kept as ranges of buckets, so one of 2^63 units costs no more than one of a
single unit; only buckets that hold reports have rows.
"""

import bisect
from collections.abc import Callable, Collection

from sqlalchemy import Column, ColumnElement, Row, delete, func, insert, select, update

from aggregator.dap.times import Time
from aggregator.errors import StoreError
from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.storage import tables
from aggregator.storage.crypter import KEY_SIZE, Crypter
from aggregator.storage.database import Transaction
from aggregator.storage.states import BatchState, CollectionJobState

_BUCKETS_PER_QUERY = 500
_TOTALS = tuple(
    tables.buckets.c[name] for name in ("report_count", "checksum", "first_time", "last_time")
)


class BatchClosed(StoreError):
    """The batch, or a part of it, is frozen or collected; `state` says which."""

    def __init__(self, state: BatchState) -> None:
        """Say that (part of) the batch is in `state`."""
        super().__init__(f"the batch is {state}")
        self.state = state


class ClosedBatches:
    """Closed batches of a task, for looking up many buckets: `bucket in closed`."""

    __slots__ = ("_firsts", "_lasts", "_states")

    def __init__(self, rows: list[tuple[bytes, bytes, str]]) -> None:
        """Hold `(first bucket, last bucket, state)` rows, in order and without overlap."""
        self._firsts = [first for first, _, _ in rows]
        self._lasts = [last for _, last, _ in rows]
        self._states = [BatchState(state) for _, _, state in rows]

    def __contains__(self, bucket: bytes) -> bool:
        return self.state(bucket) is not None

    def state(self, bucket: bytes) -> BatchState | None:
        """Return the state of the batch that holds `bucket`, None if it is open."""
        index = bisect.bisect_right(self._firsts, bucket) - 1
        return self._states[index] if index >= 0 and bucket <= self._lasts[index] else None

    def overall(self) -> BatchState | None:
        """Return COLLECTED if anything is collected, else FROZEN if anything is, else None."""
        return max(self._states, key=lambda s: s is BatchState.COLLECTED, default=None)


def closed_batches(tx: Transaction, task_id: bytes, batch: Batch) -> ClosedBatches:
    """Return the closed batches of the task that overlap `batch`."""
    closed = tables.closed_batches.c
    query = (
        select(closed.first_bucket, closed.last_bucket, closed.state)
        .where(
            closed.task == tx.task_key(task_id),
            closed.first_bucket <= batch.last,
            closed.last_bucket >= batch.first,
        )
        .order_by(closed.first_bucket)
    )
    return ClosedBatches(list(tx.connection.execute(query)))


def closed_to_uploads(tx: Transaction, task_id: bytes, batch: Batch) -> ClosedBatches:
    """Return what takes no more uploads of `batch`: closed batches, and those that are asked for.

    A collection waits for the reports that came before it was asked for. If others could join them,
    a trickle would keep it waiting for ever.
    """
    job, closed = tables.collection_jobs.c, tables.closed_batches.c
    shut = (
        select(table.first_bucket, table.last_bucket).where(
            table.task == tx.task_key(task_id),
            table.state.in_(states),
            table.first_bucket <= batch.last,
            table.last_bucket >= batch.first,
        )
        for table, states in ((closed, tuple(BatchState)), (job, (CollectionJobState.START,)))
    )
    rows: list[tuple[bytes, bytes, str]] = []
    for first, last in sorted(row for query in shut for row in tx.connection.execute(query).all()):
        if rows and first <= rows[-1][1]:  # two jobs may ask for batches that overlap
            rows[-1] = (rows[-1][0], max(last, rows[-1][1]), BatchState.FROZEN)
        else:
            rows.append((first, last, BatchState.FROZEN))
    return ClosedBatches(rows)


def room_in_buckets(
    tx: Transaction,
    task_id: bytes,
    buckets: Collection[bytes],
    max_reports: int,
    *,
    beside_waiting: bool = False,
) -> dict[bytes, int]:
    """Return how many more reports buckets may take, so that none has more than `max_reports`.

    Args:
        tx: The transaction.
        task_id: The task.
        buckets: Their keys; the empty one is no bucket and has no limit.
        max_reports: The most that a batch may hold, and so a bucket, the smallest batch.
        beside_waiting: Whether stored reports that are not aggregated yet have their places too.
    """
    counts = [tables.buckets.c.report_count]
    if beside_waiting:
        counts.append(tables.waiting_reports.c.reports)
    room = {bucket: max_reports for bucket in buckets if bucket}
    keys = list(room)
    for count in counts:
        table = count.table.c
        for start in range(0, len(keys), _BUCKETS_PER_QUERY):
            query = select(table.bucket, count).where(
                table.task == tx.task_key(task_id),
                table.bucket.in_(keys[start : start + _BUCKETS_PER_QUERY]),
            )
            for bucket, taken in tx.connection.execute(query):
                room[bucket] -= taken
    return room


def accumulate(
    tx: Transaction,
    task_id: bytes,
    bucket: bytes,
    merge: Callable[[bytes | None], bytes],
    totals: BatchTotals,
) -> None:
    """Merge out shares into a bucket; `record_ids` belongs in the same transaction.

    Args:
        tx: The transaction.
        task_id: The task.
        bucket: The bucket's key.
        merge: Returns the new encoded aggregate share for the one so far, None for the first.
        totals: The totals of the reports that are merged.

    Raises:
        BatchClosed: The bucket is frozen or collected; the transaction must not go on.
    """
    state = closed_batches(tx, task_id, Batch(bucket, bucket)).overall()
    if state is not None:
        raise tx.refuse(BatchClosed(state))
    table = tables.buckets
    task = tx.task_key(task_id)
    row = task_id + bucket
    place = (table.c.task == task, table.c.bucket == bucket)
    found = tx.connection.execute(select(table.c.share, *_TOTALS).where(*place)).one_or_none()
    cipher = bucket_cipher(tx, task, task_id, bucket)
    if found is None:
        share = cipher.encrypt("buckets", row, "share", merge(None))
        values = {"task": task, "bucket": bucket, "share": share, **totals_columns(totals)}
        tx.connection.execute(insert(table).values(values))
    else:
        old = cipher.decrypt("buckets", row, "share", found.share)
        share = cipher.encrypt("buckets", row, "share", merge(old))
        values = {"share": share, **totals_columns(totals_of(found) + totals)}
        tx.connection.execute(update(table).where(*place).values(values))


def summarize_batch(tx: Transaction, task_id: bytes, batch: Batch) -> BatchTotals:
    """Return how many reports the batch holds, and which."""
    query = select(*_TOTALS).where(*_in_batch(tx, tables.buckets.c.bucket, task_id, batch))
    return sum((totals_of(row) for row in tx.connection.execute(query)), BatchTotals())


def report_count(tx: Transaction, task_id: bytes, batch: Batch) -> int:
    """Return how many reports the batch holds."""
    buckets = tables.buckets.c
    query = select(func.coalesce(func.sum(buckets.report_count), 0)).where(
        *_in_batch(tx, buckets.bucket, task_id, batch)
    )
    return tx.connection.execute(query).scalar_one()


def read_shares(tx: Transaction, task_id: bytes, batch: Batch) -> list[bytes]:
    """Return the encoded un-noised aggregate shares of the batch's buckets.

    Raises:
        CrypterError: One of them was destroyed or changed.
    """
    table = tables.buckets.c
    query = (
        select(table.task, table.bucket, table.share)
        .where(*_in_batch(tx, table.bucket, task_id, batch), table.share.is_not(None))
        .order_by(table.bucket)
    )
    shares = []
    for task, bucket, share in tx.connection.execute(query).all():
        cipher = bucket_cipher(tx, task, task_id, bucket)
        shares.append(cipher.decrypt("buckets", task_id + bucket, "share", share))
    return shares


def freeze(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Close the batch until `unfreeze` or `mark_collected`.

    Raises:
        BatchClosed: A part of it is closed already.
    """
    _close(tx, task_id, batch, BatchState.FROZEN)


def unfreeze(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Reopen a batch that `freeze` closed."""
    tx.connection.execute(delete(tables.closed_batches).where(*_is_frozen(tx, task_id, batch)))


def is_window_open(tx: Transaction, task_id: bytes, last: Time) -> bool:
    """Return whether a bucket that is not collected has a report of `last` or before."""
    bucket = tables.buckets.c
    query = select(bucket.bucket).where(
        bucket.task == tx.task_key(task_id),
        bucket.share.is_not(None),
        bucket.first_time <= last.units,
    )
    return tx.connection.execute(query.limit(1)).scalar() is not None


def mark_collected(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Close the batch for ever and destroy its un-noised shares.

    Raises:
        BatchClosed: A part of it is closed already, and not by a `freeze` of the same batch.
    """
    frozen = (
        update(tables.closed_batches)
        .where(*_is_frozen(tx, task_id, batch))
        .values(state=BatchState.COLLECTED, changed_at=tx.now)
    )
    if tx.connection.execute(frozen).rowcount == 0:
        _close(tx, task_id, batch, BatchState.COLLECTED)
    buckets, keys, jobs = tables.buckets, tables.bucket_keys, tables.job_shares
    in_batch = _in_batch(tx, buckets.c.bucket, task_id, batch)
    tx.connection.execute(update(buckets).where(*in_batch).values(share=None))
    tx.connection.execute(delete(keys).where(*_in_batch(tx, keys.c.bucket, task_id, batch)))
    tx.connection.execute(delete(jobs).where(*_in_batch(tx, jobs.c.bucket, task_id, batch)))
    tx.scrub_log = True


def _close(tx: Transaction, task_id: bytes, batch: Batch, state: BatchState) -> None:
    closed = closed_batches(tx, task_id, batch).overall()
    if closed is not None:
        raise tx.refuse(BatchClosed(closed))
    tx.connection.execute(
        insert(tables.closed_batches).values(
            task=tx.task_key(task_id),
            first_bucket=batch.first,
            last_bucket=batch.last,
            state=state,
            changed_at=tx.now,
        )
    )


def _is_frozen(tx: Transaction, task_id: bytes, batch: Batch) -> tuple[ColumnElement[bool], ...]:
    closed = tables.closed_batches.c
    return (
        closed.task == tx.task_key(task_id),
        closed.first_bucket == batch.first,
        closed.last_bucket == batch.last,
        closed.state == BatchState.FROZEN,
    )


def _in_batch(
    tx: Transaction, bucket: Column[bytes], task_id: bytes, batch: Batch
) -> tuple[ColumnElement[bool], ...]:
    """Return the condition that a row belongs to the batch, by its column `bucket`."""
    return (
        bucket.table.c.task == tx.task_key(task_id),
        bucket.between(batch.first, batch.last),
    )


def totals_columns(totals: BatchTotals) -> dict[str, object]:
    """Return the columns in which totals are stored."""
    first, last = totals.times or (None, None)
    return {
        "report_count": totals.report_count,
        "checksum": totals.checksum,
        "first_time": None if first is None else first.units,
        "last_time": None if last is None else last.units,
    }


def totals_of(row: Row[tuple[object, ...]]) -> BatchTotals:
    """Return the totals that a row holds."""
    columns = row._mapping  # noqa: SLF001  SQLAlchemy's public name, underscored against clashes
    first, last = columns["first_time"], columns["last_time"]
    times = None if first is None else (Time(first), Time(last))
    return BatchTotals(columns["report_count"], columns["checksum"], times)


def bucket_cipher(tx: Transaction, task: int, task_id: bytes, bucket: bytes) -> Crypter:
    """Return a crypter under the bucket's own key, making the key with the bucket."""
    table = tables.bucket_keys
    row = task_id + bucket
    query = select(table.c.key).where(table.c.task == task, table.c.bucket == bucket)
    stored = tx.connection.execute(query).scalar()
    if stored is not None:
        return Crypter((tx.crypter.decrypt("bucket_keys", row, "key", stored),), tx.entropy)
    key = tx.entropy.bytes(KEY_SIZE)
    tx.connection.execute(
        insert(table).values(
            task=task, bucket=bucket, key=tx.crypter.encrypt("bucket_keys", row, "key", key)
        )
    )
    return Crypter((key,), tx.entropy)
