"""The books of a leader's reports: each id has one live place in a group, or one in a counter."""

from collections import Counter

from sqlalchemy import Select, func, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.counters import AGGREGATED, STORED, Stage, report_counts
from aggregator.service.storage.reports.groups import as_groups, rows_of_groups


def check_books(tx: Transaction, task_id: bytes, again: int = 0, dropped: int = 0) -> None:
    """Check that no report of a task is lost, or there twice, and that all counts of them agree.

    Args:
        tx: A transaction.
        task_id: The task.
        again: How many were stored once more, after an operator had given them up or their batch
            was dropped.
        dropped: How many of them may have been counted in a batch that was dropped.
    """
    task, group = tx.task_key(task_id), tables.report_groups
    groups = as_groups(tx.connection.execute(group.select().where(group.c.task == task)))
    rows = rows_of_groups(tx, groups)
    live: list[bytes] = []
    given_up = 0
    waiting: Counter[bytes] = Counter()
    for each in groups:
        row = rows[each.id]
        assert 0 < len(each.places) == each.reports <= each.size
        if row.is_given_up:
            given_up += each.reports
        else:
            assert row.is_of(each.size, each.width)
            live += [row.ids(each.width)[place] for place in each.places]
        waiting[each.bucket] += each.reports
    assert len(set(live)) == len(live)

    ids = tx.connection.execute(_ids(tx, task)).scalars().all()
    stored = report_counts(tx, task_id, Stage.UPLOAD).get(STORED, 0)
    ended = report_counts(tx, task_id, Stage.AGGREGATION)
    gone = sum(ended.values())
    assert stored == len(live) + given_up + gone
    rejected = tables.rejected_reports.c
    query = select(rejected.report_id).where(rejected.task == task)
    uncounted = set(tx.connection.execute(query).scalars())
    assert not uncounted & set(live)
    assert len(uncounted) + again <= gone + given_up - ended.get(AGGREGATED, 0) + dropped
    memory = tables.id_memories.c
    forgotten = select(func.max(memory.from_day)).where(memory.task == task)
    if not tx.connection.execute(forgotten).scalar():
        assert set(ids) >= set(live)
        assert len(ids) == stored - again

    count = tables.waiting_reports.c
    of_each = select(count.bucket, func.sum(count.reports)).where(count.task == task)
    counted = {key: int(n) for key, n in tx.connection.execute(of_each.group_by(count.bucket))}
    assert {key: n for key, n in counted.items() if n} == waiting


def _ids(tx: Transaction, task: int) -> Select[tuple[bytes]]:
    """Return where the ids of all reports are; with permits, of the one task of a domain."""
    seen, spent = tables.report_ids.c, tables.spent_permits.c
    of_task = select(tables.tasks.c.permit_domain).where(tables.tasks.c.id == task)
    domain = tx.connection.execute(of_task).scalar()
    if domain is None:
        return select(seen.report_id).where(seen.task == task)
    return select(spent.report_id).where(spent.domain == domain)
