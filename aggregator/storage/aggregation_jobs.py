"""The Leader's aggregation jobs: created with their reports, sent, finished or abandoned.

The exact request is stored before it is sent, and only the driver that holds the job's lease moves
it. So the successor of a killed driver sends the same bytes again and gets the same answer.
`states.AGGREGATION_JOB` draws the life of a job.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from sqlalchemy import insert, select

from aggregator.storage import leases, tables
from aggregator.storage.counters import AGGREGATED, Stage, count_reports
from aggregator.storage.database import Transaction
from aggregator.storage.engine import Conflict
from aggregator.storage.leases import Lease, Leased
from aggregator.storage.reports import (
    JobSize,
    claim_reports,
    claimable_reports,
    drop_reports,
    reject_reports,
    report_ids_of_job,
)
from aggregator.storage.states import AGGREGATION_JOB, AggregationJobState

_UNFINISHED = (AggregationJobState.CREATED, AggregationJobState.SENT)


@dataclasses.dataclass(frozen=True, slots=True)
class AggregationJob:
    """An aggregation job of the Leader.

    Attributes:
        key: Its key in the database; `reports_of_job` takes it.
        task_id: Its task, 32 bytes.
        job_id: Our own name for it, 16 bytes; the Helper has its own.
        state: Where it is in its life.
        bucket: The key of the bucket that all its reports fall in; empty if each has its own.
        request: The exact AggregationJobInitReq, from `store_request` until the job ends.
        helper_location: Where the Helper put the job, if it said so.
    """

    key: int
    task_id: bytes
    job_id: bytes
    state: AggregationJobState
    bucket: bytes
    request: bytes | None = dataclasses.field(repr=False)
    helper_location: str | None


def create_aggregation_job(
    tx: Transaction,
    task_id: bytes,
    size: JobSize,
    *,
    only_full: bool = False,
    bucket: bytes = b"",
) -> AggregationJob | None:
    """Claim reports for a new job; None if there are none, or too few for a full one if it must be.

    Args:
        tx: The transaction.
        task_id: The task.
        size: How much goes into the job.
        only_full: Whether the job must be full.
        bucket: Where its reports fall from then on (`selected_batches`); empty where each has a
            bucket of its own.
    """
    claimable = claimable_reports(tx, task_id, size)
    if not claimable.reports or (only_full and not claimable.is_full):
        return None
    job_id = tx.random_id()
    table = tables.aggregation_jobs
    key: int = tx.connection.execute(
        insert(table)
        .values(
            task=tx.task_key(task_id),
            job_id=job_id,
            state=AggregationJobState.CREATED,
            lease_expires_at=tx.now,
            lease_attempts=0,
            created_at=tx.now,
            bucket=bucket or None,
        )
        .returning(table.c.id)
    ).scalar_one()
    claim_reports(tx, task_id, key, size, bucket)
    return AggregationJob(key, task_id, job_id, AggregationJobState.CREATED, bucket, None, None)


def due_aggregation_jobs(tx: Transaction) -> dict[bytes, int]:
    """Return how many unfinished jobs each task has that nobody holds, if any."""
    return leases.due(tx, tables.aggregation_jobs, _UNFINISHED)


def lease_aggregation_jobs(
    tx: Transaction, limit: int, seconds: int, task_id: bytes | None = None
) -> list[Leased[AggregationJob]]:
    """Lease at most `limit` unfinished jobs, of one task or any, for `seconds`."""
    held = leases.acquire(tx, tables.aggregation_jobs, _UNFINISHED, limit, seconds, task_id)
    return [Leased(_get(tx, lease.key), lease) for lease in held]


def renew_aggregation_job(tx: Transaction, lease: Lease, seconds: int) -> None:
    """Hold the job for `seconds` from now on.

    Raises:
        LeaseLost: The lease is not ours any more.
    """
    leases.renew(tx, tables.aggregation_jobs, lease, seconds)


def store_request(
    tx: Transaction, lease: Lease, request: bytes, rejected: Mapping[bytes, str]
) -> None:
    """Store the exact request before it is sent, and drop the reports that are not in it.

    Args:
        tx: The transaction.
        lease: The lease on the job.
        request: The encoded AggregationJobInitReq, sent unchanged on every attempt.
        rejected: Reports that we rejected before sending, each with its reason.

    Raises:
        LeaseLost: The lease is not ours any more, or a request is stored already.
    """
    job = tables.aggregation_jobs
    leases.advance(
        tx, job, AGGREGATION_JOB, "store_request", lease, {"request": request}, ends=False
    )
    reject_reports(tx, _get(tx, lease.key).task_id, lease.key, rejected)


def store_job_location(tx: Transaction, lease: Lease, location: str) -> None:
    """Store where the Helper put the job, so that another driver can poll or delete it.

    Raises:
        LeaseLost: The lease is not ours any more.
    """
    leases.write(tx, tables.aggregation_jobs, lease, {"helper_location": location})


def finish_aggregation_job(
    tx: Transaction, lease: Lease, aggregated: Sequence[bytes], rejected: Mapping[bytes, str]
) -> None:
    """End the job, in the transaction in which the out shares of `aggregated` were added.

    The bodies are dropped and every report counted.

    Args:
        tx: The transaction.
        lease: The lease on the job.
        aggregated: Ids of the reports that were merged.
        rejected: Ids of the others, each with its reason.

    Raises:
        LeaseLost: The lease is not ours any more.
        Conflict: The reports named are not exactly the job's.
    """
    _end(tx, "finish_aggregation_job", lease)
    job = _get(tx, lease.key)
    counted = set(aggregated)
    if (
        len(counted) != len(aggregated)
        or counted & rejected.keys()
        or counted | rejected.keys() != report_ids_of_job(tx, job.key)
    ):
        raise tx.refuse(Conflict("an aggregation job must end with each of its reports named once"))
    reject_reports(tx, job.task_id, job.key, rejected)
    drop_reports(tx, job.task_id, job.key)
    if aggregated:
        count_reports(tx, job.task_id, Stage.AGGREGATION, {AGGREGATED: len(aggregated)})


def release_aggregation_job(
    tx: Transaction, lease: Lease, delay_seconds: int, *, progressed: bool = False
) -> None:
    """Give the job back for another try after `delay_seconds`; progress forgets the attempts.

    Raises:
        LeaseLost: The lease is not ours any more.
    """
    leases.release(tx, tables.aggregation_jobs, lease, delay_seconds, progressed=progressed)


def abandon_aggregation_job(tx: Transaction, lease: Lease, reason: str) -> None:
    """Give the job up: its reports are dropped and counted under `reason`.

    They are not claimed again, for the Helper may have committed them.

    Raises:
        LeaseLost: The lease is not ours any more.
    """
    _end(tx, "abandon_aggregation_job", lease)
    task_id = _get(tx, lease.key).task_id
    dropped = drop_reports(tx, task_id, lease.key)
    if dropped:
        count_reports(tx, task_id, Stage.AGGREGATION, {reason: dropped})


def _end(tx: Transaction, verb: str, lease: Lease) -> None:
    table = tables.aggregation_jobs
    leases.advance(tx, table, AGGREGATION_JOB, verb, lease, {"request": None}, ends=True)


def _get(tx: Transaction, key: int) -> AggregationJob:
    job, task = tables.aggregation_jobs.c, tables.tasks.c
    query = (
        select(
            job.id,
            task.task_id,
            job.job_id,
            job.state,
            job.bucket,
            job.request,
            job.helper_location,
        )
        .join(tables.tasks, task.id == job.task)
        .where(job.id == key)
    )
    row = tx.connection.execute(query).one()
    return AggregationJob(
        key=row.id,
        task_id=row.task_id,
        job_id=row.job_id,
        state=AggregationJobState(row.state),
        bucket=row.bucket or b"",
        request=row.request,
        helper_location=row.helper_location,
    )
