"""The Leader's aggregation jobs: created with their reports, sent, finished.

The exact request is stored before it is sent, and only the driver that holds the job's lease moves
it. So the successor of a killed driver sends the same bytes again and gets the same answer. No
driver gives a job up with its reports: `interventions` has the verbs of a person who does.
`states.AGGREGATION_JOB` draws the life of a job. Every verb that takes a lease raises `LeaseLost`
if it is not ours any more.
"""

import dataclasses
import hashlib
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import bindparam, func, insert, or_, select, update

from aggregator.dap.report_errors import ReportError
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.states import AGGREGATION_JOB, AggregationJobState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.leases import Jobs, Lease
from aggregator.service.storage.reports.claims import (
    JobSize,
    bytes_of_job,
    claim_reports,
    claimable_reports,
    mark_asked,
    move_half,
    postpone_reports,
    reports_in_job,
)
from aggregator.service.storage.reports.counters import AGGREGATED, Stage, count_reports
from aggregator.service.storage.reports.rejected import remember_rejected
from aggregator.service.storage.reports.rejecting import (
    drop_reports,
    reject_given_up,
    reject_late,
    reject_reports,
    reject_twins,
)
from aggregator.service.storage.reports.unreadable import set_aside

TOO_EARLY_SECONDS = 60
"""How long a report waits that one of the aggregators found too early."""

GROWTH = 64
"""Each job that comes up to the bound raises it by one part in this many."""


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
        failures: Refusals of the request and unusable answers to it so far.
        unanswered: How often the request was sent that the Helper may have processed.
        stored_bytes: The bytes of its reports' bodies, as of when it was read.
    """

    key: int
    task_id: bytes
    job_id: bytes
    state: AggregationJobState
    bucket: bytes
    request: bytes | None = dataclasses.field(repr=False)
    helper_location: str | None
    failures: int = 0
    unanswered: int = 0
    stored_bytes: int = 0


def create_aggregation_job(
    tx: Transaction,
    task_id: bytes,
    size: JobSize,
    *,
    only_full: bool = False,
    bucket: bytes = b"",
    of_one: bool = False,
) -> AggregationJob | None:
    """Claim reports for a new job; None if there are none, or too few for a full one if it must be.

    Args:
        tx: The transaction.
        task_id: The task.
        size: How much goes into the job.
        only_full: Whether the job must be full.
        bucket: Where its reports fall from then on (`selected_batches`); empty where each has a
            bucket of its own.
        of_one: Whether all its reports must be of one bucket, which they have.
    """
    locks.claim_waiting(tx, task_id)
    claimable = claimable_reports(tx, task_id, size, of_one=of_one)
    if not claimable.reports or (only_full and not claimable.is_full):
        return None
    job = _put_job(tx, task_id, bucket)
    claim_reports(tx, task_id, job.key, claimable, bucket)
    return job


def store_request(
    tx: Transaction,
    lease: Lease,
    request: bytes,
    rejected: Mapping[bytes, str],
    too_early: Collection[bytes] = (),
) -> None:
    """Store the exact request before it is sent, and take the reports that are not in it away.

    Args:
        tx: The transaction.
        lease: The lease on the job.
        request: The encoded AggregationJobInitReq, sent unchanged on every attempt.
        rejected: Reports that we rejected before sending, each with its reason.
        too_early: Reports whose time has not come: they wait for another job.

    Raises:
        LeaseLost: The lease is not ours any more, or a request is stored already.
    """
    task_id = _task_of(tx, lease.key)
    if too_early:
        locks.keep_batches(tx, task_id)
    digest = hashlib.sha256(request).digest()
    values = {"request": request, "request_sha256": digest, "unanswered": 1}
    AGGREGATION_JOBS.advance(tx, "store_request", lease, values)
    reject_reports(tx, task_id, lease.key, rejected)
    _postpone(tx, task_id, lease.key, too_early)


def _postpone(tx: Transaction, task_id: bytes, job: int, too_early: Collection[bytes]) -> None:
    postponed = postpone_reports(tx, job, too_early, TOO_EARLY_SECONDS)
    reject_late(tx, task_id, postponed)


def set_reports_aside(tx: Transaction, lease: Lease, groups: Mapping[int, int]) -> int:
    """Give back the reports of a job without a request whose bodies cannot be read; say how many.

    Args:
        tx: The transaction.
        lease: The lease on the job.
        groups: Their groups, as in `UnreadableBodies`.
    """
    task_id = _task_of(tx, lease.key)
    locks.keep_batches(tx, task_id)
    AGGREGATION_JOBS.write(tx, lease, {"request": None})
    aside = set_aside(tx, lease.key, groups)
    reject_late(tx, task_id, aside)
    return aside.total()


def reject_twins_of_job(tx: Transaction, lease: Lease) -> None:
    """Reject the reports of a job without a request whose id an earlier one has."""
    AGGREGATION_JOBS.write(tx, lease, {"request": None})
    reject_twins(tx, _task_of(tx, lease.key), lease.key)


def note_sending(tx: Transaction, lease: Lease) -> None:
    """Remember, before the stored request is sent once more, that it may be processed."""
    AGGREGATION_JOBS.count(tx, lease, "unanswered", 1)


def note_unprocessed(tx: Transaction, lease: Lease) -> None:
    """Take `note_sending` back: the Helper has surely not processed what was sent this time."""
    AGGREGATION_JOBS.count(tx, lease, "unanswered", -1)


def note_failure(tx: Transaction, lease: Lease) -> AggregationJob:
    """Count a refusal or an unusable answer; return the job as it is now."""
    AGGREGATION_JOBS.count(tx, lease, "failures", 1)
    return _get(tx, lease.key)


def forget_request(tx: Transaction, lease: Lease) -> None:
    """Take the job's request back, for a new one with the same reports.

    Raises:
        Conflict: The Helper may have processed the request: only the same bytes may follow it.
    """
    if _get(tx, lease.key).unanswered:
        raise tx.refuse(Conflict("the Helper may have processed the request"))
    _take_request_back(tx, lease)


def _take_request_back(tx: Transaction, lease: Lease) -> None:
    values = {
        "request": None,
        "request_sha256": None,
        "failures": 0,
        "unanswered": 0,
        "helper_location": None,
    }
    AGGREGATION_JOBS.advance(tx, "forget_request", lease, values)
    reject_given_up(tx, _task_of(tx, lease.key), lease.key)
    mark_asked(tx, lease.key)


def split_aggregation_job(tx: Transaction, lease: Lease) -> None:
    """Forget the request, which the Helper has not processed, and move half to a new job.

    Later jobs of the task are made no larger than its halves.

    Raises:
        Conflict: The job has a single report.
    """
    size = len(_get(tx, lease.key).request or b"")
    reports = reports_in_job(tx, lease.key)
    _take_request_back(tx, lease)
    job = _get(tx, lease.key)
    if reports_in_job(tx, job.key) <= 1 < reports:  # an operator has given the others up
        return
    _bound_jobs(tx, job.task_id, size // 2)
    other = _put_job(tx, job.task_id, job.bucket)
    move_half(tx, job.key, other.key)


def largest_job(tx: Transaction, task_id: bytes) -> int | None:
    """Return the most bytes that a request to the task's Helper has, if it has refused one."""
    found = tx.run(_LARGEST, {"of_task": task_id})
    largest: int | None = found[0][0] if found else None
    return largest


def _bound_jobs(tx: Transaction, task_id: bytes, size: int) -> None:
    task = tables.tasks.c
    is_larger = or_(task.largest_job.is_(None), task.largest_job > size)
    tx.connection.execute(
        update(tables.tasks).where(task.task_id == task_id, is_larger).values(largest_job=size)
    )


def _is_outgrown(bound: int | None, sent: int | None) -> bool:
    """Return whether the Helper has accepted a job that comes up to the bound of the task's jobs.

    A job of less than half of what it may be proves nothing. So the bound stays below twice the
    largest job that the Helper has accepted, and a Helper that still accepts no more refuses one
    job in dozens.
    """
    return bound is not None and sent is not None and 2 * sent > bound


def hold_aggregation_job(tx: Transaction, lease: Lease, reason: str) -> None:
    """Leave the job to an operator: it is no longer driven, and keeps its request and reports."""
    values = {"lease_token": None, "reason": reason}
    AGGREGATION_JOBS.advance(tx, "hold_aggregation_job", lease, values)


def store_job_location(tx: Transaction, lease: Lease, location: str | None) -> None:
    """Store where the Helper put the job, so that another driver can poll or delete it.

    Args:
        tx: The transaction.
        lease: The lease on the job.
        location: Its URL; None if the Helper has lost the job.
    """
    AGGREGATION_JOBS.write(tx, lease, {"helper_location": location})


def finish_aggregation_job(
    tx: Transaction,
    lease: Lease,
    aggregated: Sequence[bytes],
    rejected: Mapping[bytes, str],
    too_early: Collection[bytes] = (),
    *,
    lost: Collection[bytes] = (),
) -> None:
    """End the job, in the transaction in which the out shares of `aggregated` were added.

    The bodies are dropped and every report counted, but those that wait.

    Args:
        tx: The transaction.
        lease: The lease on the job.
        aggregated: Ids of the reports that were merged.
        rejected: Ids of others, each with its reason.
        too_early: Ids of those whose time has not come: they wait for another job.
        lost: Ids of more that are rejected, which an operator has given up.

    Raises:
        Conflict: The reports named are not exactly the job's.
    """
    ((task_id, bound, sent),) = tx.run(_SIZES, {"key": lease.key})
    if too_early:
        locks.keep_batches(tx, task_id)
    values = {"request": None, "reason": None}
    # Its ciphertexts are left in the bodies too, and a verifier share alone says nothing.
    with tx.backend.unscrubbed(tx.connection):
        AGGREGATION_JOBS.advance(tx, "finish_aggregation_job", lease, values, ends=True)
    named = [*aggregated, *rejected, *too_early, *lost]
    if too_early and sent is not None:
        mark_asked(tx, lease.key)
    _postpone(tx, task_id, lease.key, too_early)
    reject_reports(tx, task_id, lease.key, rejected)
    unreadable = ReportError.INVALID_MESSAGE.draft_name
    remember_rejected(tx, tx.task_key(task_id), lost)
    dropped = drop_reports(tx, task_id, lease.key)
    if len(set(named)) != len(named) or dropped != len(aggregated) + len(lost):
        raise tx.refuse(Conflict("an aggregation job must end with each of its reports named once"))
    ended = {AGGREGATED: len(aggregated), unreadable: len(lost)}
    counted = {why: reports for why, reports in ended.items() if reports}
    count_reports(tx, task_id, Stage.AGGREGATION, counted)
    if _is_outgrown(bound, sent):  # last, for others wait for the task's row
        more = bound + max(1, bound // GROWTH)
        tx.run(_GROWING, {"of_task": task_id, "bound": bound, "more": more})


def _put_job(tx: Transaction, task_id: bytes, bucket: bytes) -> AggregationJob:
    job_id = tx.random_id()
    row = {
        "task": tx.task_key(task_id),
        "job_id": job_id,
        "state": AggregationJobState.CREATED,
        "failures": 0,
        "unanswered": 0,
        "lease_expires_at": tx.now,
        "lease_set_at": tx.now,
        "lease_attempts": 0,
        "created_at": tx.now,
        "bucket": bucket or None,
    }
    ((key,),) = tx.run(_PUTTING, row)
    return AggregationJob(key, task_id, job_id, AggregationJobState.CREATED, bucket, None, None)


def _task_of(tx: Transaction, key: int) -> bytes:
    """Return the id of a job's task."""
    ((task_id,),) = tx.run(_TASK, {"key": key})
    return bytes(task_id)


_JOB = tables.aggregation_jobs
_PUTTING = insert(_JOB).returning(_JOB.c.id)
_TASK = (
    select(tables.tasks.c.task_id)
    .join(_JOB, tables.tasks.c.id == _JOB.c.task)
    .where(_JOB.c.id == bindparam("key"))
)
_GETTING = _TASK.add_columns(
    _JOB.c.job_id,
    _JOB.c.state,
    _JOB.c.bucket,
    _JOB.c.request,
    _JOB.c.helper_location,
    _JOB.c.failures,
    _JOB.c.unanswered,
    bytes_of_job(_JOB.c.task, _JOB.c.id),
)
_LARGEST = select(tables.tasks.c.largest_job).where(tables.tasks.c.task_id == bindparam("of_task"))
_SIZES = _TASK.add_columns(tables.tasks.c.largest_job, func.length(_JOB.c.request).label("sent"))
_GROWING = (
    update(tables.tasks)
    # Not if another job has changed it meanwhile.
    .where(
        tables.tasks.c.task_id == bindparam("of_task"),
        tables.tasks.c.largest_job == bindparam("bound"),
    )
    .values(largest_job=bindparam("more"))
)


def _get(tx: Transaction, key: int) -> AggregationJob:
    ((task_id, job_id, state, bucket, *rest),) = tx.run(_GETTING, {"key": key})
    return AggregationJob(key, task_id, job_id, AggregationJobState(state), bucket or b"", *rest)


AGGREGATION_JOBS = Jobs(
    "aggregation",
    tables.aggregation_jobs,
    _get,
    (AggregationJobState.CREATED, AggregationJobState.SENT),
    AGGREGATION_JOB,
)
"""Those that are not finished are driven."""
