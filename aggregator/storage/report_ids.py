"""Narrow tables of report ids: being there is the duplicate check and the replay check."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Table

from aggregator.storage import tables
from aggregator.storage.database import Transaction


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
