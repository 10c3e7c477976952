"""Turns request bodies into messages and messages into responses, by media type.

The routes come from the table in `dap.resources`, so exactly those resources are served.
"""

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from functools import lru_cache
from typing import ClassVar, Protocol, TypeVar

import structlog
from fastapi import APIRouter, Request, Response, status

from aggregator.codec import Message, encode
from aggregator.dap.ids import Identifier, TaskId
from aggregator.dap.problems import MessageTooLarge, UnrecognizedTask, UnsupportedMediaType
from aggregator.dap.profile import Role
from aggregator.dap.resources import Resource, media_type, message_of, resources_of
from aggregator.errors import Abort
from aggregator.service.telemetry.tracing import SpanKind, note, read_traceparent, span
from aggregator.service.web import body_budget

MAX_SHORT_MESSAGE = 128 * 2**10
"""The most bytes of a request without reports, which has a few numbers and two extension lists."""

I = TypeVar("I", bound=Identifier)  # noqa: E741 - an identifier
Handler = Callable[[Request], Awaitable[Response]]


class NamedMessage(Message, Protocol):
    """A message that is a whole body, and so has a media type."""

    message: ClassVar[str]


def dap_router(role: Role, handlers: Mapping[tuple[str, str], Handler]) -> APIRouter:
    """Return a router that serves every resource of `role`.

    Args:
        role: LEADER or HELPER.
        handlers: The handler of each method of each resource, by method and resource name.

    Raises:
        KeyError: A resource of the role has no handler.
    """
    router = APIRouter()
    for resource in resources_of(role):
        router.add_api_route(
            resource.template,
            recorded(resource, handlers[resource.method, resource.name]),
            methods=[*resource.methods],
            name=f"{resource.method} {resource.name}",
            include_in_schema=False,
        )
    return router


def recorded(resource: Resource, handler: Handler) -> Handler:
    """Return a handler that records a span for each request of a known party.

    Public resources have none: a span for each upload would be a span for each person.
    """
    if resource.caller is None:
        return handler

    async def record(request: Request) -> Response:
        parent = read_traceparent(request.headers.get("traceparent"))
        http = {"http.request.method": resource.method, "http.route": resource.template}
        with span(f"{resource.method} {resource.template}", SpanKind.SERVER, parent, http):
            response = await handler(request)
            note({"http.response.status_code": response.status_code})
            return response

    return record


async def read_body(request: Request, message: str, limit: int) -> bytes:
    """Return the body of a request that must carry the given message.

    Args:
        request: The request.
        message: The message's name in the media type.
        limit: The most bytes that the body may have; no more are ever held.

    Raises:
        UnsupportedMediaType: The request declares another media type, or a content coding.
        MessageTooLarge: The body is longer than the limit.
    """
    if message_of(request.headers.get("content-type")) != message:
        raise UnsupportedMediaType(f"the media type must be {media_type(message)}")
    return await read_bytes(request, limit)


def is_plainly(
    message: str, headers: Iterable[tuple[bytes, bytes]], without: Container[bytes]
) -> bool:
    """Return whether a request declares a message in the words of `media_type`, and no coding.

    If not, that says nothing: `read_body` understands other words, too.

    Args:
        message: The message's name in the media type.
        headers: The request's, with names in lower case.
        without: Names of headers that it must not have either.
    """
    declared = None
    for name, value in headers:
        if name == b"content-type" and declared is None:
            declared = value
        elif name in (b"content-type", b"content-encoding") or name in without:
            return False
    return declared == _media_type(message)


@lru_cache(maxsize=64)
def _media_type(message: str) -> bytes:
    return media_type(message).encode()


async def read_bytes(request: Request, limit: int) -> bytes:
    """Return the body of a request of any media type.

    Raises:
        UnsupportedMediaType: The body is compressed, or coded in another way.
        MessageTooLarge: The body is longer than the limit.
        TooManyRequests: There is no room for it now.
        BodyTooSlow: It comes too slowly.
    """
    codings = ",".join(request.headers.getlist("content-encoding")).split(",")
    if {each.strip().lower() for each in codings} - {"", "identity"}:
        raise UnsupportedMediaType("content-encoding: the body must come as it is (identity)")
    declared = request.headers.get("content-length", "").lstrip("0")
    # Compared as text, because Python refuses to parse thousands of digits.
    is_number = declared.isascii() and declared.isdigit()
    if is_number and (len(declared), declared) > (len(str(limit)), str(limit)):
        raise MessageTooLarge(f"the body may have {limit} bytes")
    return await body_budget.read_body(request, limit)


def task_id_of(request: Request) -> TaskId:
    """Return the task that the request's path names, and remember it for a problem document.

    Raises:
        UnrecognizedTask: The path holds no task identifier.
    """
    text = request.path_params["task_id"]  # as `str(task_id)`: there is one for each id
    try:
        task_id = parsed_task_id(text)
    except Abort as error:
        raise UnrecognizedTask("the path holds no task identifier") from error
    request.scope["dap_task_id"] = task_id
    structlog.contextvars.bind_contextvars(task=text)
    note(task=text)
    return task_id


@lru_cache(maxsize=1024)
def parsed_task_id(text: str) -> TaskId:
    """Return the task that a path names, or raise `Abort`."""
    return TaskId.parse(text)


def id_of(request: Request, kind: type[I], name: str, unknown: type[Abort]) -> I:
    """Return the identifier `name` of the request's path, or raise `unknown`."""
    try:
        return kind.parse(request.path_params[name])
    except Abort as error:
        raise unknown(f"the path holds no {kind.__name__}") from error


def message_response(
    message: str,
    body: bytes,
    *,
    created: str | None = None,
    status_code: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an answer with a message, or with an empty body in the message's media type.

    Args:
        message: The message's name in the media type.
        body: The encoded message.
        created: The path of the resource that the request created or found.
        status_code: The status, if not the default: 201 with `created`, otherwise 200.
        headers: Further headers.
    """
    location = {} if created is None else {"Location": created}
    usual = status.HTTP_200_OK if created is None else status.HTTP_201_CREATED
    return Response(
        body,
        status_code=usual if status_code is None else status_code,
        media_type=media_type(message),
        headers={**location, **(headers or {})},
    )


def deferred_response(retry_after: int, *, created: str | None) -> Response:
    """Return the success without a body that asks the peer to retry in `retry_after` seconds."""
    location = {} if created is None else {"Location": created}
    return Response(
        status_code=status.HTTP_202_ACCEPTED if created is None else status.HTTP_201_CREATED,
        headers={"Retry-After": str(retry_after), **location},
    )


def empty_response() -> Response:
    """Return a success without a body."""
    return Response(status_code=status.HTTP_200_OK)


def encoded_response(message: NamedMessage, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer that carries `message`."""
    return message_response(type(message).message, encode(message), headers=headers)
