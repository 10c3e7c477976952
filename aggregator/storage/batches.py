"""Batch buckets: un-noised aggregate shares, until their batch is collected and they are destroyed.

A bucket's share is ciphertext under a random key of the bucket, which is itself stored encrypted
(`crypter`). Releasing a batch deletes the key's row and the ciphertext, and empties the database's
log. Which buckets are closed is kept as ranges, so a batch of 2^63 units costs what one of one unit
does; only buckets that hold reports have rows.
"""

import bisect
import dataclasses
from collections.abc import Callable

from sqlalchemy import ColumnElement, delete, insert, select, update

from aggregator.errors import StoreError
from aggregator.storage import tables
from aggregator.storage.crypter import KEY_SIZE, Crypter
from aggregator.storage.database import Transaction
from aggregator.storage.states import IntervalState
from aggregator.storage.tables import uint64

CHECKSUM_SIZE = 32


class BatchClosed(StoreError):
    """The batch, or a part of it, is frozen or collected; `state` says which."""

    def __init__(self, state: IntervalState) -> None:
        """Say that (part of) the batch is in `state`."""
        super().__init__(f"the batch is {state}")
        self.state = state


@dataclasses.dataclass(frozen=True, slots=True)
class BatchSummary:
    """What a batch holds.

    Attributes:
        report_count: Reports in it.
        checksum: XOR of SHA-256 of their ids, 32 bytes.
        start: First unit that has a report; None if there is no report.
        end: The unit after the last one that has.
    """

    report_count: int
    checksum: bytes
    start: int | None
    end: int | None


class ClosedIntervals:
    """The closed ranges of a task's units, to look many times up: `time in closed`."""

    __slots__ = ("_ends", "_starts", "_states")

    def __init__(self, rows: list[tuple[int, int, str]]) -> None:
        """Hold `(start, end, state)` rows, which do not overlap and are in order."""
        self._starts = [start for start, _, _ in rows]
        self._ends = [end for _, end, _ in rows]
        self._states = [IntervalState(state) for _, _, state in rows]

    def __contains__(self, time: int) -> bool:
        return self.state(time) is not None

    def state(self, time: int) -> IntervalState | None:
        """Return the state of the bucket that starts at `time`, None if it is open."""
        index = bisect.bisect_right(self._starts, time) - 1
        return self._states[index] if index >= 0 and time < self._ends[index] else None

    def overall(self) -> IntervalState | None:
        """Return COLLECTED if anything is collected, else FROZEN if anything is, else None."""
        return max(self._states, key=lambda s: s is IntervalState.COLLECTED, default=None)


def bucket_key(time: int) -> bytes:
    """Return the batch key of the time-interval bucket that starts at `time`, in units."""
    return uint64(time)


def closed_intervals(tx: Transaction, task_id: bytes, start: int, end: int) -> ClosedIntervals:
    """Return the closed ranges of the task that overlap [start, end), in units."""
    interval = tables.batch_intervals.c
    # `end` may be 2^64, the end of time, which has no eight bytes: compare with the last unit.
    query = (
        select(interval.start, interval.end, interval.state)
        .where(
            interval.task == tx.task_key(task_id),
            interval.start <= end - 1,
            interval.end > start,
        )
        .order_by(interval.start)
    )
    return ClosedIntervals(list(tx.connection.execute(query)))


def accumulate(
    tx: Transaction,
    task_id: bytes,
    batch_key: bytes,
    merge: Callable[[bytes | None], bytes],
    report_count: int,
    checksum: bytes,
) -> None:
    """Merge out shares into a bucket; `record_aggregated` belongs in the same transaction.

    Args:
        tx: The transaction.
        task_id: The task.
        batch_key: The bucket, see `bucket_key`.
        merge: Takes the encoded aggregate share so far, None if there is none, and returns the new.
        report_count: How many reports are merged.
        checksum: XOR of SHA-256 of their ids, 32 bytes.

    Raises:
        BatchClosed: The bucket is frozen or collected; the transaction must not go on.
    """
    time = int.from_bytes(batch_key, "big")
    state = closed_intervals(tx, task_id, time, time + 1).overall()
    if state is not None:
        raise tx.refuse(BatchClosed(state))
    bucket = tables.batch_buckets
    task = tx.task_key(task_id)
    row = task_id + batch_key
    place = (bucket.c.task == task, bucket.c.batch_key == batch_key)
    found = tx.connection.execute(
        select(bucket.c.share, bucket.c.report_count, bucket.c.checksum).where(*place)
    ).one_or_none()
    cipher = _bucket_cipher(tx, task, task_id, batch_key)
    if found is None:
        share = cipher.encrypt("batch_buckets", row, "share", merge(None))
        tx.connection.execute(
            insert(bucket).values(
                task=task,
                batch_key=batch_key,
                share=share,
                report_count=report_count,
                checksum=checksum,
            )
        )
    else:
        old = cipher.decrypt("batch_buckets", row, "share", found.share)
        tx.connection.execute(
            update(bucket)
            .where(*place)
            .values(
                share=cipher.encrypt("batch_buckets", row, "share", merge(old)),
                report_count=found.report_count + report_count,
                checksum=_xor(found.checksum, checksum),
            )
        )


def summarize_batch(tx: Transaction, task_id: bytes, start: int, end: int) -> BatchSummary:
    """Return how many reports the buckets in [start, end) hold, and which."""
    bucket = tables.batch_buckets.c
    query = (
        select(bucket.batch_key, bucket.report_count, bucket.checksum)
        .where(*_in_range(tx, task_id, start, end), bucket.report_count > 0)
        .order_by(bucket.batch_key)
    )
    rows = tx.connection.execute(query).all()
    if not rows:
        return BatchSummary(0, bytes(CHECKSUM_SIZE), None, None)
    checksum = bytes(CHECKSUM_SIZE)
    for row in rows:
        checksum = _xor(checksum, row.checksum)
    return BatchSummary(
        sum(row.report_count for row in rows),
        checksum,
        int.from_bytes(rows[0].batch_key, "big"),
        int.from_bytes(rows[-1].batch_key, "big") + 1,
    )


def read_shares(tx: Transaction, task_id: bytes, start: int, end: int) -> list[bytes]:
    """Return the encoded un-noised aggregate shares of the buckets in [start, end), to be added up.

    Raises:
        CrypterError: One of them was destroyed or changed.
    """
    bucket = tables.batch_buckets.c
    query = (
        select(bucket.task, bucket.batch_key, bucket.share)
        .where(*_in_range(tx, task_id, start, end), bucket.share.is_not(None))
        .order_by(bucket.batch_key)
    )
    shares = []
    for task, batch_key, share in tx.connection.execute(query).all():
        cipher = _bucket_cipher(tx, task, task_id, batch_key)
        shares.append(cipher.decrypt("batch_buckets", task_id + batch_key, "share", share))
    return shares


def freeze(tx: Transaction, task_id: bytes, start: int, end: int) -> None:
    """Close [start, end), in units, until `unfreeze` or `mark_collected`.

    Raises:
        BatchClosed: A part of it is closed already.
    """
    _close(tx, task_id, start, end, IntervalState.FROZEN)


def unfreeze(tx: Transaction, task_id: bytes, start: int, end: int) -> None:
    """Open [start, end) again, which `freeze` closed."""
    interval = tables.batch_intervals
    tx.connection.execute(delete(interval).where(*_is_frozen(tx, task_id, start, end)))


def mark_collected(tx: Transaction, task_id: bytes, start: int, end: int) -> None:
    """Close [start, end) for ever and destroy its un-noised shares.

    Raises:
        BatchClosed: A part of it is closed already, and not by a `freeze` of the same interval.
    """
    interval = tables.batch_intervals
    frozen = (
        update(interval)
        .where(*_is_frozen(tx, task_id, start, end))
        .values(state=IntervalState.COLLECTED, changed_at=tx.now)
    )
    if tx.connection.execute(frozen).rowcount == 0:
        _close(tx, task_id, start, end, IntervalState.COLLECTED)
    bucket, key = tables.batch_buckets, tables.batch_keys
    in_range = _in_range(tx, task_id, start, end)
    tx.connection.execute(update(bucket).where(*in_range).values(share=None))
    tx.connection.execute(
        delete(key).where(
            key.c.task == tx.task_key(task_id),
            key.c.batch_key >= uint64(start),
            key.c.batch_key < uint64(end),
        )
    )
    tx.scrub_log = True


def _close(tx: Transaction, task_id: bytes, start: int, end: int, state: IntervalState) -> None:
    closed = closed_intervals(tx, task_id, start, end).overall()
    if closed is not None:
        raise tx.refuse(BatchClosed(closed))
    tx.connection.execute(
        insert(tables.batch_intervals).values(
            task=tx.task_key(task_id), start=start, end=end, state=state, changed_at=tx.now
        )
    )


def _is_frozen(
    tx: Transaction, task_id: bytes, start: int, end: int
) -> tuple[ColumnElement[bool], ...]:
    interval = tables.batch_intervals.c
    return (
        interval.task == tx.task_key(task_id),
        interval.start == start,
        interval.end == end,
        interval.state == IntervalState.FROZEN,
    )


def _in_range(
    tx: Transaction, task_id: bytes, start: int, end: int
) -> tuple[ColumnElement[bool], ...]:
    bucket = tables.batch_buckets.c
    return (
        bucket.task == tx.task_key(task_id),
        bucket.batch_key >= uint64(start),
        bucket.batch_key < uint64(end),
    )


def _bucket_cipher(tx: Transaction, task: int, task_id: bytes, batch_key: bytes) -> Crypter:
    """Return a crypter under the bucket's own key, making the key with the bucket."""
    table = tables.batch_keys
    row = task_id + batch_key
    query = select(table.c.key).where(table.c.task == task, table.c.batch_key == batch_key)
    stored = tx.connection.execute(query).scalar()
    if stored is not None:
        return Crypter((tx.crypter.decrypt("batch_keys", row, "key", stored),), tx.entropy)
    key = tx.entropy.bytes(KEY_SIZE)
    tx.connection.execute(
        insert(table).values(
            task=task, batch_key=batch_key, key=tx.crypter.encrypt("batch_keys", row, "key", key)
        )
    )
    return Crypter((key,), tx.entropy)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
