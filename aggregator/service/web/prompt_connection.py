"""Connections that let an application take requests which have come whole (`at_once`).

The rest of a short body often follows its beginning at once. So a task begins only if the rest has
not come after a moment, and from then on all limits on slow bodies hold.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from typing_extensions import override
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from aggregator.service.web.at_once import SHORT_BODY, Header, WholeRequest, takes_at_once

SOON_SECONDS = 0.05
"""How long a task waits to begin while the rest of a short body may come."""


class PromptConnection(HttpToolsProtocol):
    """uvicorn's protocol, which begins to answer a request only if the application did not."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._begun: tuple[RequestResponseCycle, ASGI3Application] | None = None
        self._soon: asyncio.TimerHandle | None = None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._begin()  # which learns that the peer has left

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._begun is not None and not self._may_end_soon(self._begun[0]):
            self._begin()

    @override
    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Begin to answer later, once all bytes that have come are read."""
        self._begun = cycle, app

    def _may_end_soon(self, cycle: RequestResponseCycle) -> bool:
        """Return whether the rest of a short body may come at any moment."""
        if not cycle.more_body or cycle.waiting_for_100_continue or self.transport.is_closing():
            return False
        if self._soon is None:
            size = next((value for name, value in self.headers if name == b"content-length"), b"")
            is_number = size.isdigit() and len(size) <= len(str(SHORT_BODY))
            if not is_number or int(size) > SHORT_BODY:
                return False
            self._soon = self.loop.call_later(SOON_SECONDS, self._begin)
        return True

    def _begin(self) -> None:
        """Answer what has begun, by a task unless the application takes it at once."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._begun is None:
            return
        (cycle, app), self._begun = self._begun, None
        is_whole = not (cycle.more_body or self.transport.is_closing())
        is_usual = len(cycle.body) <= SHORT_BODY and not cycle.waiting_for_100_continue
        if is_whole and is_usual and self._is_taken(cycle, app):
            return
        super()._start_asgi_task(cycle, app)

    def _is_taken(self, cycle: RequestResponseCycle, app: ASGI3Application) -> bool:
        """Return whether the application takes a request that has come whole."""
        scope: Any = self.scope
        request = WholeRequest(
            scope, bytes(cycle.body), partial(_answer, cycle), partial(self._go_on, cycle, app)
        )
        is_taken = takes_at_once(self.config.app, request)
        if is_taken:
            cycle.body = bytearray()  # as if read: else an idle connection would keep it
        return is_taken

    def _go_on(
        self, cycle: RequestResponseCycle, app: ASGI3Application, end: Callable[[], None]
    ) -> None:
        """Have a task answer what was taken."""

        async def answer(*asked: Any) -> None:  # noqa: ANN401  as uvicorn calls it
            try:
                await app(*asked)
            finally:
                end()

        super()._start_asgi_task(cycle, answer)


def _answer(cycle: RequestResponseCycle, headers: list[Header]) -> bool:
    """Answer with a success without a body, unless the peer must read earlier answers first."""
    if cycle.flow.write_paused:
        return False
    _send(cycle, {"type": "http.response.start", "status": 200, "headers": headers})
    _send(cycle, {"type": "http.response.body"})
    cycle.on_response = _nothing  # as after a task: else the connection would keep itself alive
    return True


def _send(cycle: RequestResponseCycle, message: Any) -> None:  # noqa: ANN401  as uvicorn calls it
    """Send a message that need not wait; end the connection if it would have to."""
    try:
        cycle.send(message).send(None)
    except StopIteration:
        return
    cycle.transport.abort()  # the peer has stopped reading right now


def _nothing() -> None:
    pass
