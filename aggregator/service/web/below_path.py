"""Also serves resources below the paths of endpoints, for proxies that do not strip these paths.

Only the paths in tasks count. If any prefix did, a stranger could prepend one and evade a proxy's
rule for `/tasks/…`, such as a rate limit.
"""

from collections.abc import Awaitable, Callable, Iterable
from collections.abc import Set as AbstractSet

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from aggregator.dap.resources import Resource, path_pattern
from aggregator.service.web.at_once import WholeRequest, takes_at_once
from aggregator.service.web.fast_route import OnError

Paths = Callable[[], Awaitable[AbstractSet[str]]]


class BelowPath:
    """A layer that strips the path of an endpoint from requests for resources below it."""

    def __init__(
        self, app: ASGIApp, resources: Iterable[Resource], paths: Paths, on_error: OnError
    ) -> None:
        """Wrap `app`.

        Args:
            app: The application.
            resources: The resources that it serves.
            paths: Returns the paths of endpoints, without trailing slashes.
            on_error: Answers if `paths` fails, or raises.
        """
        self._app, self._paths, self._on_error = app, paths, on_error
        self._whole = [path_pattern(each.template) for each in resources]
        self._below = [path_pattern(each.template, below_any=True) for each in resources]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        before = self._before(scope["path"]) if scope["type"] == "http" else ""
        if before:
            try:
                paths = await self._paths()
            except Exception as error:  # noqa: BLE001  others are raised again
                response = await self._on_error(Request(scope, receive), error)
                await response(scope, receive, send)
                return
            if before in paths:
                scope["path"] = scope["path"][len(before) :]
        await self._app(scope, receive, send)

    def at_once(self, request: WholeRequest) -> bool:
        """Take a request, if it is below no path."""
        return not self._before(request.scope["path"]) and takes_at_once(self._app, request)

    def _before(self, path: str) -> str:
        """Return the prefix before a resource's own path; empty if there is none."""
        if any(each.fullmatch(path) for each in self._whole):
            return ""
        found = (each.fullmatch(path) for each in self._below)
        return next((each["before"] for each in found if each), "")
