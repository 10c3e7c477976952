"""Serves resources below the paths of endpoints, too, where a proxy leaves those on requests.

Only below those that tasks name: a rule of a proxy for `/tasks/…`, such as a rate, would not hold
for a path that a stranger chose to put before it.
"""

from collections.abc import Awaitable, Callable, Iterable
from collections.abc import Set as AbstractSet

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from aggregator.dap.resources import Resource, path_pattern
from aggregator.service.web.direct import OnError

Paths = Callable[[], Awaitable[AbstractSet[str]]]


class BelowPath:
    """A layer that takes the path of an endpoint off requests for resources below it."""

    def __init__(
        self, app: ASGIApp, resources: Iterable[Resource], paths: Paths, on_error: OnError
    ) -> None:
        """Wrap `app`.

        Args:
            app: What answers requests.
            resources: What it serves.
            paths: Returns the paths of endpoints, without slashes at their ends.
            on_error: Answers when that has failed, or raises.
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
            except Exception as error:  # noqa: BLE001  what is none of ours is raised again
                response = await self._on_error(Request(scope, receive), error)
                await response(scope, receive, send)
                return
            if before.rstrip("/") in paths:
                scope["path"] = scope["path"][len(before) :]
        await self._app(scope, receive, send)

    def _before(self, path: str) -> str:
        """Return what stands before a resource's own path; nothing if it is none, or nothing."""
        if any(each.fullmatch(path) for each in self._whole):
            return ""
        found = (each.fullmatch(path) for each in self._below)
        return next((each["before"] for each in found if each), "")
