"""Reads request bodies, within a budget of bytes for all of them and at a least pace for each.

A request holds its bytes from the moment they are read until it is answered, for what is made of
them takes memory too. When the budget is spent, the slowest incoming body gives way to the one that
needs room, so a slow sender holds nobody up. If no body is still incoming, the newcomer is asked to
come again.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from starlette.requests import Request

from aggregator.dap.problems import MessageTooLarge, Problem, TooManyRequests

DEFAULT_BUDGET = 64 * 2**20
"""The most bytes of all bodies together."""

GRACE_SECONDS = 10.0
"""Time for a body beyond what its size allows."""

PACE = 32 * 2**10
"""The least bytes per second of a body."""

SCOPE_KEY = "prio_body"
"""The key of the `Body` in a request's scope."""

_SETTLED_SECONDS = 1.0
"""A younger body never gives way: its pace is unknown."""


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
        """Give the body of a request, which holds its bytes until the request ends."""
        body = Body(self)
        try:
            yield body
        finally:
            self._free += body.held

    @contextmanager
    def coming(self, body: "Body") -> Iterator[None]:
        """Let `body` be asked to give way for the time being."""
        self._coming.add(body)
        try:
            yield
        finally:
            self._coming.discard(body)

    def take(self, size: int) -> None:
        """Take `size` bytes of the budget.

        Raises:
            TooManyRequests: They are not available, and no slow incoming body could give way.
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
        held: Its bytes of the budget.
    """

    def __init__(self, intake: Intake) -> None:
        """Take its bytes from the budget of `intake`."""
        self.held = 0
        self._intake = intake
        self._began = 0.0
        self._scope = anyio.CancelScope()

    @property
    def seconds(self) -> float:
        """For how long it has been coming."""
        return time.monotonic() - self._began

    def give_way(self) -> int:
        """Stop reading; return how many bytes are given back."""
        freed, self.held = self.held, 0
        self._scope.cancel()
        return freed

    async def read(self, request: Request, limit: int) -> bytes:
        """Return the whole body, which can be read once.

        Args:
            request: The request.
            limit: The most bytes that it may have; no more are ever held.

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
