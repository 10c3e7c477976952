"""Reads request bodies, within one budget of bytes for all and at a minimum pace for each.

A request holds its bytes from when they are read until it is answered, since what we make of them
takes memory too. A single task may use up an idle budget, but once it is spent, all tasks with
requests have equal shares. A body of a task below its share takes room from tasks above theirs:
their slowest incoming body gives way, then their largest. If they have none, it waits until one of
their requests is answered, and gets what becomes free. A body of a task at its share gets room only
from a slow body; otherwise its sender is asked to retry.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

import anyio
from starlette.requests import ClientDisconnect, Request

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import MessageTooLarge, Problem, TooManyRequests
from aggregator.service.web.time_limit import TimeLimit

GRACE_SECONDS = 10.0
"""The time for a body in addition to what its size allows."""

PACE = 32 * 2**10
"""The minimum pace of a body, in bytes per second."""

SCOPE_KEY = "prio_body"
"""The key of the `Body` in a request's scope."""

IS_WHOLE: Final = "prio.is_whole"
"""The key in a request's scope of a function that says whether all of its body has come: then it is
read without waiting, and needs no time limit. A server need not offer it."""

_PIECE = 16 * 2**10
"""How many bytes of a body lie together at least while it comes; fewer would take many times more.
As one array that grows, it would be copied from place to place, and leave holes in the heap."""

_SETTLED_SECONDS = 1.0
"""A younger body never gives way: its pace is unknown."""


class BodyTooSlow(Problem):
    """The body came slower than `PACE`, or gave way to a faster one."""

    title = "The body came too slowly"


class BodyBudget:
    """The budget of one application."""

    def __init__(self, budget: int) -> None:
        """Allow `budget` bytes for all bodies together."""
        self._budget = self._free = budget
        self._bodies: set[Body] = set()
        self._coming: set[Body] = set()
        self._waiting: set[anyio.Event] = set()

    def request(self) -> "Body":
        """Return the body of a request: a block, at whose end it gives back its bytes."""
        return Body(self)

    def begin(self, body: "Body") -> None:
        """Count a body from now on, and allow it to be asked to give way."""
        self._bodies.add(body)
        self._coming.add(body)

    def keep(self, body: "Body") -> None:
        """No longer ask a body to give way."""
        self._coming.discard(body)

    def end(self, body: "Body") -> None:
        """Take back the bytes of a body."""
        self._bodies.discard(body)
        self._give_back(body.held)

    def hold(self, body: "Body", size: int) -> bool:
        """Take `size` bytes for a body that has come whole; return whether there was room."""
        if not self._takes(size):
            return False
        self._bodies.add(body)
        return True

    def _takes(self, size: int) -> bool:
        if size > self._free or self._waiting:
            return False
        self._free -= size
        return True

    async def take(self, body: "Body", size: int) -> None:
        """Take `size` bytes of the budget for an incoming body.

        Raises:
            TooManyRequests: They are not available, and no body has to give way.
        """
        is_in_time = True
        while not self._takes(size):
            excess = self._excess(body, size)
            is_over = excess[body.task] > 0
            if size <= self._free and not is_over:
                self._free -= size
                break
            if self._make_room(body, excess):
                continue
            if is_over or not is_in_time:
                raise TooManyRequests("all requests together have too many bytes")
            is_in_time = await self._wait(body, size)

    def _excess(self, body: "Body", size: int) -> Counter[TaskId | None]:
        """Return by how much each task exceeds its share if `body` takes `size` bytes more."""
        held = Counter({each.task: 0 for each in self._bodies})
        for each in self._bodies:
            held[each.task] += each.held
        held[body.task] += size
        share = self._budget // len(held)
        return Counter({task: taken - share for task, taken in held.items()})

    def _make_room(self, body: "Body", excess: Counter[TaskId | None]) -> bool:
        """Make an incoming body give way, if one has to; return whether one did."""
        others = self._coming - {body}
        slow = [
            each
            for each in others
            if each.seconds > _SETTLED_SECONDS and (each.task == body.task or excess[each.task] > 0)
        ]
        over = [each for each in others if each.held and excess[each.task] > 0]
        if slow:
            leaving = min(slow, key=lambda each: each.held / each.seconds)
            problem: Problem = BodyTooSlow("a faster one needed its room")
        elif over and excess[body.task] <= 0:
            leaving = max(over, key=lambda each: (excess[each.task], each.held))
            problem = TooManyRequests("the task has more than its share of all bytes")
        else:
            return False
        self._coming.discard(leaving)
        self._give_back(leaving.give_way(problem))
        return True

    async def _wait(self, body: "Body", size: int) -> bool:
        """Wait for room, letting nobody else in meanwhile; return whether it came in time."""
        self._coming.discard(body)  # it stalls through no fault of its sender
        try:
            with body.standing_still(), anyio.move_on_after(GRACE_SECONDS):
                while size > self._free:
                    freed = anyio.Event()
                    self._waiting.add(freed)
                    try:
                        await freed.wait()
                    finally:
                        self._waiting.discard(freed)
                return True
            return False
        finally:
            self._coming.add(body)

    def _give_back(self, size: int) -> None:
        self._free += size
        for freed in self._waiting:
            freed.set()


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request to an application that has a budget; see `Body.read`."""
    body: Body = request.scope[SCOPE_KEY]
    return await body.read(request, limit)


class Body:
    """The body of one request.

    Attributes:
        held: How many bytes of the budget it holds.
        task: The task of the request; None if it has none.
    """

    def __init__(self, budget: BodyBudget) -> None:
        """Take its bytes from `budget`."""
        self.held = 0
        self.task: TaskId | None = None
        self._budget = budget
        self._began = 0.0
        self._limit: TimeLimit | None = None  # while it comes
        self._problem: Problem | None = None  # if it had to give way

    @property
    def seconds(self) -> float:
        """How many seconds it has been coming."""
        return time.monotonic() - self._began

    def give_way(self, problem: Problem) -> int:
        """Stop reading, to be answered with `problem`; return how many bytes are freed."""
        freed, self.held = self.held, 0
        self._problem = problem
        if self._limit is not None:
            self._limit.cancel()
        return freed

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Do not count the time of the block against the sender."""
        limit, began = self._limit, time.monotonic()
        before = math.inf if limit is None else limit.end
        if limit is not None:
            limit.end = math.inf
        try:
            yield
        finally:
            stood = time.monotonic() - began
            if limit is not None:
                limit.end_at(before + stood)
            self._began += stood

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.end()

    def hold(self, task: TaskId, size: int) -> bool:
        """Hold `size` bytes, which have all come; return whether there is room for them now."""
        self.task = task
        if not self._budget.hold(self, size):
            return False
        self.held = size
        return True

    def end(self) -> None:
        """Give back its bytes."""
        self._budget.end(self)

    async def read(self, request: Request, limit: int) -> bytes:
        """Return the whole body, which can be read once.

        Args:
            request: The request.
            limit: The most bytes that it may have; no more are ever held.

        Raises:
            MessageTooLarge: It is longer.
            TooManyRequests: There is no room for it now.
            BodyTooSlow: It comes too slowly.
            ClientDisconnect: The peer has left.
        """
        self.task = request.scope.get("dap_task_id")
        self._began = time.monotonic()
        is_whole = request.scope.get(IS_WHOLE)
        if is_whole is not None and is_whole():
            return await self._content(request, limit)
        self._limit = TimeLimit()
        with self._limit:
            self._limit.end_in(GRACE_SECONDS)
            return await self._content(request, limit)
        raise self._problem or BodyTooSlow(f"it must come at {PACE} bytes a second or faster")

    async def _content(self, request: Request, limit: int) -> bytes:
        pieces: list[bytes | bytearray] = []
        size = 0
        self._budget.begin(self)
        try:
            is_coming = True
            while is_coming:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                is_coming = message.get("more_body", False)
                if chunk := message.get("body", b""):
                    size += len(chunk)
                    if size > limit:
                        raise MessageTooLarge(f"the body may have {limit} bytes")
                    await self._add(pieces, chunk)
            return b"".join(pieces)
        finally:
            self._budget.keep(self)
            # An exception has this frame in its traceback, and may be kept until garbage is
            # collected, long after its bytes were given to others.
            pieces.clear()

    async def _add(self, pieces: list[bytes | bytearray], chunk: bytes) -> None:
        await self._budget.take(self, len(chunk))
        self.held += len(chunk)
        last = pieces[-1] if pieces else b""
        if isinstance(last, bytearray) and len(last) < _PIECE:
            last += chunk
        else:
            pieces.append(chunk if len(chunk) >= _PIECE else bytearray(chunk))
        if self._limit is not None:
            self._limit.end_at(self._limit.end + len(chunk) / PACE)
