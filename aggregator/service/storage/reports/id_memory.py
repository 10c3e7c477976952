"""Deletes the ids of reports that are so old that they would be refused for their age.

A deleted id no longer refuses a replay. So one transaction first records the day from which a
task's ids are kept, and only later ones delete the ids before it. A transaction that adds ids looks
at that day afterwards (`check_memory`).
"""

from sqlalchemy import ColumnElement, Row, bindparam, delete, select, update

from aggregator.dap.times import DAY
from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction

TABLES = ("report_ids", "aggregated_reports")
"""The tables of ids."""

PASS_DAYS = 30
"""How often all ids of a task are scanned."""

IDS_PER_STEP = 2_000
TASKS_PER_STEP = 1_000


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
    """Return the tasks (32 bytes) whose ids are to be scanned, each with one of `TABLES`."""
    task, memory = tables.tasks.c, tables.id_memories.c
    today = tx.now // DAY
    was_ahead = memory.looked_on > today
    long_ago = memory.looked_on <= today - PASS_DAYS
    is_due = memory.after_id.is_not(None) | long_ago | was_ahead
    query = select(task.task_id, memory.ids).join(tables.id_memories, memory.task == task.id)
    found = tx.connection.execute(query.where(is_due, task.forgotten_at.is_(None)))
    return [(task_id, ids) for task_id, ids in found]


def forget_ids(tx: Transaction, ids: str, task_id: bytes, days: int) -> int:
    """Scan some ids of a task, and delete those that are old enough; return 0 at the end.

    Args:
        tx: The transaction.
        ids: One of `TABLES`.
        task_id: The task.
        days: How many days ago, at least, an id must have been stored to be deleted.
    """
    of_task = _of_task(tx, ids, task_id)
    memory = tables.id_memories
    row = _locked_memory(tx, ids, task_id)
    if row is None:
        return 0
    today = tx.now // DAY
    if row.after_id is None:
        # A clock that is far ahead is believed only so far: deleted ids are gone for ever, and
        # reports as old as them can never be accepted again.
        believed = min(today, row.looked_on + 2 * PASS_DAYS)
        # No change if another process has been faster.
        begun = {"from_day": max(believed - days, row.from_day), "after_id": b""}
        tx.connection.execute(update(memory).where(*of_task).values(begun))
        return 1
    table = tables.metadata.tables[ids]
    left = (table.c.task == row.task, table.c.report_id > row.after_id)
    # In the order of the key, which needs no index by day.
    query = select(table.c.report_id).where(*left).order_by(table.c.report_id)
    last = tx.connection.execute(query.offset(IDS_PER_STEP - 1).limit(1)).scalar()
    some = left if last is None else (*left, table.c.report_id <= last)
    tx.connection.execute(delete(table).where(*some, table.c.day < row.from_day))
    if table is tables.report_ids:
        spent = tables.rejected_reports.c
        of_some = [spent.task == row.task, spent.report_id > row.after_id]
        of_some += [] if last is None else [spent.report_id <= last]
        old = delete(tables.rejected_reports).where(*of_some, spent.day < row.from_day)
        tx.connection.execute(old)
    looked = {"after_id": last, "looked_on": row.looked_on if last else today}
    tx.connection.execute(update(memory).where(*of_task).values(looked))
    return int(last is not None)


def _locked_memory(
    tx: Transaction, ids: str, task_id: bytes
) -> Row[int, str, int, int, bytes | None] | None:
    place = {"task": tx.task_key(task_id), "ids": ids}
    return tx.connection.execute(_LOCKED_MEMORY, place).one_or_none()


_OF_TASK = (
    tables.id_memories.c.task == bindparam("task"),
    tables.id_memories.c.ids == bindparam("ids"),
)
_FROM_DAY = select(tables.id_memories.c.from_day).where(*_OF_TASK)
_LOCKED_MEMORY = select(tables.id_memories).where(*_OF_TASK).with_for_update()


def _of_task(tx: Transaction, ids: str, task_id: bytes) -> tuple[ColumnElement[bool], ...]:
    memory = tables.id_memories.c
    return memory.task == tx.task_key(task_id), memory.ids == ids
