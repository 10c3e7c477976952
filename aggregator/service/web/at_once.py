"""Requests that are answered without a task of their own.

When the headers of a phone's report have been read, the rest of it has mostly come, too. A task,
with a frame and a time limit for each layer, would then cost more than everything else, while there
is no slow body to limit. So each layer has a second, short half, `at_once`, which takes a request
if all is as usual, and else returns False: then the request takes the long way through `__call__`,
where everything is that refuses, limits and makes problem documents. A request that was taken goes
on that way (`go_on`) if it turns out to be refused, or is not answered in time.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import Request, Response
from starlette.types import Scope

SHORT_BODY: Final = 32 * 2**10
"""The most bytes of a body that is offered so: it is not in the budget of all bodies before."""

REST: Final = "prio.rest"
"""The key in a request's scope of what answers it instead of its route's handler."""

BEGAN: Final = "prio.began"
"""The key in a request's scope of when it began, by `time.perf_counter`, if not just now."""

Header = tuple[bytes, bytes]
Rest = Callable[[Request], Awaitable[Response]]
AtOnce = Callable[["WholeRequest"], bool]


class WholeRequest:
    """A request with a short body that has come whole, and that nothing answers yet.

    Whoever takes it sets `rest`, and later calls `succeed` or `go_on`; only the first call counts.

    Attributes:
        scope: What the application is told of it.
        body: Its body, of at most `SHORT_BODY` bytes.
        headers: Those of a success; layers add theirs.
        at_end: Is called once it was answered, in whichever way, or its peer has left.
        rest: Answers it if it takes the long way.
        has_succeeded: Whether it was answered by `succeed`.
    """

    def __init__(
        self,
        scope: Scope,
        body: bytes,
        answer: Callable[[list[Header]], bool],
        start: Callable[[Callable[[], None]], None],
    ) -> None:
        """Hold a request.

        Args:
            scope: What the application is told of it.
            body: Its body.
            answer: Sends a success without a body, with these headers, and returns True; or returns
                False if the peer has yet to read earlier answers.
            start: Has a task answer it, which calls its argument at its end.
        """
        self.scope, self.body = scope, body
        self.headers: list[Header] = [(b"content-length", b"0")]
        self.at_end: list[Callable[[], None]] = []
        self.rest: Rest | None = None
        self.has_succeeded = False
        self._answer, self._start = answer, start
        self._waits = True

    def succeed(self) -> None:
        """Answer with a success without a body."""
        if not self._waits:
            return
        if self._answer(self.headers):
            self._waits, self.has_succeeded = False, True
            self._end()
        else:
            self.go_on()

    def go_on(self) -> None:
        """Have a task answer it by `rest`, through all layers."""
        if self._waits:
            self._waits = False
            self.scope[REST] = self.rest
            self._start(self._end)

    def _end(self) -> None:
        for each in self.at_end:
            each()
        self.at_end.clear()


def takes_at_once(app: object, request: WholeRequest) -> bool:
    """Return whether an application takes a request at once; most never do."""
    take: AtOnce | None = getattr(app, "at_once", None)
    return take is not None and take(request)
