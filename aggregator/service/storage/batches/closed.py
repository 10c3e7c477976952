"""Which batches are closed: frozen while they are being released, or collected and destroyed.

They are kept as ranges of buckets, so a batch of 2^63 units costs no more than one of one unit.
"""

import bisect
import dataclasses
import itertools
from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Table,
    bindparam,
    delete,
    false,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from aggregator.errors import StoreError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.states import BatchState, CollectionJobState
from aggregator.service.storage.engine.transaction import Transaction

_NEAR = 256
"""Buckets at most this far apart are looked up together with all that lies between them."""
_MOST_SPANS = 16
"""The most ranges to look up: more would take longer than what lies between them."""


class BatchClosed(StoreError):
    """All or part of the batch is frozen or collected, as `state` says."""

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

    @property
    def firsts(self) -> list[bytes]:
        """The first bucket of each, in order."""
        return self._firsts

    def __contains__(self, bucket: object) -> bool:
        return isinstance(bucket, bytes) and self.state(bucket) is not None

    def state(self, bucket: bytes) -> BatchState | None:
        """Return the state of the batch that holds `bucket`, None if it is open."""
        index = bisect.bisect_right(self._firsts, bucket) - 1
        return self._states[index] if index >= 0 and bucket <= self._lasts[index] else None

    def overlaps(self, batch: Batch) -> bool:
        """Return whether a closed batch has a bucket in common with `batch`."""
        index = bisect.bisect_right(self._firsts, batch.last) - 1
        return index >= 0 and self._lasts[index] >= batch.first

    def overall(self) -> BatchState | None:
        """Return COLLECTED if anything is collected, else FROZEN if anything is, else None."""
        return max(self._states, key=lambda s: s is BatchState.COLLECTED, default=None)


def closed_batches(tx: Transaction, task_id: bytes, batch: Batch) -> ClosedBatches:
    """Return the closed batches of the task that overlap `batch`."""
    found = tx.run(_CLOSED, _range(tx, task_id, batch))
    return ClosedBatches([(first, last, state) for first, last, state in found])


def closed_among(tx: Transaction, task_id: bytes, buckets: Collection[bytes]) -> ClosedBatches:
    """Return closed batches of the task, including all that hold any of the buckets."""
    ranges = [_range(tx, task_id, each) for each in spans(buckets)]
    rows = {(*row,) for within in ranges for row in tx.run(_CLOSED, within)}
    return ClosedBatches(sorted(rows))


def is_closed(row: ReadOnlyColumnCollection[str, Column[Any]]) -> ColumnElement[bool]:
    """Return the condition that a row's bucket is in a closed batch of the row's task."""
    closed = tables.closed_batches.c
    last = (
        select(closed.last_bucket)
        .where(closed.task == row.task, closed.first_bucket <= row.bucket)
        .order_by(closed.first_bucket.desc())
        .limit(1)
    )
    return func.coalesce(last.scalar_subquery() >= row.bucket, false())


def _range(tx: Transaction, task_id: bytes, batch: Batch) -> dict[str, object]:
    """Return the parameters of statements about the rows that overlap a batch."""
    return {"task": tx.task_key(task_id), "first": batch.first, "last": batch.last}


def _overlapping() -> tuple[ColumnElement[bool], ...]:
    """Return the condition that a closed batch overlaps a range.

    Closed batches do not overlap one another. So of the batches that begin at or before the start
    of the range, which may be many, only the last can overlap it, and only that one is looked at.
    """
    closed = tables.closed_batches.c
    of_task = closed.task == bindparam("task")
    before = (
        select(closed.first_bucket)
        .where(of_task, closed.first_bucket <= bindparam("first"))
        .order_by(closed.first_bucket.desc())
        .limit(1)
    )
    begin = bindparam("first", type_=closed.first_bucket.type)
    return (
        of_task,
        closed.first_bucket.between(
            func.coalesce(before.scalar_subquery(), begin), bindparam("last")
        ),
        closed.last_bucket >= bindparam("first"),
    )


_CLOSED = (
    select(
        tables.closed_batches.c.first_bucket,
        tables.closed_batches.c.last_bucket,
        tables.closed_batches.c.state,
    )
    .where(*_overlapping())
    .order_by(tables.closed_batches.c.first_bucket)
)
_UNDER_WAY = select(
    tables.collection_jobs.c.first_bucket, tables.collection_jobs.c.last_bucket
).where(
    tables.collection_jobs.c.task == bindparam("task"),
    tables.collection_jobs.c.state == CollectionJobState.START,
    tables.collection_jobs.c.first_bucket <= bindparam("last"),
    tables.collection_jobs.c.last_bucket >= bindparam("first"),
)


def _of_others(
    batches: Table, *columns: ColumnElement[str]
) -> Select[tuple[bytes, bytes, *tuple[str, ...]]]:
    """Return the statement of the rows of several tasks that overlap a range."""
    row = batches.c
    return (
        select(row.first_bucket, row.last_bucket, *columns)
        .join(tables.tasks, tables.tasks.c.id == row.task)
        .where(
            tables.tasks.c.task_id.in_(bindparam("others", expanding=True)),
            row.first_bucket <= bindparam("last"),
            row.last_bucket >= bindparam("first"),
        )
    )


_CLOSED_OF_OTHERS = _of_others(tables.closed_batches, tables.closed_batches.c.state)
_UNDER_WAY_OF_OTHERS = _of_others(tables.collection_jobs).where(
    tables.collection_jobs.c.state == CollectionJobState.START
)


@dataclasses.dataclass(frozen=True, slots=True)
class ClosedToUploads:
    """The batches that take no uploads: for ever, or until their collection ends or fails.

    Attributes:
        collected: Those that are collected.
        under_way: Those that are being collected, which may fail.
    """

    collected: ClosedBatches
    under_way: ClosedBatches

    def __contains__(self, bucket: object) -> bool:
        return bucket in self.collected or bucket in self.under_way

    def state(self, bucket: bytes) -> BatchState | None:
        """Return the state of the batch that holds `bucket`, None if it takes uploads."""
        if bucket in self.collected:
            return BatchState.COLLECTED
        return BatchState.FROZEN if bucket in self.under_way else None


def closed_to_uploads(
    tx: Transaction, task_id: bytes, buckets: Collection[bytes], others: Collection[bytes] = ()
) -> ClosedToUploads:
    """Return the batches that take no uploads: closed ones, and those with a collection job.

    A collection waits for the reports that came before its job. If others could join them, a
    trickle of uploads would keep it waiting for ever. `others` are tasks that take the same
    people's answers: what one of them takes no more, none takes.
    """
    found: dict[bool, set[tuple[bytes, bytes]]] = {True: set(), False: set()}
    for each in spans(buckets):
        within = _range(tx, task_id, each)
        closed, under_way = [*tx.run(_CLOSED, within)], [*tx.run(_UNDER_WAY, within)]
        if others:
            among = {"others": list(others), "first": each.first, "last": each.last}
            closed += tx.run(_CLOSED_OF_OTHERS, among)
            under_way += tx.run(_UNDER_WAY_OF_OTHERS, among)
        for first, last, state in closed:
            found[state == BatchState.COLLECTED].add((first, last))
        found[False].update((first, last) for first, last in under_way)
    return ClosedToUploads(
        _joined(found[True], BatchState.COLLECTED), _joined(found[False], BatchState.FROZEN)
    )


def _joined(ranges: Collection[tuple[bytes, bytes]], state: BatchState) -> ClosedBatches:
    """Return ranges of several tasks or jobs, which may overlap, as ranges that do not."""
    rows: list[tuple[bytes, bytes, str]] = []
    for first, last in sorted(ranges):
        if rows and first <= rows[-1][1]:
            rows[-1] = (rows[-1][0], max(last, rows[-1][1]), state)
        else:
            rows.append((first, last, state))
    return ClosedBatches(rows)


def spans(buckets: Collection[bytes]) -> list[Batch]:
    """Return a few ranges that cover the buckets, without most of what lies between them.

    Clients upload about now. Without this, uploads to both now and long ago would make us read
    every batch collected in between.
    """
    ordered = sorted(set(buckets))
    starts = [int.from_bytes(each, "big") for each in ordered]
    gaps = sorted(
        (place for place in range(1, len(starts)) if starts[place] - starts[place - 1] > _NEAR),
        key=lambda place: starts[place - 1] - starts[place],
    )
    cuts = [0, *sorted(gaps[: _MOST_SPANS - 1]), len(ordered)]
    return [
        Batch(ordered[start], ordered[end - 1])
        for start, end in itertools.pairwise(cuts)
        if start < end
    ]


def freeze(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Close the batch until `unfreeze` or `mark_collected`.

    Raises:
        BatchClosed: A part of it is closed already.
    """
    _close(tx, task_id, batch, BatchState.FROZEN)


def unfreeze(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Reopen a batch that `freeze` closed."""
    locks.change_batches(tx, task_id)
    tx.connection.execute(delete(tables.closed_batches).where(*_is_frozen(tx, task_id, batch)))


def mark_collected(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Close the batch for ever and destroy its un-noised shares by destroying all their keys.

    Keys outside the database are overwritten when the transaction commits. `leftovers` deletes the
    shares themselves afterwards.

    Raises:
        BatchClosed: A part of it is closed already, and not by a `freeze` of the same batch.
    """
    locks.change_batches(tx, task_id)
    frozen = (
        update(tables.closed_batches)
        .where(*_is_frozen(tx, task_id, batch))
        .values(state=BatchState.COLLECTED, changed_at=tx.now, leftovers=1)
    )
    if tx.connection.execute(frozen).rowcount == 0:
        _close(tx, task_id, batch, BatchState.COLLECTED)
    destroy_shares(tx, task_id, batch)


def drop(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Close an open batch for ever and destroy its shares, without anything being released of it.

    Call it only if we have neither drawn noise for the batch nor sent our share. Other batches may
    then take its reports (`reports.bound`).
    """
    locks.change_batches(tx, task_id)
    if closed_batches(tx, task_id, batch).overall() is None:
        _close(tx, task_id, batch, BatchState.COLLECTED, dropped=1)
        destroy_shares(tx, task_id, batch)


def is_dropped(tx: Transaction, task_id: bytes, bucket: bytes) -> bool:
    """Return whether the batch that is this bucket alone was dropped."""
    closed = tables.closed_batches.c
    query = select(closed.dropped).where(
        closed.task == tx.task_key(task_id), closed.first_bucket == bucket
    )
    return bool(tx.connection.execute(query).scalar())


def close_for_ever(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Close all of the range that is not collected, frozen or not, and destroy its shares.

    This is for a store that no longer knows which parts of the range were released: none is
    released again.
    """
    locks.change_batches(tx, task_id)
    closed = tables.closed_batches.c
    overlapping = (
        closed.task == tx.task_key(task_id),
        closed.first_bucket <= batch.last,
        closed.last_bucket >= batch.first,
    )
    frozen = closed.state == BatchState.FROZEN
    tx.connection.execute(delete(tables.closed_batches).where(*overlapping, frozen))
    query = select(closed.first_bucket, closed.last_bucket).where(*overlapping)
    collected = tx.connection.execute(query.order_by(closed.first_bucket)).all()
    size, first = len(batch.first), int.from_bytes(batch.first, "big")
    end = int.from_bytes(batch.last, "big") + 1
    for start, last in [*collected, ((end).to_bytes(size + 1, "big"), batch.last)]:
        before = int.from_bytes(start, "big")
        if first < before:
            gap = Batch(first.to_bytes(size, "big"), (before - 1).to_bytes(size, "big"))
            _close(tx, task_id, gap, BatchState.COLLECTED)
        first = max(first, int.from_bytes(last, "big") + 1)
    destroy_shares(tx, task_id, batch)


def destroy_shares(tx: Transaction, task_id: bytes, batch: Batch | None = None) -> None:
    """Destroy the keys of the batch's shares, or of all shares of the task, on commit."""
    keys = tables.bucket_keys
    collected: tuple[ColumnElement[bool], ...] = (keys.c.task == tx.task_key(task_id),)
    if batch is not None:
        collected += (keys.c.bucket.between(batch.first, batch.last),)
    slots = tx.connection.execute(select(keys.c.slot).where(*collected)).scalars().all()
    tx.connection.execute(delete(keys).where(*collected))
    tx.destroyed_slots += tx.keys.delete(slots)


def _close(
    tx: Transaction, task_id: bytes, batch: Batch, state: BatchState, dropped: int = 0
) -> None:
    locks.change_batches(tx, task_id)
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
            leftovers=int(state is BatchState.COLLECTED),
            dropped=dropped,
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
