"""Lets pages of any origin use what anybody may use: HPKE configurations and uploads.

A browser shows a page an answer of another origin only if the answer says so, a refusal no less
than a success: otherwise all the page learns is that something failed. So this is the outermost
layer, around whatever refuses. There is no list of origins: these resources know no caller and no
cookie, and whoever is no browser asks without leave.

Before a page may send what no form could, its browser asks whether it may (a preflight). That is
answered here, before anything is counted or logged, for it says nothing and costs nothing: below
any path, of which only those that a task names have more (`below_path`).

Source: Fetch Standard, "CORS protocol" and "HTTP responses".
"""

from collections.abc import Iterable
from typing import Final

from starlette.status import HTTP_204_NO_CONTENT
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.dap.resources import Resource, path_pattern

ANY_ORIGIN: Final = (b"access-control-allow-origin", b"*")
EXPOSED: Final = (b"access-control-expose-headers", b"retry-after, date")
"""When to come again, and by whose clock: what a page cannot read otherwise."""

PREFLIGHT_SECONDS = 86_400
"""How long a browser may keep what a preflight said; browsers have lower bounds of their own."""


class CrossOrigin:
    """A layer that marks every answer of public resources, and answers their preflights."""

    def __init__(self, app: ASGIApp, resources: Iterable[Resource]) -> None:
        """Wrap `app`, of whose resources those without a caller are public."""
        self._app = app
        public = [each for each in resources if each.caller is None]
        methods: dict[str, list[str]] = {}
        for each in public:
            methods.setdefault(each.template, []).extend(each.methods)
        self._public = [
            (path_pattern(template, below_any=True), _preflight_headers(offered))
            for template, offered in methods.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        found = self._found(scope) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], ANY_ORIGIN, EXPOSED]
            await send(message)

        if scope["method"] == "OPTIONS":
            start = {
                "type": "http.response.start",
                "status": HTTP_204_NO_CONTENT,
                "headers": found,
            }
            await send_marked(start)
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._app(scope, receive, send_marked)

    def _found(self, scope: Scope) -> list[tuple[bytes, bytes]] | None:
        """Return what a preflight for the path is answered with, if it is of a public resource."""
        for pattern, headers in self._public:
            if pattern.fullmatch(scope["path"]):
                return headers
        return None


def _preflight_headers(methods: Iterable[str]) -> list[tuple[bytes, bytes]]:
    offered = ", ".join([*methods, "OPTIONS"]).encode()
    return [
        (b"allow", offered),
        (b"access-control-allow-methods", offered),
        (b"access-control-allow-headers", b"content-type"),
        (b"access-control-max-age", str(PREFLIGHT_SECONDS).encode()),
    ]
