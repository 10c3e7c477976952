"""The Helper's answered aggregation jobs: the same request gets the same bytes.

A request is identified by its task and its SHA-256. Its answer is stored in the transaction that
adds its out shares, so either the reports are counted and the answer is kept, or neither.
"""

import dataclasses
from typing import TypeAlias

from sqlalchemy import Select, bindparam, insert, select, update

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.states import ANSWERED_JOB, ResourceState
from aggregator.service.storage.engine.transaction import Transaction

_Query: TypeAlias = Select[tuple[bytes, bytes]]


@dataclasses.dataclass(frozen=True, slots=True)
class AnsweredJob:
    """An answered request.

    Attributes:
        job_id: The id in the resource's URL, 16 bytes.
        response: The exact AggregationJobResp.
    """

    job_id: bytes
    response: bytes = dataclasses.field(repr=False)


def find_answered_job(tx: Transaction, task_id: bytes, body_sha256: bytes) -> AnsweredJob | None:
    """Return the live answer to the request with this digest, if any."""
    return _find(tx, task_id, _BY_REQUEST, body_sha256)


def get_answered_job(tx: Transaction, task_id: bytes, job_id: bytes) -> AnsweredJob | None:
    """Return the live answer with this id, if any."""
    return _find(tx, task_id, _BY_ID, job_id)


def is_job_named(tx: Transaction, job_id: bytes) -> bool:
    """Return whether a job of any task has or had this id."""
    job = tables.answered_jobs.c
    query = select(job.job_id).where(job.job_id == job_id)
    return tx.connection.execute(query).first() is not None


def put_answered_job(
    tx: Transaction,
    task_id: bytes,
    body_sha256: bytes,
    response: bytes,
    job_id: bytes | None = None,
) -> AnsweredJob:
    """Store the answer to a request in the transaction that does the work.

    Args:
        tx: The transaction.
        task_id: The task.
        body_sha256: SHA-256 of the exact request.
        response: The exact response.
        job_id: The id, if the Leader chose it; random by default.

    Raises:
        Conflict: It was answered in the meantime; where that can be, the transaction is run again
            and finds the answer.
    """
    stored = AnsweredJob(tx.random_id() if job_id is None else job_id, response)
    row = {
        "task": tx.task_key(task_id),
        "body_sha256": body_sha256,
        "job_id": stored.job_id,
        "state": ResourceState.LIVE,
        "response": response,
        "created_at": tx.now,
    }
    tx.run(_PUTTING, row)
    return stored


def delete_answered_job(tx: Transaction, task_id: bytes, job_id: bytes) -> bool:
    """Forget an answer; its reports stay counted, so the same request is a replay from now on.

    Returns:
        Whether there was such a live answer.
    """
    job = tables.answered_jobs
    transition = ANSWERED_JOB.transition("delete_answered_job")
    statement = (
        update(job)
        .where(
            job.c.task == tx.task_key(task_id),
            job.c.job_id == job_id,
            job.c.state.in_(transition.sources),
        )
        .values(state=transition.target, response=None)
    )
    return tx.connection.execute(statement).rowcount == 1


def _find(tx: Transaction, task_id: bytes, query: _Query, wanted: bytes) -> AnsweredJob | None:
    rows = tx.run(query, {"task": tx.task_key(task_id), "wanted": wanted})
    return AnsweredJob(*rows[0]) if rows else None


_JOB = tables.answered_jobs.c
_PUTTING = insert(tables.answered_jobs)
_LIVE = select(_JOB.job_id, _JOB.response).where(
    _JOB.task == bindparam("task"), _JOB.state == ResourceState.LIVE
)
_BY_REQUEST = _LIVE.where(_JOB.body_sha256 == bindparam("wanted"))
_BY_ID = _LIVE.where(_JOB.job_id == bindparam("wanted"))
