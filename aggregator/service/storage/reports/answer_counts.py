"""The hourly count of answers: what collectors are told, however often they ask.

All tasks that somebody asks about are counted at one moment. If each had a moment of its own, a
collector with several tasks of the same people could ask for them in turn, and see in which minute
a person's reports came. A task that is asked about for the first time waits for the next count.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam, delete, insert, select, update

from aggregator.dap.times import DAY
from aggregator.protocol.answers_so_far import SECONDS_BETWEEN
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import closed_batches
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.states import BatchState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.capacity import reports_by_bucket

_ASKED_DAYS = 7
"""How long after the last question a task is still counted."""

_SIZE = 8

_ROW = tables.answer_counts.c
_ALL = select(tables.tasks.c.task_id, _ROW.task, _ROW.asked_at, _ROW.counted_at, _ROW.counts).join(
    tables.tasks, tables.tasks.c.id == _ROW.task
)
_NOTE = (
    update(tables.answer_counts)
    .where(_ROW.task == bindparam("key"))
    .values(asked_at=bindparam("now"))
)

Counted = tuple[int | None, Sequence[Mapping[bytes, int]]]
"""When tasks were counted, None if not yet, and how many reports each had in its buckets."""


def last_count(tx: Transaction, task_ids: Sequence[bytes]) -> Counted | None:
    """Return the count that stands; None if `count_answers` has to make or to note something."""
    rows = {row[0]: row for row in tx.run(_ALL)}
    found = [rows.get(each) for each in task_ids]
    if not _is_counted(tx.now, [row[3] for row in rows.values()]):
        return None
    if any(row is None or row[2] <= tx.now - SECONDS_BETWEEN for row in found):
        return None
    return _said([row for row in found if row is not None])


def count_answers(tx: Transaction, task_ids: Sequence[bytes]) -> Counted:
    """Return the count that stands; make another of all tasks if it is an hour old."""
    locks.count_answers(tx)
    rows = {row[0]: row for row in tx.run(_ALL)}
    for task_id in task_ids:
        if task_id in rows:
            tx.run(_NOTE, {"key": rows[task_id][1], "now": tx.now})
        else:
            values = {"task": tx.task_key(task_id), "asked_at": tx.now, "counts": b""}
            tx.connection.execute(insert(tables.answer_counts).values(**values))
    if not _is_counted(tx.now, [row[3] for row in rows.values()]):
        forgotten = tables.answer_counts.c.asked_at < tx.now - _ASKED_DAYS * DAY
        tx.connection.execute(delete(tables.answer_counts).where(forgotten))
        for task_id, key, *_ in tx.run(_ALL):
            values = {"counted_at": tx.now, "counts": _open_counts(tx, task_id)}
            of_task = update(tables.answer_counts).where(_ROW.task == key)
            tx.connection.execute(of_task.values(**values))
    rows = {row[0]: row for row in tx.run(_ALL)}
    return _said([rows[each] for each in task_ids])


def _is_counted(now: int, counted: Sequence[int | None]) -> bool:
    """Return whether a count stands; one of long before a clock was set back does not."""
    newest = max((each for each in counted if each is not None), default=None)
    return newest is not None and now - SECONDS_BETWEEN < newest <= now + DAY


def _said(rows: Sequence[Sequence[object]]) -> Counted:
    moments, counts = [row[3] for row in rows], [row[4] for row in rows]
    known = [each for each in moments if isinstance(each, int)]
    read = [_read(each) for each in counts if isinstance(each, bytes)]
    return (min(known) if len(known) == len(moments) else None), read


def _open_counts(tx: Transaction, task_id: bytes) -> bytes:
    """Return how many reports the buckets have that are not collected, encoded."""
    held = {bucket: n for bucket, n in reports_by_bucket(tx, task_id).items() if bucket and n}
    if not held:
        return b""
    closed = closed_batches(tx, task_id, Batch(min(held), max(held)))
    return b"".join(
        bucket + count.to_bytes(_SIZE, "big")
        for bucket, count in sorted(held.items())
        if closed.state(bucket) is not BatchState.COLLECTED
    )


def _read(counts: bytes) -> dict[bytes, int]:
    starts = range(0, len(counts), 2 * _SIZE)
    pairs = [(counts[at : at + _SIZE], counts[at + _SIZE : at + 2 * _SIZE]) for at in starts]
    return {bucket: int.from_bytes(count, "big") for bucket, count in pairs}
