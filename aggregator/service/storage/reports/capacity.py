"""How many more reports batches may take, and which transactions may add them concurrently.

No batch ever holds more than its task's `max_reports`, although several transactions add to it at
once: as long as a batch has ample room, together they cannot use it up.

Proof. Each writer owns one of S shards (`locks.own_shard`), so at most S - 1 other writers have
added reports that it does not see yet. A writer may run alongside others only if it adds at most
`FEW_REPORTS` and sees room for S times `FEW_REPORTS`. Suppose that such writers overfilled a batch,
and take the one that looked last. What it did not see was added by writers that had looked before
and were not done, of which there are at most S - 1; together with its own reports, that is no more
than it saw room for. Any other writer takes all shards before it looks: then no writer is under
way, and what it sees is all there is.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Column, bindparam, func, select, union_all

from aggregator.protocol.batches import Batch
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import LostRace
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.ids import Room

FEW_REPORTS = 4096
"""The most reports that a transaction may add to a task while others add to it too."""

ALONE: Mapping[bytes, int | None] = MappingProxyType({})
"""The other tasks of the same answers, where there are none."""

_BUCKETS_PER_QUERY = 500
_MOST_KNOWN = 10_000


def room_to_add(
    tx: Transaction,
    task_id: bytes,
    batches: Mapping[bytes, Batch],
    max_reports: int,
    reports: int,
    *,
    beside_waiting: bool = False,
) -> dict[bytes, Room]:
    """Return the room that buckets have left, and keep others from using up too much of it.

    Args:
        tx: The transaction, in which the reports are added.
        task_id: The task.
        batches: The smallest batch in which each bucket can be collected, by the bucket's key. The
            empty key is no bucket and has no limit.
        max_reports: The most reports that a batch, and so each of these, may hold.
        reports: The most reports that the transaction will add.
        beside_waiting: Whether stored reports that are not aggregated yet take up room too.

    Raises:
        LostRace: A batch that had ample room has little now; run again, the transaction will own
            all shards.
    """
    task, shards = tx.task_key(task_id), tx.backend.shards

    def look() -> dict[bytes, Room]:
        return _room(tx, task, batches, max_reports, beside_waiting=beside_waiting)

    if shards > 1 and reports <= FEW_REPORTS and task not in tx.shards:
        places = [(task, bucket, beside_waiting) for bucket in batches if bucket]
        known = [tx.is_ample.get(place) for place in places]
        if _note(tx, places, look()) if None in known else all(known):
            locks.own_shard(tx, task)
            room = look()
            if _note(tx, places, room):
                return room
            # Not all shards now: two transactions that each hold one would wait for each other.
            raise LostRace("a batch has little room since others wrote to it")
        locks.own_all_shards(tx, task)
        room = look()
        _note(tx, places, room)
        return room
    locks.own_all_shards(tx, task)
    return look()


def _note(
    tx: Transaction, places: Sequence[tuple[int, bytes, bool]], room: Mapping[bytes, Room]
) -> bool:
    """Return whether room is ample, and let the store's next transactions know."""
    found = all(each.left >= tx.backend.shards * FEW_REPORTS for each in room.values())
    if len(tx.is_ample) > _MOST_KNOWN:
        tx.is_ample.clear()
    tx.is_ample.update(dict.fromkeys(places, found))
    return found


def room_now(tx: Transaction, task_id: bytes, bucket: bytes, batch: Batch, max_reports: int) -> int:
    """Return how many more reports a bucket may take now; others may be quicker."""
    task = tx.task_key(task_id)
    room = _room(tx, task, {bucket: batch}, max_reports, beside_waiting=True)
    return room[bucket].left if bucket in room else max_reports


def full_of_others(
    tx: Transaction, batches: Mapping[bytes, Batch], others: Mapping[bytes, int | None]
) -> set[bytes]:
    """Return the buckets of which another task of the same answers takes no more reports now.

    Others may be quicker. `others` are the tasks' ids, each with the most reports of a batch; those
    with None are not asked: as each person is in one place of a group, a full place tells nothing
    of who is in another. Raises `UnknownTask`.
    """
    return {
        bucket
        for task_id, most in others.items()
        if most is not None
        for bucket, room in _room(
            tx, tx.task_key(task_id), batches, most, beside_waiting=True
        ).items()
        if room.left <= 0
    }


def reports_by_bucket(tx: Transaction, task_id: bytes) -> dict[bytes, int]:
    """Return how many reports each bucket has, aggregated or stored."""
    rows = tx.run(_HELD_AND_WAITING.of_each, {"task": tx.task_key(task_id)})
    return {bucket: int(count) for bucket, count in rows}


class _Counting:
    """Statements that add up what a task's buckets hold, by one or more columns of counts.

    One statement adds up all columns, so that a report that is being aggregated counts once.
    """

    def __init__(self, *counts: Column[int]) -> None:
        held = union_all(
            *(
                select(count.table.c.bucket, count.label("reports")).where(
                    count.table.c.task == bindparam("task")
                )
                for count in counts
            )
        ).subquery()
        reports = func.coalesce(func.sum(held.c.reports), 0)
        self.of_each = select(held.c.bucket, reports).group_by(held.c.bucket)
        self.of_one = self.of_each.where(held.c.bucket == bindparam("first"))
        self.of_some = self.of_each.where(held.c.bucket.in_(bindparam("some", expanding=True)))
        self.of_all = select(reports).where(
            held.c.bucket.between(bindparam("first"), bindparam("last"))
        )


_HELD = _Counting(tables.buckets.c.report_count)
_HELD_AND_WAITING = _Counting(tables.buckets.c.report_count, tables.waiting_reports.c.reports)


def _room(
    tx: Transaction,
    task: int,
    batches: Mapping[bytes, Batch],
    max_reports: int,
    *,
    beside_waiting: bool,
) -> dict[bytes, Room]:
    held = _HELD_AND_WAITING if beside_waiting else _HELD
    room = {batch: Room(max_reports) for bucket, batch in batches.items() if bucket}
    alone = [batch.first for batch in room if batch.first == batch.last]
    for start in range(0, len(alone), _BUCKETS_PER_QUERY):
        some = alone[start : start + _BUCKETS_PER_QUERY]
        place = {"task": task, "first": some[0], "some": some}
        rows: Iterable[Sequence[Any]] = (
            tx.run(held.of_one, place)
            if len(some) == 1
            else tx.connection.execute(held.of_some, place)
        )
        for bucket, taken in rows:
            room[Batch(bucket, bucket)].left -= int(taken)
    for batch, shared in room.items():
        if batch.first != batch.last:
            place = {"task": task, "first": batch.first, "last": batch.last}
            shared.left -= int(tx.connection.execute(held.of_all, place).scalar_one())
    return {bucket: room[batch] for bucket, batch in batches.items() if bucket}
