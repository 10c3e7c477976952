"""What an operator does to jobs by hand; all but a retry takes the job's lease away.

A driver that held the lease gets `LeaseLost` at its next write, so it cannot undo what the operator
has decided.
"""

from collections.abc import Mapping

from sqlalchemy import Table, select, update

from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches import closed as closed_batches
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.states import (
    AGGREGATION_JOB,
    COLLECTION_JOB,
    AggregationJobState,
    CollectionJobState,
    Machine,
)
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger import charges as ledger
from aggregator.service.storage.reports.bound import give_up
from aggregator.service.storage.reports.claims import mark_asked, return_reports
from aggregator.service.storage.reports.counters import DROPPED, Stage, count_reports
from aggregator.service.storage.reports.rejecting import (
    drop_uncounted,
    reject_given_up,
    reject_late,
)

_AT_ONCE = 0  # sorts before all due jobs, which are leased in order of time


def retry_aggregation_job(tx: Transaction, job_id: bytes) -> None:
    """Make the job due at once, with the same request if it has one; a held job resumes.

    A job that is being driven now is left to its driver: the other aggregator may have counted its
    reports, so the answer must not be lost.

    Raises:
        Conflict: There is no such job, or it has ended.
    """
    table = tables.aggregation_jobs
    driven = (AggregationJobState.CREATED, AggregationJobState.SENT)
    held = AGGREGATION_JOB.transition("retry_aggregation_job")
    state = _state(tx, table, job_id)
    if state in held.sources:
        _set(tx, table, job_id, {"state": held.target, "failures": 0})
    elif state not in driven:
        raise tx.refuse(Conflict(f"aggregation job {job_id.hex()} has ended: it is {state}"))
    _drive_at_once(tx, table, job_id)


def abandon_aggregation_job(tx: Transaction, job_id: bytes, *, returned: bool) -> int:
    """Give the job up; return how many reports it had.

    Args:
        tx: The transaction.
        job_id: The job.
        returned: Whether another job may claim its reports. That is useless if the Helper has
            counted them, since it refuses replays. Otherwise they are dropped and counted.

    Raises:
        Conflict: There is no such job, or it has ended.
    """
    table = tables.aggregation_jobs
    query = (
        select(table.c.id, tables.tasks.c.task_id)
        .join(tables.tasks, tables.tasks.c.id == table.c.task)
        .where(table.c.job_id == job_id)
    )
    key, task_id = tx.connection.execute(query).one_or_none() or (0, b"")
    locks.keep_batches(tx, task_id)
    was_asked = _state(tx, table, job_id) != AggregationJobState.CREATED
    end = _end(tx, table, AGGREGATION_JOB, "abandon_aggregation_job", job_id)
    _set(tx, table, job_id, {**end, "request": None, "reason": None})
    if returned:
        reject_given_up(tx, task_id, key)
        if was_asked:
            mark_asked(tx, key)
        given_back = return_reports(tx, key)
        reject_late(tx, task_id, given_back)
        return given_back.total()
    dropped = drop_uncounted(tx, task_id, key)
    if dropped:
        count_reports(tx, task_id, Stage.AGGREGATION, {DROPPED: dropped})
    return dropped


def drop_waiting_job(tx: Transaction, task_id: bytes, batch: Batch, request_sha256: bytes) -> int:
    """Drop the job with this request if it waits and has reports in the batch; return their number.

    Its reports in other batches are dropped too, since they depend on the same answer.
    """
    job, group = tables.aggregation_jobs.c, tables.report_groups.c
    query = (
        select(job.job_id)
        .join(tables.report_groups, (group.task == job.task) & (group.job == job.id))
        .where(
            job.task == tx.task_key(task_id),
            job.request_sha256 == request_sha256,
            group.bucket.between(batch.first, batch.last),
        )
        .limit(1)
    )
    job_id = tx.connection.execute(query).scalar()
    return 0 if job_id is None else abandon_aggregation_job(tx, job_id, returned=False)


def retry_collection_job(tx: Transaction, job_id: bytes) -> None:
    """Make the job due at once, and let its helper refuse for the full time again.

    A job that is being driven now is left to its driver.

    Raises:
        Conflict: There is no such job, or it has ended.
    """
    table = tables.collection_jobs
    _end(tx, table, COLLECTION_JOB, "abandon_collection_job", job_id)  # raises if it has ended
    _set(tx, table, job_id, {"refused_since": None})
    _drive_at_once(tx, table, job_id)


def abandon_collection_job(tx: Transaction, job_id: bytes, problem: str, *, returned: bool) -> None:
    """Make the job fail.

    Args:
        tx: The transaction.
        job_id: The job.
        problem: The problem document for the Collector, JSON.
        returned: Whether its batch, if frozen, reopens and costs nothing. Otherwise the batch stays
            closed for ever, its cost is charged and its un-noised shares are destroyed.

    Raises:
        Conflict: There is no such job, or it has ended.
    """
    table = tables.collection_jobs
    of_job = (
        select(tables.tasks.c.task_id)
        .join(table, tables.tasks.c.id == table.c.task)
        .where(table.c.job_id == job_id)
    )
    task_id = tx.connection.execute(of_job).scalar() or b""
    locks.change_batches(tx, task_id)
    end = _end(tx, table, COLLECTION_JOB, "abandon_collection_job", job_id)
    query = select(table.c.state, table.c.first_bucket, table.c.last_bucket, table.c.uploaded_at)
    row = tx.connection.execute(query.where(table.c.job_id == job_id)).one()
    _set(tx, table, job_id, {**end, "problem": problem, "reason": None})
    if row.first_bucket is None:
        return
    batch = Batch(row.first_bucket, row.last_bucket)
    if row.state == CollectionJobState.FROZEN and returned:
        closed_batches.unfreeze(tx, task_id, batch)
        ledger.cancel(tx, task_id, batch)
    elif row.state == CollectionJobState.FROZEN:
        closed_batches.mark_collected(tx, task_id, batch)
        ledger.settle(tx, task_id, batch)
    if row.uploaded_at is not None:
        give_up(tx, task_id, batch)


def _end(
    tx: Transaction, table: Table, machine: Machine, verb: str, job_id: bytes
) -> dict[str, object]:
    """Return the columns to set on a job that `verb` ends now.

    Raises:
        Conflict: There is no such job, or it has ended.
    """
    transition = machine.transition(verb)
    state = _state(tx, table, job_id)
    if state not in transition.sources:
        raise tx.refuse(Conflict(f"job {job_id.hex()} has ended: it is {state}"))
    return {"state": transition.target, "lease_token": None, "ended_at": tx.now}


def _state(tx: Transaction, table: Table, job_id: bytes) -> str:
    query = select(table.c.state).where(table.c.job_id == job_id)
    # The lease's holder commits its writes before this lock, or not at all.
    state: str | None = tx.connection.execute(query.with_for_update()).scalar()
    if state is None:
        raise tx.refuse(Conflict(f"there is no job {job_id.hex()}"))
    return state


def _drive_at_once(tx: Transaction, table: Table, job_id: bytes) -> None:
    """Make the job due now, unless a driver holds its lease."""
    is_free = table.c.lease_token.is_(None) | (table.c.lease_expires_at <= tx.now)
    statement = update(table).where(table.c.job_id == job_id, is_free)
    tx.connection.execute(statement.values(lease_token=None, lease_expires_at=_AT_ONCE))


def _set(tx: Transaction, table: Table, job_id: bytes, values: Mapping[str, object]) -> None:
    tx.connection.execute(update(table).where(table.c.job_id == job_id).values(**values))
