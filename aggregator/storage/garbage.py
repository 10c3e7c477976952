"""Deletes what nobody can ask for any more, in short transactions: answers, jobs, closed windows.

Nothing here decides by itself what counts: a closed batch stays closed, and ids of reports and the
ledger are never touched. What is deleted is the memory of how it came about.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from aggregator.dap.ids import BatchId
from aggregator.protocol.batches import Batch
from aggregator.storage import locks, tables
from aggregator.storage.batches import has_share
from aggregator.storage.database import Transaction
from aggregator.storage.forgetting import forget_some
from aggregator.storage.leftovers import delete_some_leftovers
from aggregator.storage.states import (
    AggregationJobState,
    BatchState,
    CollectionJobState,
    ResourceState,
)

ROWS_PER_STEP = 500


def collect_garbage(tx: Transaction, seconds: int) -> int:
    """Delete some of what ended more than `seconds` ago; return how much, 0 if nothing is left."""
    if delete_some_leftovers(tx):  # of a release whose process died, or whose store was away
        return 1
    before = tx.now - seconds
    for table, conditions in _garbage(before):
        deleted = _delete_some(tx, table, conditions)
        if deleted:
            return deleted
    return (
        _forget_buckets(tx, before)
        or forget_some(tx)
        or _forget_waiting(tx, before)
        or _join_closed_batches(tx, before)
    )


def _garbage(before: int) -> list[tuple[Table, Sequence[ColumnElement[bool]]]]:
    job, collection = tables.aggregation_jobs.c, tables.collection_jobs.c
    answered, share = tables.answered_jobs.c, tables.aggregate_shares.c
    bucket, report, counted = tables.buckets.c, tables.reports.c, tables.job_shares.c
    ended = (AggregationJobState.FINISHED, AggregationJobState.ABANDONED)
    # A leader that selects batches takes the number of its newest one from its jobs, and which it
    # has selected before, and could select again, from its collections: those stay.
    others = tables.aggregation_jobs.alias("others").c
    newest = (
        select(others.bucket)
        .where(others.task == job.task, others.bucket.is_not(None))
        .order_by(others.bucket.desc())
        .limit(1)
    )
    selected = (
        exists()
        .where(
            bucket.task == collection.task,
            bucket.bucket == collection.first_bucket,
            bucket.bucket == collection.last_bucket,
        )
        .where(has_share())
    )
    return [
        (
            tables.aggregation_jobs,
            (
                job.state.in_(ended),
                job.ended_at < before,
                or_(job.bucket.is_(None), job.bucket < newest.scalar_subquery()),
                ~exists().where(report.task == job.task, report.job == job.id),
            ),
        ),
        (
            tables.collection_jobs,
            (
                collection.state.in_((CollectionJobState.DELETED, CollectionJobState.FAILED)),
                ~selected,
                collection.ended_at < before,
            ),
        ),
        (
            # While a batch that counts the job is open, the leader may still ask for the answer.
            tables.answered_jobs,
            (
                answered.created_at < before,
                ~exists().where(counted.task == answered.task, counted.job == answered.body_sha256),
            ),
        ),
        (
            tables.aggregate_shares,
            (share.state == ResourceState.DELETED, share.created_at < before),
        ),
    ]


def _delete_some(tx: Transaction, table: Table, conditions: Sequence[ColumnElement[bool]]) -> int:
    columns = list(table.primary_key.columns)
    some = select(*columns).where(*conditions).limit(ROWS_PER_STEP)
    return tx.connection.execute(delete(table).where(tuple_(*columns).in_(some))).rowcount


def _long_collected(
    row: ReadOnlyColumnCollection[str, Column[Any]], before: int
) -> tuple[ColumnElement[bool], ...]:
    """Return what joins rows with the closed batches that were collected before.

    Each such batch is looked up in the rows, of which it has none most of the time. The other way
    round each row would be compared with all batches that begin before it.
    """
    closed = tables.closed_batches.c
    return (
        closed.state == BatchState.COLLECTED,
        closed.changed_at < before,
        closed.leftovers == 0,
        row.task == closed.task,
        row.bucket.between(closed.first_bucket, closed.last_bucket),
    )


def _forget_buckets(tx: Transaction, before: int) -> int:
    """Delete the totals of old collected buckets; return how many rows."""
    bucket = tables.buckets.c
    some = (
        select(bucket.task, bucket.bucket, bucket.shard)
        .where(*_long_collected(bucket, before), ~exists().where(has_share()))
        .limit(ROWS_PER_STEP)
    )
    return _delete_named(tx, tables.buckets, some)


def _forget_waiting(tx: Transaction, before: int) -> int:
    """Delete the counts of old collected buckets for which nothing waits; return how many rows.

    All shards of a bucket at once: only together they are 0.
    """
    waiting = tables.waiting_reports.c
    bucket = (waiting.task, waiting.bucket)
    some = (
        select(*bucket)
        .where(*_long_collected(waiting, before))
        .group_by(tables.closed_batches.c.id, *bucket)
        .having(func.sum(waiting.reports) == 0)
        .limit(ROWS_PER_STEP)
    )
    return _delete_named(tx, tables.waiting_reports, some)


def _delete_named(tx: Transaction, table: Table, some: Select[Any]) -> int:
    """Delete the rows that have the values which `some` selects in its columns, each by an index.

    A condition on several columns at once would have SQLite look at all rows of the task.
    """
    rows = tx.connection.execute(some).all()
    if not rows:
        return 0
    names = [column.name for column in some.selected_columns]
    is_it = (table.c[name] == bindparam(f"the_{name}") for name in names)
    gone = [{f"the_{name}": value for name, value in zip(names, row, strict=True)} for row in rows]
    tx.connection.execute(delete(table).where(*is_it), gone)
    return len(gone)


@dataclasses.dataclass(frozen=True, slots=True)
class _Collected:
    """A collected batch: its task, its key in the database and its buckets."""

    task_id: bytes
    key: int
    batch: Batch

    def is_followed_by(self, other: "_Collected") -> bool:
        last, first = (int.from_bytes(x, "big") for x in (self.batch.last, other.batch.first))
        return self.task_id == other.task_id and first == last + 1


def _join_closed_batches(tx: Transaction, before: int) -> int:
    """Make one row of old collected batches that follow one another; return how many went."""
    found = _run_of_collected(tx, before)
    if not found:
        return 0
    task_id = found[0].task_id
    locks.change_batches(tx, task_id)
    # Another process may have joined more of them while we waited: only what is there now counts.
    run = _run_of_collected(tx, before, task_id)
    joined = [each.key for each in run[1:]]
    if joined:
        closed = tables.closed_batches.c
        tx.connection.execute(delete(tables.closed_batches).where(closed.id.in_(joined)))
        statement = update(tables.closed_batches).where(closed.id == run[0].key)
        tx.connection.execute(statement.values(last_bucket=run[-1].batch.last))
    return len(joined)


def _run_of_collected(
    tx: Transaction, before: int, task_id: bytes | None = None
) -> list[_Collected]:
    """Return old collected batches of any one task, or of this one, that follow one another."""
    closed, task = tables.closed_batches.c, tables.tasks.c
    query = (
        select(task.task_id, closed.id, closed.first_bucket, closed.last_bucket)
        .join(tables.tasks, task.id == closed.task)
        .where(
            closed.state == BatchState.COLLECTED,
            closed.changed_at < before,
            closed.leftovers == 0,
            func.length(closed.first_bucket) < BatchId.size,  # no batch id follows another
            *(() if task_id is None else (task.task_id == task_id,)),
        )
        .order_by(closed.task, closed.first_bucket)
    )
    run: list[_Collected] = []
    for found, key, first, last in tx.connection.execute(query).all():
        each = _Collected(found, key, Batch(first, last))
        if run and run[-1].is_followed_by(each) and len(run) < ROWS_PER_STEP:
            run.append(each)
        elif len(run) > 1:
            break
        else:
            run = [each]
    return run if len(run) > 1 else []
