"""How many more reports batches may take, and who may add them at once.

No batch ever holds more than its task's `max_reports`, though several transactions add to it at
once: as long as a batch has ample room, none of them can use it up.

Each writer owns a shard (`locks.own_shard`), so of S shards at most S - 1 others have added reports
that it does not see yet, at most `FEW_REPORTS` each. A writer that adds no more may run alongside
the others only if it sees room for S times `FEW_REPORTS`. Suppose that a batch were ever too full,
and take the writer that looked last. What it did not see was added by writers that had looked
before and were not done, so by S - 1 at most: with its own no more than it saw room for. All others
own all shards before they look: nobody is under way, and what they see is all there is.
"""

from collections.abc import Mapping

from sqlalchemy import Column, bindparam, func, select, union_all

from aggregator.protocol.batches import Batch
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.database import Transaction
from aggregator.service.storage.reports.ids import Room

FEW_REPORTS = 1024
"""More reports than that are added to a task by one transaction at a time."""

_BUCKETS_PER_QUERY = 500


def room_to_add(
    tx: Transaction,
    task_id: bytes,
    batches: Mapping[bytes, Batch],
    max_reports: int,
    reports: int,
    *,
    beside_waiting: bool = False,
) -> dict[bytes, Room]:
    """Return how many more reports buckets may take, and let nobody else take too many of them.

    Args:
        tx: The transaction, in which the reports are added.
        task_id: The task.
        batches: The smallest batch that each bucket can be collected in, by the bucket's key. The
            empty key is no bucket and has no limit.
        max_reports: The most that a batch may hold, and so these.
        reports: How many reports the transaction adds at most.
        beside_waiting: Whether stored reports that are not aggregated yet have their places too.
    """
    task, shards = tx.task_key(task_id), tx.backend.shards
    if shards > 1 and reports <= FEW_REPORTS and task not in tx.shards:
        attempt = tx.connection.begin_nested()
        locks.own_shard(tx, task)
        room = _room(tx, task, batches, max_reports, beside_waiting=beside_waiting)
        if all(each.left >= shards * FEW_REPORTS for each in room.values()):
            attempt.commit()
            return room
        # Give up our shard before taking all: two that each hold one would deadlock.
        attempt.rollback()
        del tx.shards[task]
    locks.own_all_shards(tx, task)
    return _room(tx, task, batches, max_reports, beside_waiting=beside_waiting)


class _Counting:
    """Statements that count what buckets of a task hold, by one count or several.

    One statement counts all, so that a report is counted once that is being aggregated.
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
        of_each = select(held.c.bucket, reports).group_by(held.c.bucket)
        self.of_one = of_each.where(held.c.bucket == bindparam("first"))
        self.of_some = of_each.where(held.c.bucket.in_(bindparam("some", expanding=True)))
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
        query = held.of_one if len(some) == 1 else held.of_some
        for bucket, taken in tx.connection.execute(query, place):
            room[Batch(bucket, bucket)].left -= int(taken)
    for batch, shared in room.items():
        if batch.first != batch.last:
            place = {"task": task, "first": batch.first, "last": batch.last}
            shared.left -= int(tx.connection.execute(held.of_all, place).scalar_one())
    return {bucket: room[batch] for bucket, batch in batches.items() if bucket}
