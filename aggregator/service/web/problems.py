"""Turns exceptions into problem documents; the only place that knows status codes.

Source: RFC 9457; DAP, "Errors".
"""

import json
from collections.abc import Mapping

from fastapi import Response, status

from aggregator.dap import problems
from aggregator.dap.ids import TaskId
from aggregator.dap.problems import OWN_NAMESPACE, Problem, as_problem, problem_document
from aggregator.errors import Abort
from aggregator.service.web.body_budget import BodyTooSlow

PROBLEM_MEDIA_TYPE = "application/problem+json"

_STATUSES: Mapping[type[Problem], int] = {
    problems.UnrecognizedTask: status.HTTP_404_NOT_FOUND,
    problems.UnrecognizedAggregationJob: status.HTTP_404_NOT_FOUND,
    problems.UnrecognizedCollectionJob: status.HTTP_404_NOT_FOUND,
    problems.UnrecognizedAggregateShare: status.HTTP_404_NOT_FOUND,
    problems.Unauthorized: status.HTTP_401_UNAUTHORIZED,
    problems.BudgetExceeded: status.HTTP_403_FORBIDDEN,
    problems.NotNamedByCaller: status.HTTP_405_METHOD_NOT_ALLOWED,
    problems.NameTaken: status.HTTP_409_CONFLICT,
    problems.MessageTooLarge: 413,  # its name depends on the version of starlette
    problems.UnsupportedMediaType: status.HTTP_415_UNSUPPORTED_MEDIA_TYPE,
    problems.TooManyRequests: status.HTTP_429_TOO_MANY_REQUESTS,
    problems.TooManyCollections: status.HTTP_429_TOO_MANY_REQUESTS,
    problems.BatchNotOver: status.HTTP_429_TOO_MANY_REQUESTS,
    BodyTooSlow: status.HTTP_408_REQUEST_TIMEOUT,
}
"""Every other problem is for the peer to fix: 400."""


def abort_response(abort: Abort, task_id: TaskId | None = None) -> Response:
    """Return the answer to a request that the peer must change or authenticate."""
    problem = as_problem(abort)
    code = _STATUSES.get(type(problem), status.HTTP_400_BAD_REQUEST)
    headers: dict[str, str] = {}
    if code == status.HTTP_401_UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    return _response(problem_document(problem, task_id), code, headers)


def stored_problem_response(document: str) -> Response:
    """Return the stored problem with which a job failed.

    Its type may come from the helper's answer to us, such as that our token was wrong. The status
    that fits that type would make the collector think of its own request.
    """
    members = json.loads(document)
    is_spent = members.get("type") == problems.BudgetExceeded.type_uri
    code = status.HTTP_403_FORBIDDEN if is_spent else status.HTTP_400_BAD_REQUEST
    return _response(members, code, {})


def http_error_response(
    code: int, title: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer to what HTTP itself refuses, such as an unknown path."""
    return _response({"type": "about:blank", "title": title}, code, headers or {})


def busy_response(retry_after: int = 1) -> Response:
    """Return the answer if our store cannot take more now, and nothing was done.

    Args:
        retry_after: In how many seconds the peer may retry.
    """
    title = problems.TooManyRequests.title
    return _response(
        {"type": "about:blank", "title": title},
        status.HTTP_503_SERVICE_UNAVAILABLE,
        {"Retry-After": str(retry_after)},
    )


def cut_off_response() -> Response:
    """Return the answer to a peer that left in the middle of its request, for the log only."""
    return _response(
        {"type": "about:blank", "title": "The request was cut off"},
        status.HTTP_400_BAD_REQUEST,
        {},
    )


def internal_error_response() -> Response:
    """Return the answer to a request that failed through our own fault, without any detail."""
    return _response(
        {"type": OWN_NAMESPACE + "internal-error", "title": "The server failed"},
        status.HTTP_500_INTERNAL_SERVER_ERROR,
        {},
    )


def _response(document: dict[str, object], code: int, headers: Mapping[str, str]) -> Response:
    return Response(
        json.dumps(document | {"status": code}),
        status_code=code,
        media_type=PROBLEM_MEDIA_TYPE,
        headers=dict(headers),
    )
