"""Narrow tables of report ids, which serve as the duplicate check and the replay check."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Table, select

from aggregator.storage.database import Transaction

_IDS_PER_QUERY = 500


def record_ids(
    tx: Transaction, table: Table, task_id: bytes, arrivals: Sequence[tuple[bytes, bool]]
) -> list[bool]:
    """Remember the ids of reports whose batches are open, in the transaction that counts them.

    Args:
        tx: The transaction.
        table: `report_ids` or `aggregated_reports`.
        task_id: The task.
        arrivals: Each report's id, and whether its batch is closed: such an id is only looked up.

    Returns:
        For each report, whether its id was known. Of two with the same id, the first is new.
    """
    task = tx.task_key(task_id)
    known = _known(tx, table, task, [each for each, is_closed in arrivals if is_closed])
    fresh = _inserted(tx, table, task, [each for each, is_closed in arrivals if not is_closed])
    seen = []
    for report_id, is_closed in arrivals:
        seen.append(report_id in known if is_closed else report_id not in fresh)
        if not is_closed:
            fresh.discard(report_id)
    return seen


def _inserted(tx: Transaction, table: Table, task: int, report_ids: Iterable[bytes]) -> set[bytes]:
    """Insert the ids; return those that were new."""
    rows = [{"task": task, "report_id": report_id} for report_id in report_ids]
    if not rows:
        return set()
    statement = tx.insert(table).on_conflict_do_nothing().returning(table.c.report_id)
    return set(tx.connection.execute(statement, rows).scalars())


def _known(tx: Transaction, table: Table, task: int, wanted: Sequence[bytes]) -> set[bytes]:
    found: set[bytes] = set()
    for start in range(0, len(wanted), _IDS_PER_QUERY):
        some = wanted[start : start + _IDS_PER_QUERY]
        query = select(table.c.report_id).where(table.c.task == task, table.c.report_id.in_(some))
        found.update(tx.connection.execute(query).scalars())
    return found
