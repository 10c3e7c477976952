"""The application around the routes: a problem document per failure, a log line per request.

Handlers take the raw request and answer with bytes, because DAP's bodies are not JSON.
"""

import asyncio
import logging
import math
import re
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final

import structlog
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import Histogram
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.status import HTTP_200_OK, HTTP_202_ACCEPTED, HTTP_404_NOT_FOUND
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

import aggregator
from aggregator.dap.problems import InvalidMessage
from aggregator.dap.resources import Resource
from aggregator.errors import Abort
from aggregator.failures import let_go
from aggregator.service.config import ANSWER_SECONDS, MAX_BYTES_IN_FLIGHT
from aggregator.service.storage.engine.backends import Busy, Damaged, DiskFull, Unreachable
from aggregator.service.storage.ledger.journal import JournalError
from aggregator.service.storage.reports.id_memory import IdsForgotten
from aggregator.service.storage.secrets.key_file import KeyGone, KeysMissing
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.metrics import REQUEST_SECONDS
from aggregator.service.telemetry.tracing import new_trace_id, read_traceparent
from aggregator.service.web.at_once import BEGAN, AtOnce, WholeRequest, takes_at_once
from aggregator.service.web.below_path import BelowPath, Paths
from aggregator.service.web.body_budget import SCOPE_KEY, BodyBudget
from aggregator.service.web.fast_route import IS_TOLD_TOGETHER, FastRoute, Handler, OnError
from aggregator.service.web.plain_paths import is_plain
from aggregator.service.web.problems import (
    abort_response,
    busy_response,
    cut_off_response,
    http_error_response,
    internal_error_response,
)
from aggregator.service.web.time_limit import TimeLimit

MONITORING_PATHS = ("/health", "/metrics", "/healthz", "/readyz")

_REFUSAL = "prio.refusal"
"""The key in a request's scope of what its log line says of why it was refused."""

LONGEST_PATH = 200
"""The most characters of a path in the log, which a stranger could fill by the gigabyte: ours have
some 120, and those of the endpoint that they are served below."""

FULL_DISK_SECONDS = 60
"""How soon a peer is asked to retry if our disk is full."""

UNREACHABLE_SECONDS = 5
"""How soon, if the store's server cannot be reached or the journal of releases cannot be used."""


def create_app(
    title: str,
    routers: Iterable[APIRouter],
    max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT,
    answer_seconds: float = ANSWER_SECONDS,
    fast_routes: Mapping[Resource, Handler] = MappingProxyType({}),
    at_once: Mapping[Resource, AtOnce] = MappingProxyType({}),
    below: tuple[Iterable[Resource], Paths] | None = None,
    on_http_error: OnError | None = None,
) -> FastAPI:
    """Return an application that serves `routers` and answers errors with problem documents.

    Args:
        title: Its name.
        routers: What it serves.
        max_bytes_in_flight: The most bytes of all requests' bodies together.
        answer_seconds: How long a request may wait for its answer once it has been received.
        fast_routes: Resources that are answered without the framework's layers.
        at_once: What takes requests for some of these resources without a task of their own.
        below: Resources that are also served below other paths, and a function that returns these.
        on_http_error: Answers what HTTP itself refuses, if not by a problem document.
    """
    app = _App(
        title=title,
        version=aggregator.__version__,
        openapi_url=None,
        redirect_slashes=False,
        # The framework's own telemetry would record the messages of exceptions.
        telemetry={"logs": False, "metrics": False, "tracing": False},
    )
    for router in routers:
        app.include_router(router)
    handlers = dict(_ON) if on_http_error is None else {**_ON, HTTPException: on_http_error}
    answering = {kind: partial(_answer, handler) for kind, handler in handlers.items()}
    for kind, answer in answering.items():
        app.add_exception_handler(kind, answer)
    # The framework answers by this handler, and raises the error again for `Edge` to log.
    app.add_exception_handler(Exception, _on_failure)
    inside: ASGIApp = app.framework
    on_error = partial(_answer_nearest, answering)
    for resource, handle in fast_routes.items():
        inside = FastRoute(inside, resource, handle, on_error, at_once.get(resource))
    if below is not None:
        inside = BelowPath(inside, *below, on_error)
    app.layers = Edge(inside, BodyBudget(max_bytes_in_flight), answer_seconds)
    return app


class _App(FastAPI):
    """The framework's application in layers of our own, which a request passes before its layers.

    Attributes:
        layers: The outermost of our layers; the innermost calls `framework`.
    """

    layers: ASGIApp

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.layers(scope, receive, send)

    def at_once(self, request: WholeRequest) -> bool:
        """Take a request without a task, if our layers do."""
        return takes_at_once(self.layers, request)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the framework, without our layers."""
        await super().__call__(scope, receive, send)


class Edge:
    """The outermost layer: any error inside leaves it only as a bare 500.

    A request that takes too long is cancelled and answered 503, since its peer has given up by
    then. Only work that runs in a thread is finished first.

    This layer also gives every request a trace id, the peer's if it sent one (`traceparent`), and
    logs the outcome.
    """

    def __init__(self, app: ASGIApp, budget: BodyBudget, answer_seconds: float) -> None:
        """Wrap `app`, whose request bodies share `budget`, and limit its time to answer."""
        self._app = app
        self._budget = budget
        self._answer_seconds = answer_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace_id = _trace_id(scope)
        status = 0
        started = scope.get(BEGAN) or time.perf_counter()
        handling = TimeLimit()
        handling.end_in(self._answer_seconds - (time.perf_counter() - started))

        async def receive_in_its_own_time() -> Message:
            handling.end = math.inf  # the budget says how long a body may take
            message = await receive()
            handling.end_in(self._answer_seconds)
            return message

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                handling.end = math.inf  # `connections` says how long an answer may take
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-trace-id", trace_id.encode())]
            await send(message)

        # `...` is structlog's word for a field that is not bound; handlers bind the task.
        bound = structlog.contextvars.bind_contextvars(trace_id=trace_id, task=...)
        try:
            try:
                with self._budget.request() as scope[SCOPE_KEY], handling:
                    app = self._app if is_plain(scope) else _NOT_FOUND
                    await app(scope, receive_in_its_own_time, send_and_note)
                if not status:
                    log.warning("request took too long")
                    await busy_response()(scope, receive, send_and_note)
            except Exception as error:  # the outermost edge: logged and answered
                log.exception("request failed", exc_info=error, path=_shown(scope["path"]))
                let_go(error)
                if not status:
                    await internal_error_response()(scope, receive, send_and_note)
            refusal = scope.get(_REFUSAL, {})
            is_chatter = not refusal and (
                scope.get(IS_TOLD_TOGETHER, False)
                or scope["path"] in MONITORING_PATHS
                or status == HTTP_202_ACCEPTED
            )
            seconds = time.perf_counter() - started
            _request_seconds(_resource(scope), scope["method"], status).observe(seconds)
            if is_chatter and not logging.getLogger().isEnabledFor(logging.DEBUG):
                return
            report = log.debug if is_chatter else log.info
            report(
                "request refused" if refusal else "request",
                **refusal,
                method=scope["method"],
                path=_shown(scope["path"]),
                status=status,
                milliseconds=round(1000 * seconds, 1),
            )
        finally:
            structlog.contextvars.reset_contextvars(**bound)

    def at_once(self, request: WholeRequest) -> bool:
        """Take a request without a task, if what is inside does; it goes on in time."""
        scope = request.scope
        if not is_plain(scope) or logging.getLogger().isEnabledFor(logging.DEBUG):
            return False
        body = scope[SCOPE_KEY] = self._budget.request()
        try:
            if not takes_at_once(self._app, request):
                return False
        except Exception as error:  # the long way answers it, whatever this was
            log.exception("request not taken", exc_info=error, path=_shown(scope["path"]))
            let_go(error)
            body.end()
            return False
        started = scope[BEGAN] = time.perf_counter()
        request.headers.append((b"x-trace-id", _trace_id(scope).encode()))
        loop = asyncio.get_running_loop()
        late = loop.call_later(self._answer_seconds, request.go_on)

        def end() -> None:
            late.cancel()
            body.end()
            if request.has_succeeded:
                seconds = time.perf_counter() - started
                _request_seconds(_resource(scope), scope["method"], HTTP_200_OK).observe(seconds)

        request.at_end.append(end)
        return True


_WITH_A_JOB = re.compile("(/(?:reports|collection_jobs)/)[^/]+")
_NOT_FOUND: Final[ASGIApp] = http_error_response(HTTP_404_NOT_FOUND, "Not Found")


def _shown(path: str) -> str:
    """Return as much of a path as the log shows.

    Whoever knows the id of a collection job may be one who may upload below it.
    """
    path = _WITH_A_JOB.sub(r"\1...", path)
    more = len(path) - LONGEST_PATH
    return path if more <= 0 else f"{path[:LONGEST_PATH]}... and {more:,} characters"


def _resource(scope: Scope) -> str:
    """Return the template of the request's path, or "none" if it is none of our few."""
    return str(getattr(scope.get("route"), "path", "none"))


@lru_cache(maxsize=256)
def _request_seconds(resource: str, method: str, status: int) -> Histogram:
    return REQUEST_SECONDS.labels(resource, method, status)


def _trace_id(scope: Scope) -> str:
    """Return the peer's trace id, or a new one."""
    given = next((value for name, value in scope["headers"] if name == b"traceparent"), None)
    if given is None:
        return new_trace_id()
    parent = read_traceparent(given.decode("latin-1"))
    return new_trace_id() if parent is None else parent.trace_id


async def _on_failure(_request: Request, _error: Exception) -> Response:
    return internal_error_response()


async def _on_abort(request: Request, error: Exception) -> Response:
    if not isinstance(error, Abort):
        raise error
    request.scope[_REFUSAL] = {"problem": type(error).__name__, "reason": str(error)}
    return abort_response(error, request.scope.get("dap_task_id"))


async def _on_http_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return http_error_response(error.status_code, error.detail, error.headers)


async def _on_invalid_parameter(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    return abort_response(
        InvalidMessage("; ".join(f"{fault['loc'][-1]}: {fault['msg']}" for fault in error.errors()))
    )


async def _on_busy(_request: Request, _error: Exception) -> Response:
    log.warning("the store was busy too long")
    return busy_response()


async def _on_full_disk(_request: Request, error: Exception) -> Response:
    log.error("the store cannot be written", exc_info=error)
    return busy_response(FULL_DISK_SECONDS)


async def _on_damaged_store(_request: Request, error: Exception) -> Response:
    log.error("the store cannot be trusted", reason=str(error))
    return busy_response(FULL_DISK_SECONDS)


async def _on_unreachable_store(_request: Request, error: Exception) -> Response:
    log.warning("the store cannot be reached", reason=str(error))
    return busy_response(UNREACHABLE_SECONDS)


async def _on_forgotten_ids(_request: Request, _error: Exception) -> Response:
    return busy_response()  # on a retry, the client is told which reports are too old


async def _on_unusable_journal(_request: Request, error: Exception) -> Response:
    log.error("a share cannot leave", reason=str(error))
    return busy_response(UNREACHABLE_SECONDS)


async def _on_missing_keys(_request: Request, error: Exception) -> Response:
    log.error("nothing is counted", reason=str(error))
    return busy_response(UNREACHABLE_SECONDS)


async def _on_disconnect(_request: Request, _error: Exception) -> Response:
    log.info("request cut off")
    return cut_off_response()


_ON: Final[Mapping[type[Exception], OnError]] = {
    Abort: _on_abort,
    HTTPException: _on_http_error,
    RequestValidationError: _on_invalid_parameter,
    Busy: _on_busy,
    DiskFull: _on_full_disk,
    Damaged: _on_damaged_store,
    Unreachable: _on_unreachable_store,
    IdsForgotten: _on_forgotten_ids,
    JournalError: _on_unusable_journal,
    KeyGone: _on_missing_keys,
    KeysMissing: _on_missing_keys,
    ClientDisconnect: _on_disconnect,
}
"""The handlers of failed requests by class of exception; the nearest class decides."""


async def _answer(handler: OnError, request: Request, error: Exception) -> Response:
    """Answer a failed request; each refusal passes here, and leaves nothing behind."""
    response = await handler(request, error)
    let_go(error)
    return response


async def _answer_nearest(
    answering: Mapping[type[Exception], OnError], request: Request, error: Exception
) -> Response:
    for kind in type(error).__mro__:
        if kind in answering:
            return await answering[kind](request, error)
    raise error
