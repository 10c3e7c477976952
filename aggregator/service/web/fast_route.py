"""Answers high-volume requests without the framework's layers.

The framework's routing, scopes and exception handling take longer than an upload itself. The layer
outside (`app.Edge`) stays the same, and so does what a handler gets and returns.

Answering in the server's protocol class (`connections`), without a task, a request object and
futures, would save more of a lone upload (docs/benchmarks.md). We do not: the limits of bodies, the
deadlines of `Edge` and `body_budget`, the problem documents and the log's lines would have to be
written a second time there.
"""

from collections.abc import Awaitable, Callable
from re import Match

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aggregator.dap.resources import Resource, path_pattern

IS_TOLD_TOGETHER = "is_told_together"
"""Set in a request's scope if one log line tells its outcome together with those of others."""

Handler = Callable[[Request], Awaitable[Response]]
OnError = Callable[[Request, Exception], Awaitable[Response]]


class FastRoute:
    """A layer that answers one resource and passes everything else on."""

    def __init__(
        self, app: ASGIApp, resource: Resource, handler: Handler, on_error: OnError
    ) -> None:
        """Answer `resource` by `handler`.

        Args:
            app: The application that answers everything else.
            resource: The resource.
            handler: Answers a request for it.
            on_error: Answers a request whose handler has failed, or raises.
        """
        self._app, self._handler, self._on_error = app, handler, on_error
        self._method, self.path = resource.method, resource.template
        self._pattern = path_pattern(resource.template)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        found = self._found(scope)
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["path_params"] = found.groupdict()
        scope["route"] = self  # its `path` is a metric's label
        request = Request(scope, receive)
        try:
            response = await self._handler(request)
        except Exception as error:  # noqa: BLE001  others are raised again
            response = await self._on_error(request, error)
        await response(scope, receive, send)

    def _found(self, scope: Scope) -> Match[str] | None:
        if scope["type"] != "http" or scope["method"] != self._method:
            return None
        return self._pattern.fullmatch(scope["path"])
