"""How far the work of a party has come: what waits, since when, and what happened last.

Everything is read over one snapshot without a lock, from indices where tables are large.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Table, func, select

from aggregator.protocol.batches import Batch
from aggregator.storage import tables
from aggregator.storage.batches import closed_batches
from aggregator.storage.counters import AGGREGATED, Stage
from aggregator.storage.database import Transaction
from aggregator.storage.states import (
    AggregationJobState,
    CollectionJobState,
    CollectionState,
)
from aggregator.storage.waiting_reports import waiting_in_batch

_AGGREGATING = (AggregationJobState.CREATED, AggregationJobState.SENT)
_COLLECTING = (CollectionJobState.START, CollectionJobState.FROZEN)


@dataclasses.dataclass(frozen=True, slots=True)
class TaskProgress:
    """One task of an aggregator. All times are in seconds since the Unix epoch.

    Attributes:
        task_id: 32 bytes.
        ended_at: When uploads ended; None while they are taken.
        waiting: Leader: stored reports that are not aggregated.
        oldest_at: When the oldest of them was stored.
        counts: Reports by stage and reason.
        last_release_at: When a batch was last released.
        releases: How many releases were made or are reserved.
        definition: The text of the public task file.
    """

    task_id: bytes
    ended_at: int | None
    waiting: int
    oldest_at: int | None
    counts: Mapping[str, Mapping[str, int]]
    last_release_at: int | None
    releases: int
    definition: str

    @property
    def aggregated(self) -> int:
        """How many reports were verified and added up."""
        return self.counts.get(Stage.AGGREGATION, {}).get(AGGREGATED, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class JobProgress:
    """Jobs of one kind that have not ended.

    Attributes:
        unfinished: How many there are.
        held: How many of them a worker works on now.
        postponed: How many of them wait for another try.
        attempts: The most attempts that one has needed since it last made progress.
    """

    unfinished: int
    held: int
    postponed: int
    attempts: int


@dataclasses.dataclass(frozen=True, slots=True)
class WaitingCollection:
    """A collection that has not ended.

    Attributes:
        task_id: Its task, 32 bytes.
        job_id: The id in its URL, 16 bytes.
        created_at: Since when it waits, in seconds.
        reason: For what.
        is_ours: Whether that is for the aggregators to do, and not for clients.
    """

    task_id: bytes
    job_id: bytes
    created_at: int
    reason: str
    is_ours: bool


def task_progress(tx: Transaction) -> list[TaskProgress]:
    """Return all tasks of an aggregator, oldest first."""
    task, report, counter, entry = (
        tables.tasks.c,
        tables.reports.c,
        tables.report_counters.c,
        tables.ledger.c,
    )
    waiting = select(report.task, func.count(), func.min(report.id)).group_by(report.task)
    backlog = {key: (count, first) for key, count, first in tx.connection.execute(waiting)}
    firsts = select(report.id, report.received_at).where(
        report.id.in_([first for _, first in backlog.values()])
    )
    received = dict(tx.connection.execute(firsts).all())
    counts: defaultdict[int, defaultdict[str, dict[str, int]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    counted = select(counter.task, counter.stage, counter.reason, counter.reports)
    for key, stage, reason, reports in tx.connection.execute(counted):
        counts[key][stage][reason] = reports
    charged = select(entry.task, func.max(entry.charged_at), func.count()).group_by(entry.task)
    released = {key: (last_at, count) for key, last_at, count in tx.connection.execute(charged)}
    listed = select(task.id, task.task_id, task.ended_at, task.definition).order_by(task.id)
    return [
        TaskProgress(
            task_id=task_id,
            ended_at=ended_at,
            waiting=backlog[key][0] if key in backlog else 0,
            oldest_at=received[backlog[key][1]] if key in backlog else None,
            counts=counts[key],
            last_release_at=released[key][0] if key in released else None,
            releases=released[key][1] if key in released else 0,
            definition=definition,
        )
        for key, task_id, ended_at, definition in tx.connection.execute(listed)
    ]


def aggregation_progress(tx: Transaction) -> JobProgress:
    """Return the Leader's aggregation jobs that have not ended."""
    return _progress(tx, tables.aggregation_jobs, _AGGREGATING)


def collection_progress(tx: Transaction) -> JobProgress:
    """Return the Leader's collection jobs that have not ended."""
    return _progress(tx, tables.collection_jobs, _COLLECTING)


def last_finished_at(tx: Transaction) -> int | None:
    """Return when a job last finished: at the Leader of either kind, at the Helper an answer."""
    answered = tables.answered_jobs.c
    moments = [
        _last_ended(tx, tables.aggregation_jobs, AggregationJobState.FINISHED),
        *(
            _last_ended(tx, tables.collection_jobs, state)
            for state in (CollectionJobState.FINISHED, CollectionJobState.DELETED)
        ),
        tx.connection.execute(
            select(answered.created_at).order_by(answered.id.desc()).limit(1)
        ).scalar(),
    ]
    return max((moment for moment in moments if moment is not None), default=None)


def waiting_collections(tx: Transaction, limit: int) -> list[WaitingCollection]:
    """Return at most `limit` of the Leader's collections that have not ended, oldest first."""
    job = tables.collection_jobs.c
    query = (
        select(tables.tasks.c.task_id, tables.collection_jobs)
        .join(tables.tasks, tables.tasks.c.id == job.task)
        .where(job.state.in_(_COLLECTING))
        .order_by(job.id)
        .limit(limit)
    )
    return [
        WaitingCollection(
            row.task_id,
            row.job_id,
            row.created_at,
            _reason(tx, row),
            is_ours=row.first_bucket is not None,
        )
        for row in tx.connection.execute(query)
    ]


def pending_collections(tx: Transaction) -> tuple[int, int | None]:
    """Return how many of a Collector's collections are pending, and since when the oldest is."""
    collection = tables.collections.c
    query = select(func.count(), func.min(collection.created_at)).where(
        collection.state == CollectionState.PENDING
    )
    count, oldest = tx.connection.execute(query).one()
    return count, oldest


def _progress(tx: Transaction, table: Table, states: Sequence[str]) -> JobProgress:
    query = select(table.c.lease_token, table.c.lease_expires_at, table.c.lease_attempts).where(
        table.c.state.in_(states)
    )
    rows = tx.connection.execute(query).all()
    later = [token for token, expires_at, _ in rows if expires_at > tx.now]
    held = sum(token is not None for token in later)
    return JobProgress(
        unfinished=len(rows),
        held=held,
        postponed=len(later) - held,
        attempts=max((attempts for _, _, attempts in rows), default=0),
    )


def _last_ended(tx: Transaction, table: Table, state: str) -> int | None:
    # By the index: the job whose lease would have ended last is among the last to have ended.
    query = select(table.c.ended_at).where(table.c.state == state)
    found: int | None = tx.connection.execute(
        query.order_by(table.c.lease_expires_at.desc()).limit(1)
    ).scalar()
    return found


def _reason(tx: Transaction, row: Row[tuple[Any, ...]]) -> str:
    if row.first_bucket is None:
        return "reports enough for a batch"
    if row.state == CollectionJobState.FROZEN:
        tries = f" ({row.lease_attempts} attempts in a row)" if row.lease_attempts > 1 else ""
        return f"the helper's share{tries}"
    task_id, batch = row.task_id, Batch(row.first_bucket, row.last_bucket)
    reports = waiting_in_batch(tx, task_id, batch)
    if reports:
        return f"{reports:,} reports of the batch are not aggregated yet"
    closed = closed_batches(tx, task_id, batch).overall()
    if closed is not None:
        return f"a part of the batch is {closed} by another collection"
    return "nothing: it is due"
