"""Narrow tables of report ids: being there is the duplicate check and the replay check."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Table, select

from aggregator.storage import tables
from aggregator.storage.database import Transaction

_IDS_PER_QUERY = 500


def record_aggregated(tx: Transaction, task_id: bytes, report_ids: Sequence[bytes]) -> set[bytes]:
    """Remember that these reports are in a bucket, in the bucket's own transaction.

    Returns:
        The ids that were there already: replays, whose out shares must not be added.
    """
    table = tables.aggregated_reports
    return set(report_ids) - insert_ids(tx, table, tx.task_key(task_id), report_ids)


def insert_ids(tx: Transaction, table: Table, task: int, report_ids: Iterable[bytes]) -> set[bytes]:
    """Insert the ids into `table` for the task with key `task`; return those that were new."""
    rows = [{"task": task, "report_id": report_id} for report_id in report_ids]
    if not rows:
        return set()
    statement = tx.insert(table).on_conflict_do_nothing().returning(table.c.report_id)
    return set(tx.connection.execute(statement, rows).scalars())


def known_ids(tx: Transaction, table: Table, task: int, report_ids: Iterable[bytes]) -> set[bytes]:
    """Return those of the ids that `table` has for the task with key `task`."""
    wanted = list(report_ids)
    found: set[bytes] = set()
    for start in range(0, len(wanted), _IDS_PER_QUERY):
        some = wanted[start : start + _IDS_PER_QUERY]
        query = select(table.c.report_id).where(table.c.task == task, table.c.report_id.in_(some))
        found.update(tx.connection.execute(query).scalars())
    return found
