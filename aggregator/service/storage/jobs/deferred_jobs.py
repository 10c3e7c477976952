"""Aggregation jobs that the Helper answers later: its front stores them, a worker answers them.

A row has the exact request and a lease. It leaves in the transaction that stores the answer, which
checks the lease, so a job is answered once however many workers lease it. It keeps its id, and so
its Leader asks for it at the same place. A job is looked for here first: if it leaves a moment
later, it is among the answers.
"""

import dataclasses
import hashlib

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, insert, select

from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.states import ANSWERED_JOB
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.answered_jobs import (
    AnsweredJob,
    delete_answered_job,
    find_answered_job,
    get_answered_job,
)
from aggregator.service.storage.jobs.answered_jobs import is_job_named as is_answered_job_named
from aggregator.service.storage.jobs.leases import Jobs, Lease, LeaseLost


@dataclasses.dataclass(frozen=True, slots=True)
class DeferredJob:
    """A job that waits for its answer: its task, and the id in its resource's URL."""

    task_id: bytes
    job_id: bytes


def find_job(
    tx: Transaction, task_id: bytes, body_sha256: bytes
) -> DeferredJob | AnsweredJob | None:
    """Return the job of the request with this digest, whether answered or not, if there is one."""
    return _find(tx, task_id, _BY_REQUEST, body_sha256) or find_answered_job(
        tx, task_id, body_sha256
    )


def get_job(tx: Transaction, task_id: bytes, job_id: bytes) -> DeferredJob | AnsweredJob | None:
    """Return the job with this id, whether answered or not, if there is one."""
    return _find(tx, task_id, _BY_ID, job_id) or get_answered_job(tx, task_id, job_id)


def is_job_named(tx: Transaction, job_id: bytes) -> bool:
    """Return whether a job of any task has or had this id."""
    job = tables.deferred_jobs.c
    named = select(job.id).where(job.job_id == job_id)
    return tx.connection.execute(named).first() is not None or is_answered_job_named(tx, job_id)


def has_room(tx: Transaction, task_id: bytes, size: int, most: int) -> bool:
    """Return whether a request of `size` bytes may wait as well, of `most` bytes of its task.

    A task that has none may always have one. Nobody else adds to them until the transaction ends.
    """
    locks.defer_jobs(tx, task_id)
    job = tables.deferred_jobs.c
    query = select(func.coalesce(func.sum(job.size), 0)).where(job.task == tx.task_key(task_id))
    waiting = int(tx.connection.execute(query).scalar_one())
    return not waiting or waiting + size <= most


def put_deferred_job(
    tx: Transaction, task_id: bytes, request: bytes, job_id: bytes | None = None
) -> DeferredJob:
    """Store a request that is to be answered later.

    Args:
        tx: The transaction.
        task_id: The task.
        request: The exact request.
        job_id: The id, if the Leader chose it; random by default.

    Raises:
        Conflict: It was stored in the meantime; where that can be, the transaction is run again
            and finds it.
    """
    stored = DeferredJob(task_id, tx.random_id() if job_id is None else job_id)
    tx.connection.execute(
        insert(tables.deferred_jobs).values(
            task=tx.task_key(task_id),
            job_id=stored.job_id,
            body_sha256=hashlib.sha256(request).digest(),
            size=len(request),
            lease_expires_at=tx.now,
            lease_set_at=tx.now,
            lease_attempts=0,
            created_at=tx.now,
            request=request,
        )
    )
    return stored


def read_request(tx: Transaction, lease: Lease) -> bytes:
    """Return the leased job's request.

    Raises:
        LeaseLost: The lease is not ours any more.
    """
    query = select(tables.deferred_jobs.c.request).where(*_held(lease))
    found: bytes | None = tx.connection.execute(query).scalar()
    if found is None:
        raise _lost(lease)
    return found


def end_deferred_job(tx: Transaction, lease: Lease) -> None:
    """Delete the leased job's row, in the transaction that stores its answer.

    Raises:
        LeaseLost: The lease is not ours any more.
    """
    if tx.connection.execute(delete(tables.deferred_jobs).where(*_held(lease))).rowcount != 1:
        raise tx.refuse(_lost(lease))


def delete_job(tx: Transaction, task_id: bytes, job_id: bytes) -> bool:
    """Forget a job: one that waits is not answered any more, of another the reports stay counted.

    Returns:
        Whether there was such a job.
    """
    job, task = tables.deferred_jobs, tx.task_key(task_id)
    place = (job.c.task == task, job.c.job_id == job_id)
    digest = tx.connection.execute(select(job.c.body_sha256).where(*place)).scalar()
    if digest is None or tx.connection.execute(delete(job).where(*place)).rowcount != 1:
        return delete_answered_job(tx, task_id, job_id)
    tx.connection.execute(  # by which its name stays in use
        insert(tables.answered_jobs).values(
            task=task,
            body_sha256=digest,
            job_id=job_id,
            state=ANSWERED_JOB.transition("delete_deferred_job").target,
            created_at=tx.now,
        )
    )
    return True


def _find(
    tx: Transaction, task_id: bytes, query: Select[tuple[bytes]], wanted: bytes
) -> DeferredJob | None:
    rows = tx.run(query, {"task": tx.task_key(task_id), "wanted": wanted})
    return DeferredJob(task_id, rows[0][0]) if rows else None


def _get(tx: Transaction, key: int) -> DeferredJob:
    ((task_id, job_id),) = tx.run(_BY_KEY, {"key": key})
    return DeferredJob(task_id, job_id)


_JOB = tables.deferred_jobs.c
_BY_KEY = (
    select(tables.tasks.c.task_id, _JOB.job_id)
    .join(tables.tasks, tables.tasks.c.id == _JOB.task)
    .where(_JOB.id == bindparam("key"))
)
_OF_TASK = select(_JOB.job_id).where(_JOB.task == bindparam("task"))
_BY_REQUEST = _OF_TASK.where(_JOB.body_sha256 == bindparam("wanted"))
_BY_ID = _OF_TASK.where(_JOB.job_id == bindparam("wanted"))


def _held(lease: Lease) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    job = tables.deferred_jobs.c
    return job.id == lease.key, job.lease_token == lease.token


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(f"the lease on deferred job {lease.key} was lost")


DEFERRED_JOBS = Jobs("deferred", tables.deferred_jobs, _get)
