"""The Helper's answered requests: the same request gets the same bytes.

A request is known by its task, kind and SHA-256. Its answer is stored in the transaction that
accumulates its out shares, so either the reports are counted and the answer is kept, or neither.
"""

import dataclasses
from enum import StrEnum

from sqlalchemy import ColumnElement, func, insert, select, update

from aggregator.errors import ParameterError
from aggregator.storage import tables
from aggregator.storage.database import Transaction
from aggregator.storage.engine import Conflict
from aggregator.storage.states import HELPER_REQUEST, ResourceState

_ID_SIZE = 16


class RequestKind(StrEnum):
    """Which resource a request makes."""

    AGGREGATION_JOB = "aggregation_job"


@dataclasses.dataclass(frozen=True, slots=True)
class HelperRequest:
    """An answered request.

    Attributes:
        request_id: The id in the resource's URL, 16 bytes.
        generation: How many requests with the same bytes were deleted before it.
        response: The exact response, or None if the answer is a problem.
        problem: The problem document, JSON, or None.
    """

    request_id: bytes
    generation: int
    response: bytes | None = dataclasses.field(repr=False)
    problem: str | None


def find_request(
    tx: Transaction, task_id: bytes, kind: RequestKind, body_sha256: bytes
) -> HelperRequest | None:
    """Return the live answer to the request with this digest, if there is one."""
    request = tables.helper_requests.c
    return _find(tx, task_id, kind, request.body_sha256 == body_sha256)


def get_request(
    tx: Transaction, task_id: bytes, kind: RequestKind, request_id: bytes
) -> HelperRequest | None:
    """Return the live answer with this id, if there is one."""
    return _find(tx, task_id, kind, tables.helper_requests.c.request_id == request_id)


def put_request(
    tx: Transaction,
    task_id: bytes,
    kind: RequestKind,
    body_sha256: bytes,
    *,
    verify_key_id: int,
    response: bytes | None = None,
    problem: str | None = None,
) -> HelperRequest:
    """Store the answer to a request, in the transaction that does what it asks.

    Args:
        tx: The transaction.
        task_id: The task.
        kind: Which resource the request makes.
        body_sha256: SHA-256 of the exact request.
        verify_key_id: The verification key that its reports were verified under.
        response: The exact response.
        problem: A problem document, JSON, instead.

    Raises:
        Conflict: It was answered in the meantime; the transaction must be given up.
    """
    if (response is None) == (problem is None):
        raise ParameterError("an answer is either a response or a problem")
    if find_request(tx, task_id, kind, body_sha256) is not None:
        raise tx.refuse(Conflict("the request was answered already"))
    request = tables.helper_requests
    task = tx.task_key(task_id)
    earlier = select(func.count()).where(
        request.c.task == task, request.c.kind == kind, request.c.body_sha256 == body_sha256
    )
    stored = HelperRequest(
        tx.entropy.bytes(_ID_SIZE), tx.connection.execute(earlier).scalar_one(), response, problem
    )
    tx.connection.execute(
        insert(request).values(
            task=task,
            kind=kind,
            body_sha256=body_sha256,
            generation=stored.generation,
            request_id=stored.request_id,
            state=ResourceState.LIVE,
            verify_key_id=verify_key_id,
            response=response,
            problem=problem,
            created_at=tx.now,
        )
    )
    return stored


def delete_request(tx: Transaction, task_id: bytes, kind: RequestKind, request_id: bytes) -> bool:
    """Forget an answer; its reports stay counted, so the same request again finds replays.

    Returns:
        Whether there was such a live answer.
    """
    request = tables.helper_requests
    transition = HELPER_REQUEST.transition("delete_request")
    statement = (
        update(request)
        .where(
            request.c.task == tx.task_key(task_id),
            request.c.kind == kind,
            request.c.request_id == request_id,
            request.c.state.in_(transition.sources),
        )
        .values(state=transition.target, response=None)
    )
    return tx.connection.execute(statement).rowcount == 1


def _find(
    tx: Transaction, task_id: bytes, kind: RequestKind, condition: ColumnElement[bool]
) -> HelperRequest | None:
    request = tables.helper_requests.c
    query = select(request.request_id, request.generation, request.response, request.problem).where(
        request.task == tx.task_key(task_id),
        request.kind == kind,
        request.state == ResourceState.LIVE,
        condition,
    )
    row = tx.connection.execute(query).one_or_none()
    return None if row is None else HelperRequest(*row)
