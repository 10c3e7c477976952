"""The Leader's collection jobs: from the Collector's request to two sealed shares, once.

Two transactions make a release (`states.COLLECTION_JOB`):

1. `freeze_collection_job` closes the batch, reserves its cost and stores the exact request to the
   Helper. If killed after it, the Leader sends the same bytes again, and the Helper answers with
   the same sealed share.
2. `finish_collection_job` stores both sealed shares, turns the reservation into a charge, marks the
   batch collected and destroys our un-noised shares. If the Leader is killed before it, our noise
   was never stored or sent; if after it, every poll gets these bytes.

If the Helper refuses, `fail_collection_job` reopens the batch and cancels the reservation. Every
verb that takes a lease raises `LeaseLost` if it is not ours any more.
"""

import dataclasses
import hashlib

from sqlalchemy import ColumnElement, insert, select, update

from aggregator.dap.ids import BatchId
from aggregator.dap.times import Interval
from aggregator.errors import StoreError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches import closed as closed_batches
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.states import COLLECTION_JOB, CollectionJobState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.leases import Jobs, Lease
from aggregator.service.storage.ledger import charges as ledger
from aggregator.service.storage.ledger.charges import Charge
from aggregator.service.storage.reports.bound import give_up
from aggregator.service.storage.reports.waiting import waiting_in_batch

_UNFINISHED = (CollectionJobState.START, CollectionJobState.FROZEN)
_LIVE = (CollectionJobState.OPEN, *_UNFINISHED, CollectionJobState.FINISHED)


class BatchBusy(StoreError):
    """Stored reports of the batch are not aggregated yet."""


@dataclasses.dataclass(frozen=True, slots=True)
class CollectionResult:
    """A finished release: two noised shares, sealed to the Collector.

    Attributes:
        report_count: Reports in the batch.
        interval: The smallest interval that holds all reports.
        leader_share: Our share, an encoded HpkeCiphertext.
        helper_share: The Helper's share, likewise.
    """

    report_count: int
    interval: Interval
    leader_share: bytes = dataclasses.field(repr=False)
    helper_share: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class CollectionJob:
    """A collection job of the Leader.

    Attributes:
        key: Its key in the database.
        task_id: Its task, 32 bytes.
        job_id: The id in its URL, 16 bytes.
        request: The exact CollectionJobReq.
        batch: The batch that it asks for; None until the Leader has selected one, and of a failed
            job whose batch may be selected again.
        state: Where it is in its life.
        aggregate_share_request: The exact AggregateShareReq, once frozen.
        helper_location: Where the Helper put its share, if it said so.
        result: What the Collector gets, once finished.
        problem: The problem document of a failed job, JSON.
        created_at: Seconds.
        uploaded_at: When reports last came below it, in seconds, 0 before the first; None if none
            can.
    """

    key: int
    task_id: bytes
    job_id: bytes
    request: bytes = dataclasses.field(repr=False)
    batch: Batch | None
    state: CollectionJobState
    aggregate_share_request: bytes | None = dataclasses.field(repr=False)
    helper_location: str | None
    result: CollectionResult | None
    problem: str | None
    created_at: int
    uploaded_at: int | None = None


def is_job_named(tx: Transaction, job_id: bytes) -> bool:
    """Return whether a job of any task has or had this id."""
    job = tables.collection_jobs.c
    query = select(job.job_id).where(job.job_id == job_id)
    return tx.connection.execute(query).first() is not None


def create_collection_job(
    tx: Transaction,
    task_id: bytes,
    request: bytes,
    batch: Batch | None,
    job_id: bytes | None = None,
    *,
    opens: bool = False,
) -> CollectionJob:
    """Return the live job of exactly this request; make one if needed.

    A job that failed or was deleted is not live: its request makes a new one. Where the Collector
    names a job, the name alone tells it from others of the same request.

    Args:
        tx: The transaction.
        task_id: The task.
        request: The exact CollectionJobReq.
        batch: The batch that it asks for; None if `select_batch` is to select it.
        job_id: The id, if the Collector chose it; random by default.
        opens: Whether reports are uploaded below it, until `close_collection_job`.
    """
    found = find_collection_job(tx, task_id, request) if job_id is None else None
    if found is not None:
        return found
    job = tables.collection_jobs
    told_apart_by = b"" if job_id is None else job_id
    job_id = tx.random_id() if job_id is None else job_id
    tx.connection.execute(
        insert(job).values(
            task=tx.task_key(task_id),
            job_id=job_id,
            body_sha256=hashlib.sha256(told_apart_by + request).digest(),
            request=request,
            **({} if batch is None else _bounds(batch)),
            state=CollectionJobState.OPEN if opens else CollectionJobState.START,
            uploaded_at=0 if opens else None,
            lease_expires_at=tx.now,
            lease_set_at=tx.now,
            lease_attempts=0,
            created_at=tx.now,
        )
    )
    (made,) = _select(tx, job.c.job_id == job_id)
    return made


def find_collection_job(tx: Transaction, task_id: bytes, request: bytes) -> CollectionJob | None:
    """Return the live job of exactly this request, if any."""
    job = tables.collection_jobs.c
    found = _select(
        tx,
        job.task == tx.task_key(task_id),
        job.body_sha256 == hashlib.sha256(request).digest(),
        job.state.in_(_LIVE),
    )
    return found[0] if found else None


def get_collection_job(tx: Transaction, task_id: bytes, job_id: bytes) -> CollectionJob | None:
    """Return the task's job with this id, in any state."""
    job = tables.collection_jobs.c
    found = _select(tx, job.task == tx.task_key(task_id), job.job_id == job_id)
    return found[0] if found else None


def note_upload(tx: Transaction, task_id: bytes, job_id: bytes) -> None:
    """Remember that reports came below an open job; the same request makes another job now."""
    job = get_collection_job(tx, task_id, job_id)
    if job is not None and job.state is CollectionJobState.OPEN:
        digest = hashlib.sha256(job_id + job.request).digest()
        _write_open(tx, job.key, uploaded_at=tx.now, body_sha256=digest)


def close_collection_job(
    tx: Transaction, task_id: bytes, job_id: bytes, linger_seconds: int
) -> None:
    """Hand an open job to its drivers, if reports came below it, and none for `linger_seconds`."""
    locks.change_batches(tx, task_id)  # uploads for the batch are stored by now, or refused
    job = get_collection_job(tx, task_id, job_id)
    if job is not None and has_lingered(job, tx.now, linger_seconds):
        state = COLLECTION_JOB.transition("close_collection_job").target
        _write_open(tx, job.key, state=state, lease_expires_at=tx.now, lease_set_at=tx.now)


def has_lingered(job: CollectionJob, now: int, linger_seconds: int) -> bool:
    """Return whether an open job has reports below it, and none came for `linger_seconds`.

    A clock that is put back keeps no job open.
    """
    is_open, since = job.state is CollectionJobState.OPEN, job.uploaded_at
    return is_open and bool(since) and abs(now - (since or 0)) >= linger_seconds


def _write_open(tx: Transaction, key: int, **values: object) -> None:
    job = tables.collection_jobs
    is_open = (job.c.id == key, job.c.state == CollectionJobState.OPEN)
    tx.connection.execute(update(job).where(*is_open).values(**values))


def is_requested(tx: Transaction, task_id: bytes, batch: Batch) -> bool:
    """Return whether the Helper was asked for a share of the batch, or of a part of it.

    It may have released its share, whatever became of the job.
    """
    job = tables.collection_jobs.c
    was_asked = (job.task == tx.task_key(task_id), job.aggregate_share_request.is_not(None))
    query = select(job.id).where(
        *was_asked, job.first_bucket <= batch.last, job.last_bucket >= batch.first
    )
    if tx.connection.execute(query.limit(1)).scalar() is not None:
        return True
    if len(batch.first) != BatchId.size:
        return False
    # A job whose batch may be selected again has forgotten it, but for the id in its request.
    requests = select(job.aggregate_share_request).where(*was_asked, job.first_bucket.is_(None))
    return any(batch.first in each for each in tx.connection.execute(requests).scalars())


def note_refusal(tx: Transaction, lease: Lease) -> int:
    """Remember that the Helper refuses; return for how many seconds it has done so."""
    table = tables.collection_jobs
    query = select(table.c.refused_since).where(table.c.id == lease.key).with_for_update()
    found: int | None = tx.connection.execute(query).scalar()
    since = tx.now if found is None else found
    COLLECTION_JOBS.write(tx, lease, {"refused_since": since})
    return tx.now - since


def select_batch(tx: Transaction, lease: Lease, batch: Batch) -> None:
    """Give the job the batch that the Leader has selected for it, before it is frozen."""
    COLLECTION_JOBS.write(tx, lease, _bounds(batch))


def selected_batch(tx: Transaction, lease: Lease) -> Batch:
    """Return the batch of a job that is frozen, or about to be.

    Raises:
        Conflict: No batch is selected for it.
    """
    return _selected(tx, _get(tx, lease.key))


def freeze_collection_job(
    tx: Transaction, lease: Lease, aggregate_share_request: bytes, charge: Charge
) -> None:
    """First transaction of a release: close the batch, reserve its cost, store the request.

    Before that, in the same transaction, check the size of the batch and the budget.

    Args:
        tx: The transaction.
        lease: The lease on the job.
        aggregate_share_request: The exact AggregateShareReq, sent unchanged on every attempt.
        charge: What the release will cost.

    Raises:
        BatchClosed: A part of the batch is being collected or was.
        BatchBusy: Stored reports of the batch are not aggregated yet.
    """
    job = _get(tx, lease.key)
    locks.change_batches(tx, job.task_id)  # uploads for the batch are stored by now, or refused
    values = {"aggregate_share_request": aggregate_share_request, "reason": None}
    COLLECTION_JOBS.advance(tx, "freeze_collection_job", lease, values)
    job = _get(tx, lease.key)
    batch = _selected(tx, job)
    waiting = waiting_in_batch(tx, job.task_id, batch)
    if waiting:
        raise tx.refuse(BatchBusy(f"{waiting} reports of the batch are not aggregated yet"))
    closed_batches.freeze(tx, job.task_id, batch)
    ledger.reserve(tx, job.task_id, batch, charge)


def store_share_location(tx: Transaction, lease: Lease, location: str | None) -> None:
    """Store where the Helper put its share, so that another driver can poll it.

    Args:
        tx: The transaction.
        lease: The lease on the job.
        location: Its URL; None if the Helper no longer has it.
    """
    COLLECTION_JOBS.write(tx, lease, {"helper_location": location})


def finish_collection_job(tx: Transaction, lease: Lease, result: CollectionResult) -> None:
    """Second transaction of a release: store both shares, charge, mark collected, destroy.

    Raises:
        LeaseLost: The lease is not ours any more; `result` must be thrown away.
    """
    values = {
        "report_count": result.report_count,
        "interval_start": result.interval.start.units,
        "interval_end": result.interval.end.units,
        "leader_share": result.leader_share,
        "helper_share": result.helper_share,
    }
    job = _get(tx, lease.key)
    locks.change_batches(tx, job.task_id)
    COLLECTION_JOBS.advance(tx, "finish_collection_job", lease, values, ends=True)
    batch = _selected(tx, job)
    closed_batches.mark_collected(tx, job.task_id, batch)
    ledger.settle(tx, job.task_id, batch, hashlib.sha256(result.leader_share).digest())


def fail_collection_job(tx: Transaction, lease: Lease, problem: str) -> None:
    """End the job with a problem document, JSON; a frozen batch reopens and costs nothing.

    If the Helper has released its share after all, nobody has ours, and the same request brings the
    same share again. A batch that its Collector selected is dropped, and its reports are free.
    """
    locks.change_batches(tx, _get(tx, lease.key).task_id)
    job = _get(tx, lease.key)
    COLLECTION_JOBS.advance(tx, "fail_collection_job", lease, {"problem": problem}, ends=True)
    if job.state is CollectionJobState.FROZEN:
        batch = _selected(tx, job)
        closed_batches.unfreeze(tx, job.task_id, batch)
        ledger.cancel(tx, job.task_id, batch)
    _drop(tx, job)


def delete_collection_job(tx: Transaction, task_id: bytes, job_id: bytes) -> bool:
    """Forget the job's result, which the Collector has saved or does not want.

    The batch of a finished job stays collected. So does that of a frozen job, and its cost is
    charged: the Helper may have released it. A batch that its Collector selected is dropped if it
    was neither, and its reports are free.

    Returns:
        Whether there was such a job.
    """
    locks.change_batches(tx, task_id)  # the job's state changes under this lock only
    job = get_collection_job(tx, task_id, job_id)
    transition = COLLECTION_JOB.transition("delete_collection_job")
    if job is None or job.state not in transition.sources:
        return False
    table = tables.collection_jobs
    tx.connection.execute(
        update(table)
        .where(table.c.id == job.key)
        .values(
            state=transition.target,
            lease_token=None,
            ended_at=tx.now,
            leader_share=None,
            helper_share=None,
        )
    )
    if job.state is CollectionJobState.FROZEN:
        batch = _selected(tx, job)
        closed_batches.mark_collected(tx, task_id, batch)
        ledger.settle(tx, task_id, batch)
    _drop(tx, job)
    return True


def _drop(tx: Transaction, job: CollectionJob) -> None:
    """Drop the batch of a job that has ended, unless it was released or may have been."""
    if job.uploaded_at is not None and job.batch is not None:
        give_up(tx, job.task_id, job.batch)


def _selected(tx: Transaction, job: CollectionJob) -> Batch:
    if job.batch is None:
        raise tx.refuse(Conflict("no batch is selected for the collection job"))
    return job.batch


def _bounds(batch: Batch) -> dict[str, bytes]:
    return {"first_bucket": batch.first, "last_bucket": batch.last}


def _get(tx: Transaction, key: int) -> CollectionJob:
    (job,) = _select(tx, tables.collection_jobs.c.id == key)
    return job


def _select(tx: Transaction, *conditions: ColumnElement[bool]) -> list[CollectionJob]:
    table = tables.collection_jobs
    query = (
        select(tables.tasks.c.task_id, table)
        .join(tables.tasks, tables.tasks.c.id == table.c.task)
        .where(*conditions)
        .order_by(table.c.id)
    )
    return [
        CollectionJob(
            key=row.id,
            task_id=row.task_id,
            job_id=row.job_id,
            request=row.request,
            batch=None if row.first_bucket is None else Batch(row.first_bucket, row.last_bucket),
            state=CollectionJobState(row.state),
            aggregate_share_request=row.aggregate_share_request,
            helper_location=row.helper_location,
            result=None
            if row.leader_share is None
            else CollectionResult(
                row.report_count,
                Interval.of(row.interval_start, row.interval_end - row.interval_start),
                row.leader_share,
                row.helper_share,
            ),
            problem=row.problem,
            created_at=row.created_at,
            uploaded_at=row.uploaded_at,
        )
        for row in tx.connection.execute(query)
    ]


COLLECTION_JOBS = Jobs(
    "collection",
    tables.collection_jobs,
    _get,
    _UNFINISHED,
    COLLECTION_JOB,
    forgotten_by_progress=("refused_since",),
)
"""Those that have not ended are driven."""
