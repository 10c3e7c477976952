"""Deletes what nobody can ask for any more, in short transactions: answers, jobs, closed windows.

Nothing here can change what is counted: a closed batch stays closed, and report ids and the ledger
are never touched. What is deleted is only the record of how results came about.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from aggregator.dap.ids import BatchId
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.leftovers import delete_some_leftovers
from aggregator.service.storage.batches.sums import has_share
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.states import (
    AggregationJobState,
    BatchState,
    CollectionJobState,
    ResourceState,
)
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.tasks.forgetting import forget_some

ROWS_PER_STEP = 500


def collect_garbage(tx: Transaction, seconds: int) -> int:
    """Delete some of what has outlived its retention; return how much, 0 if nothing is left.

    Args:
        tx: The transaction.
        seconds: The retention after the end, unless the task says otherwise.
    """
    if delete_some_leftovers(tx):  # after a release whose process died or lost its store
        return 1
    kept = _Retention(tx.now, seconds)
    return (
        _delete_long_kept(tx, kept, tables.aggregation_jobs.c.ended_at, _jobs_of_no_use())
        or _delete_some(tx, tables.collection_jobs, _collections_of_no_use(kept))
        or _delete_long_kept(tx, kept, tables.answered_jobs.c.created_at, _answers_of_no_use())
        or _delete_some(tx, tables.deferred_jobs, _never_answered(kept))
        or _delete_some(tx, tables.aggregate_shares, _shares_of_no_use(kept))
        or _forget_buckets(tx, kept)
        or forget_some(tx)
        or _forget_waiting(tx)
        or _join_closed_batches(tx, kept)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Retention:
    """The default retention, in seconds, and the time now."""

    now: int
    seconds: int

    def before(self, own: ColumnElement[int]) -> ColumnElement[int]:
        """Return the time, in seconds, before which something must have ended to be deleted now.

        Args:
            own: The task's own retention; null if it has none.
        """
        return literal(self.now, BigInteger()) - func.coalesce(own, self.seconds)

    def is_over(self, task: Column[int], at: Column[int]) -> ColumnElement[bool]:
        """Return whether a row has been kept for long enough.

        The task is looked up for each row rather than joined: PostgreSQL would order that join so
        that it compares all rows of two tables with each other.

        Args:
            task: The row's column that names its task.
            at: The column with the time from which the retention counts.
        """
        owner = tables.tasks.alias("owner").c
        own = select(owner.retention_seconds).where(owner.id == task)
        return at < self.before(own.scalar_subquery())


def _jobs_of_no_use() -> Sequence[ColumnElement[bool]]:
    job, group = tables.aggregation_jobs.c, tables.report_groups.c
    # A leader that selects batches reads the number of its newest batch from its jobs: they stay.
    others = tables.aggregation_jobs.alias("others").c
    newest = (
        select(others.bucket)
        .where(others.task == job.task, others.bucket.is_not(None))
        .order_by(others.bucket.desc())
        .limit(1)
    )
    return (
        job.state.in_((AggregationJobState.FINISHED, AggregationJobState.ABANDONED)),
        or_(job.bucket.is_(None), job.bucket < newest.scalar_subquery()),
        ~exists().where(group.task == job.task, group.job == job.id),
    )


def _collections_of_no_use(kept: _Retention) -> Sequence[ColumnElement[bool]]:
    collection, bucket = tables.collection_jobs.c, tables.buckets.c
    # From these rows a leader knows which batches it has selected and must not select again.
    selected = (
        exists()
        .where(
            bucket.task == collection.task,
            bucket.bucket == collection.first_bucket,
            bucket.bucket == collection.last_bucket,
        )
        .where(has_share())
    )
    return (
        collection.state.in_((CollectionJobState.DELETED, CollectionJobState.FAILED)),
        ~selected,
        kept.is_over(collection.task, collection.ended_at),
    )


def _answers_of_no_use() -> Sequence[ColumnElement[bool]]:
    # While a batch that counts the job is open, the leader may still ask for this answer.
    answered, counted = tables.answered_jobs.c, tables.job_shares.c
    return (~exists().where(counted.task == answered.task, counted.job == answered.body_sha256),)


def _never_answered(kept: _Retention) -> Sequence[ColumnElement[bool]]:
    # A leader that still wants such a job sends it again.
    job = tables.deferred_jobs.c
    return (kept.is_over(job.task, job.created_at),)


def _shares_of_no_use(kept: _Retention) -> Sequence[ColumnElement[bool]]:
    share = tables.aggregate_shares.c
    return (
        share.state == ResourceState.DELETED,
        kept.is_over(share.task, share.created_at),
    )


def _delete_long_kept(
    tx: Transaction, kept: _Retention, at: Column[int], conditions: Sequence[ColumnElement[bool]]
) -> int:
    """Delete some rows of a table that has many, without looking at those that are kept.

    The oldest row of each task is looked up first, by an index on the task and `at`. Only if that
    row has been kept for long enough are rows queried, by task and up to a fixed time. So neither
    database looks at other rows, however long other tasks keep theirs.
    """
    table, task = at.table, tables.tasks.c
    of_task = select(at).where(table.c.task == task.id, at.is_not(None))
    oldest = of_task.order_by(at).limit(1).scalar_subquery()
    before = kept.before(task.retention_seconds)
    query = select(before, task.id).where(task.forgotten_at.is_(None), oldest < before)
    found: defaultdict[int, list[int]] = defaultdict(list)
    for time, key in tx.connection.execute(query):
        found[time].append(key)
    for time, keys in found.items():
        for first in range(0, len(keys), ROWS_PER_STEP):
            some = table.c.task.in_(keys[first : first + ROWS_PER_STEP])
            deleted = _delete_some(tx, table, [*conditions, some, at < time])
            if deleted:
                return deleted
    return 0


def _delete_some(tx: Transaction, table: Table, conditions: Sequence[ColumnElement[bool]]) -> int:
    some = select(*table.primary_key.columns).where(*conditions).limit(ROWS_PER_STEP)
    return _delete_named(tx, table, some)


def _long_collected(
    row: ReadOnlyColumnCollection[str, Column[Any]], kept: _Retention
) -> tuple[ColumnElement[bool], ...]:
    """Return the join of rows with the closed batches that were collected long enough ago.

    Each such batch is looked up among the rows, and mostly has none. The other way round, each row
    would be compared with all batches that begin before it.
    """
    closed = tables.closed_batches.c
    return (
        closed.state == BatchState.COLLECTED,
        kept.is_over(closed.task, closed.changed_at),
        closed.leftovers == 0,
        row.task == closed.task,
        row.bucket.between(closed.first_bucket, closed.last_bucket),
    )


def _forget_buckets(tx: Transaction, kept: _Retention) -> int:
    """Delete the totals of old collected buckets; return how many rows."""
    bucket = tables.buckets.c
    some = (
        select(bucket.task, bucket.bucket, bucket.shard)
        .where(*_long_collected(bucket, kept), ~exists().where(has_share()))
        .limit(ROWS_PER_STEP)
    )
    return _delete_named(tx, tables.buckets, some)


def _forget_waiting(tx: Transaction) -> int:
    """Delete the counts of some buckets of a task for which nothing waits; return how many rows.

    Uploads that open a unit of the past look at all of these counts. A bucket's shards are deleted
    together, under a lock on all of them, since only their sum is 0.
    """
    waiting = tables.waiting_reports.c
    empty = (
        select(waiting.task, waiting.bucket)
        .group_by(waiting.task, waiting.bucket)
        .having(func.sum(waiting.reports) == 0)
    )
    found = tx.connection.execute(empty.limit(1)).first()
    if found is None:
        return 0
    locks.own_all_shards(tx, found.task)
    some = empty.where(waiting.task == found.task).limit(ROWS_PER_STEP)
    return _delete_named(tx, tables.waiting_reports, some)


def _delete_named(tx: Transaction, table: Table, some: Select[Any]) -> int:
    """Delete the rows whose columns have the values that `some` selects, each row by an index.

    Given one condition on several columns, SQLite would scan all rows of the task. Given `some` as
    a condition, PostgreSQL would scan the whole table unless it is very large.
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


def _join_closed_batches(tx: Transaction, kept: _Retention) -> int:
    """Join adjacent old collected batches into one row; return how many rows that removed."""
    found = _run_of_collected(tx, kept)
    if not found:
        return 0
    task_id = found[0].task_id
    locks.change_batches(tx, task_id)
    # Another process may have joined some of them while we waited for the lock: look again.
    run = _run_of_collected(tx, kept, task_id)
    joined = [each.key for each in run[1:]]
    if joined:
        closed = tables.closed_batches.c
        tx.connection.execute(delete(tables.closed_batches).where(closed.id.in_(joined)))
        statement = update(tables.closed_batches).where(closed.id == run[0].key)
        tx.connection.execute(statement.values(last_bucket=run[-1].batch.last))
    return len(joined)


def _run_of_collected(
    tx: Transaction, kept: _Retention, task_id: bytes | None = None
) -> list[_Collected]:
    """Return a run of adjacent old collected batches of the given task, or of any task."""
    closed, task = tables.closed_batches.c, tables.tasks.c
    query = (
        select(task.task_id, closed.id, closed.first_bucket, closed.last_bucket)
        .join(tables.tasks, task.id == closed.task)
        .where(
            closed.state == BatchState.COLLECTED,
            kept.is_over(closed.task, closed.changed_at),
            closed.leftovers == 0,
            func.length(closed.first_bucket) < BatchId.size,  # batch ids are never adjacent
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
