"""Jobs as an operator sees them: what waits, why, and when it will be retried.

A helper's jobs are those that it has answered, and those that it has deferred.
"""

import dataclasses
from typing import Any

from sqlalchemy import Column, ColumnElement, FromClause, Row, Select, func, select

from aggregator.protocol.batches import Batch
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.states import AggregationJobState, CollectionJobState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.claims import is_due

AGGREGATION = "aggregation"
COLLECTION = "collection"
REPORTS = "reports"
DEFERRED = "deferred"
"""The state of a job that a helper has deferred."""
TOO_EARLY, UNREADABLE = "too_early", "unreadable"
"""The states of reports that wait by themselves."""

_WAITING = (
    AggregationJobState.CREATED,
    AggregationJobState.SENT,
    AggregationJobState.HELD,
    CollectionJobState.START,
    CollectionJobState.FROZEN,
)
_OPEN = CollectionJobState.OPEN
"""Its collector has it open: nothing stands in its way."""

_SHOWN = {AggregationJobState.CREATED: "unsent", CollectionJobState.START: "waiting"}
"""What an operator is shown instead of a state's name: what the job waits for."""


@dataclasses.dataclass(frozen=True, slots=True)
class ListedJob:
    """A job, or reports that wait outside of one.

    Attributes:
        kind: `aggregation`, `collection`, or `reports` for reports that wait by themselves.
        task_id: Its task, 32 bytes.
        job_id: Its id, 16 bytes, as in logs; empty for reports.
        state: One of its kind's states, as operators know it; `deferred` at a helper;
            for reports `too_early`, or `unreadable` if their bodies cannot be read.
        created_at: Seconds.
        ended_at: Seconds; None while it waits.
        reports: How many it has left; None if that is not known.
        request_sha256: The hash that both aggregators know the job by, once there is a request.
        attempts: Leases taken since it last made progress.
        failures: Refusals and unusable answers so far.
        may_be_counted: Whether the other aggregator may have processed what it was sent.
        reason: What last stood in its way.
        next_at: When it will be retried, in seconds; None if it needs an operator, or has ended.
        is_driven: Whether a worker holds it now, at most until `next_at`.
        batch: The batch that a collection asks for; None if the Leader has yet to select one.
        problem: The problem document of a failed collection, JSON.
        location: Where the Helper keeps an aggregation job, if it has said so.
    """

    kind: str
    task_id: bytes
    job_id: bytes
    state: str
    created_at: int
    ended_at: int | None = None
    reports: int | None = None
    request_sha256: bytes | None = None
    attempts: int = 0
    failures: int = 0
    may_be_counted: bool = False
    reason: str | None = None
    next_at: int | None = None
    is_driven: bool = False
    batch: Batch | None = None
    problem: str | None = None
    location: str | None = None


def list_waiting(tx: Transaction, task_id: bytes | None = None) -> list[ListedJob]:
    """Return the jobs that have not ended, and reports that are too early.

    Args:
        tx: The transaction.
        task_id: The task to list; None for all.
    """
    of_task = [] if task_id is None else [tables.tasks.c.task_id == task_id]
    return [
        *_aggregations(tx, tables.aggregation_jobs.c.state.in_(_WAITING), *of_task),
        *_collections(tx, tables.collection_jobs.c.state.in_((*_WAITING, _OPEN)), *of_task),
        *_deferred(tx, *of_task),
        *_postponed(tx, *of_task),
    ]


def list_blocked_jobs(tx: Transaction, limit: int) -> list[ListedJob]:
    """Return the Leader's jobs that something blocks.

    These are held aggregation jobs, other aggregation jobs with failed attempts, and collection
    jobs, at most `limit` of each, oldest first; and reports that are too early.
    """
    job, collection = tables.aggregation_jobs.c, tables.collection_jobs.c
    driven = (AggregationJobState.CREATED, AggregationJobState.SENT)

    def first(key: Column[int], *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
        return key.in_(select(key).where(*conditions).order_by(key).limit(limit))

    return [
        *_aggregations(tx, first(job.id, job.state == AggregationJobState.HELD)),
        *_aggregations(tx, first(job.id, job.state.in_(driven), job.reason.is_not(None))),
        *_collections(tx, first(collection.id, collection.state.in_(_WAITING))),
        *_postponed(tx),
    ]


def find_job(tx: Transaction, job: bytes) -> ListedJob | None:
    """Return a job of either aggregator in any state, if there is one.

    Args:
        tx: The transaction.
        job: Its id, or the SHA-256 of its request; of several with that request, the last is found.
    """
    sent, answered, shares = tables.aggregation_jobs, tables.answered_jobs, tables.aggregate_shares
    deferred = tables.deferred_jobs
    found = [
        *_aggregations(tx, (sent.c.job_id == job) | (sent.c.request_sha256 == job)),
        *_collections(tx, tables.collection_jobs.c.job_id == job),
        *_deferred(tx, (deferred.c.job_id == job) | (deferred.c.body_sha256 == job)),
        *_answered(
            tx,
            AGGREGATION,
            answered.c.job_id,
            (answered.c.job_id == job) | (answered.c.body_sha256 == job),
        ),
        *_answered(tx, COLLECTION, shares.c.share_id, shares.c.share_id == job),
    ]
    return found[-1] if found else None


def _aggregations(tx: Transaction, *conditions: ColumnElement[bool]) -> list[ListedJob]:
    job, group = tables.aggregation_jobs, tables.report_groups.c
    left = (
        select(func.coalesce(func.sum(group.reports), 0))
        .where(group.task == job.c.task, group.job == job.c.id)
        .scalar_subquery()
    )
    columns = [column for column in job.c if column.name != "request"]  # left out: it may be long
    return [
        _leased(
            tx,
            AGGREGATION,
            row,
            reports=int(row.reports),
            request_sha256=row.request_sha256,
            failures=row.failures,
            may_be_counted=row.unanswered > 0,
            location=row.helper_location,
        )
        for row in tx.connection.execute(
            _with_task(job, *columns, left.label("reports")).where(*conditions)
        )
    ]


def _collections(tx: Transaction, *conditions: ColumnElement[bool]) -> list[ListedJob]:
    job = tables.collection_jobs
    return [
        _leased(
            tx,
            COLLECTION,
            row,
            reports=row.report_count,
            may_be_counted=row.state == CollectionJobState.FROZEN,
            batch=None if row.first_bucket is None else Batch(row.first_bucket, row.last_bucket),
            problem=row.problem,
        )
        for row in tx.connection.execute(_with_task(job, job).where(*conditions))
    ]


def _deferred(tx: Transaction, *conditions: ColumnElement[bool]) -> list[ListedJob]:
    """Return the jobs that a helper has deferred; only a request says how many reports it has."""
    job = tables.deferred_jobs
    columns = [column for column in job.c if column.name != "request"]  # as above
    return [
        ListedJob(
            kind=AGGREGATION,
            task_id=row.task_id,
            job_id=row.job_id,
            state=DEFERRED,
            created_at=row.created_at,
            request_sha256=row.body_sha256,
            attempts=row.lease_attempts,
            reason=row.reason,
            next_at=row.lease_expires_at,
            is_driven=row.lease_token is not None and row.lease_expires_at > tx.now,
        )
        for row in tx.connection.execute(_with_task(job, *columns).where(*conditions))
    ]


def _with_task(job: FromClause, *columns: FromClause | ColumnElement[Any]) -> Select[Any]:
    """Return the query for the rows of a table of jobs with their tasks' ids, oldest first."""
    return (
        select(*columns, tables.tasks.c.task_id)
        .join(tables.tasks, tables.tasks.c.id == job.c.task)
        .order_by(job.c.id)
    )


def _leased(tx: Transaction, kind: str, row: Row[Any], **own: Any) -> ListedJob:  # noqa: ANN401  as a row's columns are
    """Return one of the Leader's jobs, from the columns common to both kinds and its `own`."""
    is_waiting = row.state in _WAITING and row.state != AggregationJobState.HELD
    return ListedJob(
        kind=kind,
        task_id=row.task_id,
        job_id=row.job_id,
        state=_SHOWN.get(row.state, row.state),
        created_at=row.created_at,
        ended_at=row.ended_at,
        attempts=row.lease_attempts,
        reason=row.reason,
        next_at=row.lease_expires_at if is_waiting else None,
        is_driven=row.lease_token is not None and row.lease_expires_at > tx.now,
        **own,
    )


def _postponed(tx: Transaction, *conditions: ColumnElement[bool]) -> list[ListedJob]:
    group = tables.report_groups.c
    is_unreadable = group.unreadable_since.is_not(None).label("is_unreadable")
    query = (
        select(
            tables.tasks.c.task_id,
            is_unreadable,
            func.sum(group.reports).label("reports"),
            func.min(group.received_at).label("received_at"),
            func.min(group.waits_until).label("next_at"),
        )
        .join(tables.tasks, tables.tasks.c.id == group.task)
        .where(group.job.is_(None), ~is_due(tx.now), *conditions)
        .group_by(tables.tasks.c.task_id, is_unreadable)
        .order_by(tables.tasks.c.task_id, is_unreadable)
    )
    return [
        ListedJob(
            kind=REPORTS,
            task_id=row.task_id,
            job_id=b"",
            state=UNREADABLE if row.is_unreadable else TOO_EARLY,
            created_at=row.received_at,
            reports=int(row.reports),
            reason="their bodies cannot be read now"
            if row.is_unreadable
            else "too early for the clock of one of the aggregators",
            next_at=row.next_at,
        )
        for row in tx.connection.execute(query)
    ]


def _answered(
    tx: Transaction, kind: str, job_id: Column[bytes], condition: ColumnElement[bool]
) -> list[ListedJob]:
    table = job_id.table
    query = _with_task(table, table, job_id.label("name")).where(condition)
    return [
        ListedJob(
            kind=kind,
            task_id=row.task_id,
            job_id=row.name,
            state=row.state,
            created_at=row.created_at,
            ended_at=row.created_at,
            request_sha256=row.body_sha256,
        )
        for row in tx.connection.execute(query)
    ]
