"""Deletes the ids of reports that are so old that they would be refused for their age.

An id is kept under the day of its report's time, which is part of the key. A deleted id no longer
refuses a replay. So one transaction first records the day from which a task's ids are kept, and
only later ones delete the range of ids before it. A transaction that adds ids looks at that day
afterwards (`check_memory`).
"""

from typing import Final, TypeAlias

from sqlalchemy import ColumnElement, Row, Table, bindparam, delete, literal, select, tuple_, update

from aggregator.dap.times import DAY
from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction

TABLES = ("report_ids", "aggregated_reports")
"""The tables of ids."""

PASS_DAYS = 30
"""How often old ids of a task are deleted. A clock that is far ahead for less than that costs twice
as much memory at most."""

IDS_PER_STEP = 2_000
TASKS_PER_STEP = 1_000

Place: TypeAlias = tuple[int, bytes]
"""Where the ids of a task were deleted up to: a day and an id, in the order of the key."""


class IdsForgotten(StoreError):
    """Ids that are needed were deleted: a clock was set back, or a limit was raised.

    Attributes:
        task_id: The task.
        from_day: The day from which its ids are kept, in days since the epoch.
    """

    def __init__(self, task_id: bytes, from_day: int, first_day: int) -> None:
        """Say that ids from `first_day` on are needed."""
        super().__init__(
            f"ids of reports from day {first_day} since 1970 on are needed, and remembered from "
            f"day {from_day} on: was a clock put back, or max_report_age_seconds raised?"
        )
        self.task_id, self.from_day = task_id, from_day


def check_memory(tx: Transaction, ids: str, task_id: bytes, first_day: int) -> None:
    """Check that all ids from a day on are kept; call it after adding the ids in question.

    Whoever missed an id because it was deleted is certain to see the new day here, even if a clock
    was set back since.

    Args:
        tx: The transaction.
        ids: One of `TABLES`.
        task_id: The task.
        first_day: The day, in days since the epoch.

    Raises:
        IdsForgotten: They are not; the transaction must not go on.
    """
    for (from_day,) in tx.run(_FROM_DAY, {"task": tx.task_key(task_id), "ids": ids}):
        if from_day > first_day:
            raise tx.refuse(IdsForgotten(task_id, from_day, first_day))


def begin_memories(tx: Transaction) -> int:
    """Record for some tasks that no id was deleted yet; return for how many, 0 at the end."""
    task, memory = tables.tasks.c, tables.id_memories.c
    known = select(memory.task).where(memory.task == task.id)
    missing = select(task.id).where(task.forgotten_at.is_(None), ~known.exists())
    keys = tx.connection.execute(missing.limit(TASKS_PER_STEP)).scalars().all()
    place = {"from_day": 0, "looked_on": tx.now // DAY}
    rows = [{"task": key, "ids": ids, **place} for key in keys for ids in TABLES]
    if rows:
        statement = tx.insert(tables.id_memories).on_conflict_do_nothing()
        tx.connection.execute(statement, rows)
    return len(keys)


def due(tx: Transaction) -> list[tuple[bytes, str]]:
    """Return the tasks (32 bytes) whose old ids are to be deleted, each with one of `TABLES`."""
    task, memory = tables.tasks.c, tables.id_memories.c
    today = tx.now // DAY
    was_ahead = memory.looked_on > today
    long_ago = memory.looked_on <= today - PASS_DAYS
    query = select(task.task_id, memory.ids).join(tables.id_memories, memory.task == task.id)
    found = tx.connection.execute(query.where(long_ago | was_ahead, task.forgotten_at.is_(None)))
    return [(task_id, ids) for task_id, ids in found]


def forget_ids(
    tx: Transaction, ids: str, task_id: bytes, days: int, after: Place | None
) -> Place | None:
    """Delete some ids of a task that are old enough; return where to go on, None at the end.

    Args:
        tx: The transaction.
        ids: One of `TABLES`.
        task_id: The task.
        days: How many days ago, at least, the time of a report must be for its id to be deleted.
        after: What the call before has returned. None to begin: that call deletes nothing.
    """
    row = _locked_memory(tx, ids, task_id)
    if row is None:
        return None
    today = tx.now // DAY
    memory = tables.id_memories
    changing = update(memory).where(memory.c.task == row.task, memory.c.ids == ids)
    if after is None:
        # A clock that is far ahead is believed only so far: deleted ids are gone for ever, and
        # reports as old as them can never be accepted again.
        believed = min(today, row.looked_on + 2 * PASS_DAYS)
        # No change if another process has been faster.
        begun = {"from_day": max(believed - days, row.from_day)}
        tx.connection.execute(changing.values(begun))
        return _START
    last = _forget_some(tx, ids, row.task, row.from_day, after)
    # What is bound has the same keys, so that it is deleted along.
    bound = _forget_some(tx, tables.bound_reports.name, row.task, row.from_day, after)
    last = min(filter(None, (last, bound)), default=None)
    if ids == tables.report_ids.name and _forget_rejected(tx, row.task, row.from_day):
        return last or after
    if last is None:
        tx.connection.execute(changing.values(looked_on=today))
    return last


_START: Final = (-1, b"")


def _forget_some(tx: Transaction, ids: str, task: int, from_day: int, after: Place) -> Place | None:
    """Delete the first ids after a place and before a day; return the last, None at the end."""
    table = tables.metadata.tables[ids]
    key = tuple_(table.c.day, table.c.report_id)
    # PostgreSQL keeps what is deleted until it is vacuumed: each step begins where one has ended.
    left = (table.c.task == task, table.c.day < from_day, key > _row(table, after))
    query = select(table.c.day, table.c.report_id).where(*left).order_by(*key)
    last = tx.connection.execute(query.offset(IDS_PER_STEP - 1).limit(1)).one_or_none()
    some = left if last is None else (*left, key <= _row(table, (last.day, last.report_id)))
    tx.connection.execute(delete(table).where(*some))
    return None if last is None else (last.day, last.report_id)


def _forget_rejected(tx: Transaction, task: int, from_day: int) -> bool:
    """Delete some reports that were rejected before a day; return whether there may be more."""
    rejected = tables.rejected_reports
    old = select(rejected.c.report_id).where(rejected.c.task == task, rejected.c.day < from_day)
    some = rejected.c.report_id.in_(old.limit(IDS_PER_STEP))
    of_task = delete(rejected).where(rejected.c.task == task, some)
    return tx.connection.execute(of_task).rowcount == IDS_PER_STEP


def _row(table: Table, place: Place) -> ColumnElement[tuple[int, bytes]]:
    day, report_id = place
    columns = table.c
    return tuple_(literal(day, columns.day.type), literal(report_id, columns.report_id.type))


def _locked_memory(tx: Transaction, ids: str, task_id: bytes) -> Row[int, str, int, int] | None:
    place = {"task": tx.task_key(task_id), "ids": ids}
    return tx.connection.execute(_LOCKED_MEMORY, place).one_or_none()


_OF_TASK = (
    tables.id_memories.c.task == bindparam("task"),
    tables.id_memories.c.ids == bindparam("ids"),
)
_FROM_DAY = select(tables.id_memories.c.from_day).where(*_OF_TASK)
_LOCKED_MEMORY = select(tables.id_memories).where(*_OF_TASK).with_for_update()
