"""The books of a leader's reports: each id has one live place in a group, or one in a counter."""

from collections import Counter

from sqlalchemy import func, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.bodies import bodies_of
from aggregator.service.storage.reports.counters import STORED, Stage, report_counts
from aggregator.service.storage.reports.groups import ID_SIZE, as_groups


def check_books(tx: Transaction, task_id: bytes) -> None:
    """Check that no report of a task is lost, or there twice, and that all counts of them agree."""
    task, group, seen = tx.task_key(task_id), tables.report_groups, tables.report_ids.c
    groups = as_groups(tx.connection.execute(group.select().where(group.c.task == task)))
    bodies = bodies_of(tx, {each.id: each.generation for each in groups})
    live: list[bytes] = []
    waiting: Counter[bytes] = Counter()
    for each in groups:
        body = bodies[each.id]
        assert len(body) == each.size * each.width
        assert 0 < len(each.places) == each.reports <= each.size
        live += [body[place * each.width :][:ID_SIZE] for place in each.places]
        waiting[each.bucket] += each.reports
    assert len(set(live)) == len(live)

    ids = set(tx.connection.execute(select(seen.report_id).where(seen.task == task)).scalars())
    stored = report_counts(tx, task_id, Stage.UPLOAD).get(STORED, 0)
    gone = sum(report_counts(tx, task_id, Stage.AGGREGATION).values())
    assert stored == len(live) + gone
    memory = tables.id_memories.c
    forgotten = select(func.max(memory.from_day)).where(memory.task == task)
    if not tx.connection.execute(forgotten).scalar():
        assert ids >= set(live)
        assert len(ids) == stored

    count = tables.waiting_reports.c
    of_each = select(count.bucket, func.sum(count.reports)).where(count.task == task)
    counted = {key: int(n) for key, n in tx.connection.execute(of_each.group_by(count.bucket))}
    assert {key: n for key, n in counted.items() if n} == waiting
