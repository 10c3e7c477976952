"""The bodies of requests: together no more bytes than a budget, and none slower than a pace.

A request holds its bytes from the moment they are read until it is answered, for what is made of
them takes memory too. Where the budget is spent, the slowest body that is still on its way gives
way to the one that needs room: whoever sends slowly holds nobody else up. Where all have come and
are being worked on, the newcomer is asked to come again.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from starlette.requests import Request

from aggregator.dap.problems import MessageTooLarge, Problem, TooManyRequests

DEFAULT_BUDGET = 64 * 2**20
"""Bytes of all bodies together."""

GRACE_SECONDS = 10.0
"""What a body may take beside the time that its size allows it."""

PACE = 32 * 2**10
"""Bytes a second that a body must come at."""

SCOPE_KEY = "prio_body"
"""Where a request's scope has its `Body`."""

_SETTLED_SECONDS = 1.0
"""A younger body never gives way: nothing is known of its pace."""


class BodyTooSlow(Problem):
    """A body that came slower than `PACE`, or gave way to a faster one."""

    title = "The body came too slowly"


class Intake:
    """The budget of one application."""

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        """Allow bodies of `budget` bytes together."""
        self._free = budget
        self._coming: set[Body] = set()

    @contextmanager
    def request(self) -> Iterator["Body"]:
        """Return the body of a request, which holds its bytes for as long as the request lasts."""
        body = Body(self)
        try:
            yield body
        finally:
            self._free += body.held

    @contextmanager
    def coming(self, body: "Body") -> Iterator[None]:
        """Let `body` be asked to give way meanwhile."""
        self._coming.add(body)
        try:
            yield
        finally:
            self._coming.discard(body)

    def take(self, size: int) -> None:
        """Take `size` bytes of the budget.

        Raises:
            TooManyRequests: They are not there, and no slow body is coming that could give way.
        """
        while size > self._free:
            slow = [body for body in self._coming if body.seconds > _SETTLED_SECONDS]
            if not slow:
                raise TooManyRequests("all requests together have too many bytes")
            slowest = min(slow, key=lambda body: body.held / body.seconds)
            self._coming.discard(slowest)
            self._free += slowest.give_way()
        self._free -= size


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request to an application with an intake; see `Body.read`."""
    body: Body = request.scope[SCOPE_KEY]
    return await body.read(request, limit)


class Body:
    """The body of one request.

    Attributes:
        held: The bytes of the budget that it holds.
    """

    def __init__(self, intake: Intake) -> None:
        """Take what it needs from `intake`."""
        self.held = 0
        self._intake = intake
        self._began = 0.0
        self._scope = anyio.CancelScope()

    @property
    def seconds(self) -> float:
        """For how long it has been coming."""
        return time.monotonic() - self._began

    def give_way(self) -> int:
        """Come no farther; return how many bytes are given back."""
        freed, self.held = self.held, 0
        self._scope.cancel()
        return freed

    async def read(self, request: Request, limit: int) -> bytes:
        """Return the whole body; a request's is read once.

        Args:
            request: The request.
            limit: The most bytes that it may have; no more than that is ever held.

        Raises:
            MessageTooLarge: It is longer.
            TooManyRequests: There is no room for it now.
            BodyTooSlow: It comes too slowly.
        """
        content = bytearray()
        self._began = time.monotonic()
        with self._scope, self._intake.coming(self):
            self._scope.deadline = anyio.current_time() + GRACE_SECONDS
            async for chunk in request.stream():
                if len(content) + len(chunk) > limit:
                    raise MessageTooLarge(f"the body may have {limit} bytes")
                self._intake.take(len(chunk))
                self.held += len(chunk)
                content += chunk
                self._scope.deadline += len(chunk) / PACE
            return bytes(content)
        raise BodyTooSlow(f"it must come at {PACE} bytes a second or faster")
