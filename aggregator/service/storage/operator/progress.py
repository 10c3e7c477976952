"""The progress of a party's work: what waits, since when, and what happened last.

Everything is read in one snapshot without locks, and by index where tables are large.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Table, func, null, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.states import AggregationJobState, CollectionJobState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.counters import AGGREGATED, Stage

_AGGREGATING = (
    AggregationJobState.CREATED,
    AggregationJobState.SENT,
    AggregationJobState.HELD,
)
_COLLECTING = (CollectionJobState.START, CollectionJobState.FROZEN)


@dataclasses.dataclass(frozen=True, slots=True)
class TaskProgress:
    """One task of an aggregator. All times are in seconds since the Unix epoch.

    Attributes:
        task_id: 32 bytes.
        ended_at: When uploads ended; None while they are accepted.
        waiting: Leader: stored reports that are not aggregated.
        oldest_at: When the oldest of them was stored.
        counts: Reports by stage and reason.
        last_release_at: When a batch was last released.
        releases: How many releases were made or are reserved.
        collections: Leader: collection jobs that have not ended.
        retention_seconds: How long ended work is kept; None for the service's setting.
        definition: The text of the public task file.
    """

    task_id: bytes
    ended_at: int | None
    waiting: int
    oldest_at: int | None
    counts: Mapping[str, Mapping[str, int]]
    last_release_at: int | None
    releases: int
    collections: int
    retention_seconds: int | None
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
        driven: How many of them workers are driving now.
        postponed: How many of them wait to be retried.
        held: How many of them wait for an operator's decision.
        attempts: The most attempts that any has needed since it last made progress.
    """

    unfinished: int
    driven: int
    postponed: int
    held: int
    attempts: int


def task_progress(tx: Transaction) -> list[TaskProgress]:
    """Return all tasks of an aggregator, oldest first."""
    task, group, counter, entry = (
        tables.tasks.c,
        tables.report_groups.c,
        tables.report_counters.c,
        tables.ledger.c,
    )
    waiting = select(group.task, func.sum(group.reports), func.min(group.received_at))
    of_each = tx.connection.execute(waiting.group_by(group.task))
    backlog = {key: (int(count), oldest) for key, count, oldest in of_each}
    counts: defaultdict[int, defaultdict[str, dict[str, int]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    name = (counter.task, counter.stage, counter.reason)
    counted = select(*name, func.sum(counter.reports)).group_by(*name)
    in_order = counted.order_by(counter.stage.desc(), counter.reason)  # the upload comes first
    for key, stage, reason, reports in tx.connection.execute(in_order):
        counts[key][stage][reason] = int(reports)
    charged = select(entry.task, func.max(entry.charged_at), func.count()).group_by(entry.task)
    released = {key: (last_at, count) for key, last_at, count in tx.connection.execute(charged)}
    job = tables.collection_jobs.c
    asked = select(job.task, func.count()).where(job.state.in_(_COLLECTING)).group_by(job.task)
    collections: dict[int, int] = dict(tx.connection.execute(asked).all())
    listed = (
        select(task.id, task.task_id, task.ended_at, task.retention_seconds, task.definition)
        .where(task.forgotten_at.is_(None))
        .order_by(task.id)
    )
    return [
        TaskProgress(
            task_id=task_id,
            ended_at=ended_at,
            waiting=backlog[key][0] if key in backlog else 0,
            oldest_at=backlog[key][1] if key in backlog else None,
            counts=counts[key],
            last_release_at=released[key][0] if key in released else None,
            releases=released[key][1] if key in released else 0,
            collections=collections.get(key, 0),
            retention_seconds=retention,
            definition=definition,
        )
        for key, task_id, ended_at, retention, definition in tx.connection.execute(listed)
    ]


def aggregation_progress(tx: Transaction) -> JobProgress:
    """Return the progress of the Leader's aggregation jobs that have not ended."""
    return _progress(tx, tables.aggregation_jobs, _AGGREGATING)


def collection_progress(tx: Transaction) -> JobProgress:
    """Return the progress of the Leader's collection jobs that have not ended."""
    return _progress(tx, tables.collection_jobs, _COLLECTING)


def deferred_progress(tx: Transaction) -> JobProgress:
    """Return the aggregation jobs that the Helper has put off."""
    return _progress(tx, tables.deferred_jobs, ())


def oldest_deferred_at(tx: Transaction) -> int | None:
    """Return when the oldest of them came."""
    oldest = select(func.min(tables.deferred_jobs.c.created_at))
    found: int | None = tx.connection.execute(oldest).scalar()
    return found


def last_finished_at(tx: Transaction) -> int | None:
    """Return when a job of either kind last finished or, at the Helper, was answered."""
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


def _progress(tx: Transaction, table: Table, states: Sequence[str]) -> JobProgress:
    state = table.c.state if states else null().label("state")
    columns = (state, table.c.lease_token, table.c.lease_expires_at, table.c.lease_attempts)
    query = select(*columns)
    if states:
        query = query.where(table.c.state.in_(states))
    rows = tx.connection.execute(query).all()
    going_on = [row for row in rows if row.state != AggregationJobState.HELD]
    later = [row for row in going_on if row.lease_expires_at > tx.now]
    driven = sum(row.lease_token is not None for row in later)
    return JobProgress(
        unfinished=len(rows),
        driven=driven,
        postponed=len(later) - driven,
        held=len(rows) - len(going_on),
        attempts=max((row.lease_attempts for row in rows), default=0),
    )


def _last_ended(tx: Transaction, table: Table, state: str) -> int | None:
    # By the index on leases: the job whose lease expires last is among the last to have ended.
    query = select(table.c.ended_at).where(table.c.state == state)
    found: int | None = tx.connection.execute(
        query.order_by(table.c.lease_expires_at.desc()).limit(1)
    ).scalar()
    return found


def newest_entry_at(tx: Transaction) -> int:
    """Return the latest time, in seconds, that any entry of the store carries."""
    columns = (
        tables.tasks.c.created_at,
        tables.report_groups.c.received_at,
        tables.aggregation_jobs.c.created_at,
        tables.answered_jobs.c.created_at,
        tables.deferred_jobs.c.created_at,
        tables.closed_batches.c.changed_at,
        tables.ledger.c.created_at,
        tables.hpke_keys.c.created_at,
    )
    found = (tx.connection.execute(select(func.max(column))).scalar() for column in columns)
    return max((each for each in found if each is not None), default=0)
