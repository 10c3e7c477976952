"""Lets pages of any origin use the public resources: HPKE configurations and uploads.

A browser shows a page an answer from another origin only if the answer allows it, be it a success
or a refusal: otherwise the page learns only that something failed. So this is the outermost layer,
around everything that refuses. There is no list of allowed origins: these resources have no callers
and no cookies, and programs other than browsers need no permission anyway.

Before a page may send a request that no form could, its browser asks whether it may (a preflight).
That is answered here, before anything is counted or logged, since it reveals and costs nothing. It
is answered below any path, although resources exist only below the paths that tasks name
(`below_path`).

Source: Fetch Standard, "CORS protocol" and "HTTP responses".
"""

from collections.abc import Iterable
from typing import Final

from starlette.status import HTTP_204_NO_CONTENT
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.dap.resources import Resource, path_pattern
from aggregator.service.web.at_once import WholeRequest, takes_at_once
from aggregator.service.web.plain_paths import is_plain

ANY_ORIGIN: Final = (b"access-control-allow-origin", b"*")
EXPOSED: Final = (b"access-control-expose-headers", b"retry-after, date, age")
"""The headers that a page needs to know when to retry, and by our clock; hidden by default."""

PREFLIGHT_SECONDS = 86_400
"""How long a browser may cache a preflight's answer; browsers have lower limits of their own."""


class CrossOrigin:
    """A layer that marks every answer of public resources, and answers their preflights."""

    def __init__(self, app: ASGIApp, resources: Iterable[Resource]) -> None:
        """Wrap `app`; those of `resources` that have no caller are public."""
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
        is_candidate = scope["type"] == "http" and is_plain(scope)
        found = self._found(scope) if is_candidate else None
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

    def at_once(self, request: WholeRequest) -> bool:
        """Take a request, if what is inside takes it: no preflight, and no path of another form."""
        if self._found(request.scope):
            request.headers += (ANY_ORIGIN, EXPOSED)
        return request.scope["method"] != "OPTIONS" and takes_at_once(self._app, request)

    def _found(self, scope: Scope) -> list[tuple[bytes, bytes]] | None:
        """Return the headers that answer a preflight for the path, if its resource is public."""
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
