"""Answers high-volume requests without the framework's layers.

The framework's routing, scopes and exception handling take longer than an upload itself. The layer
outside (`app.Edge`) stays the same, and so does what a handler gets and returns.

What has come whole may even be answered without a task, if a route says how (`at_once`).
"""

from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aggregator.dap.resources import Resource, path_pattern
from aggregator.service.web.at_once import REST, AtOnce, WholeRequest, takes_at_once

IS_TOLD_TOGETHER = "is_told_together"
"""Set in a request's scope if one log line tells its outcome together with those of others."""

Handler = Callable[[Request], Awaitable[Response]]
OnError = Callable[[Request, Exception], Awaitable[Response]]


class FastRoute:
    """A layer that answers one resource and passes everything else on."""

    def __init__(
        self,
        app: ASGIApp,
        resource: Resource,
        handler: Handler,
        on_error: OnError,
        at_once: AtOnce | None = None,
    ) -> None:
        """Answer `resource` by `handler`.

        Args:
            app: The application that answers everything else.
            resource: The resource.
            handler: Answers a request for it.
            on_error: Answers a request whose handler has failed, or raises.
            at_once: Takes usual requests that have come whole, if there is a quicker way.
        """
        self._app, self._handler, self._on_error = app, handler, on_error
        self._at_once = at_once
        self._method, self.path = resource.method, resource.template
        self._pattern = path_pattern(resource.template)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if not self._is_entered(scope):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        # Taken out: the connection keeps the scope, and this has the body.
        handler: Handler = scope.pop(REST, None) or self._handler
        try:
            response = await handler(request)
        except Exception as error:  # noqa: BLE001  others are raised again
            response = await self._on_error(request, error)
        await response(scope, receive, send)

    def at_once(self, request: WholeRequest) -> bool:
        """Take a request, if it is for this resource and as usual."""
        if not self._is_entered(request.scope):
            return takes_at_once(self._app, request)
        return self._at_once is not None and self._at_once(request)

    def _is_entered(self, scope: Scope) -> bool:
        """Note the parts of the path of a request for this resource; return whether it is one."""
        if scope["type"] != "http" or scope["method"] != self._method:
            return False
        found = self._pattern.fullmatch(scope["path"])
        if found is None:
            return False
        scope["path_params"] = found.groupdict()
        scope["route"] = self  # its `path` is a metric's label
        return True
