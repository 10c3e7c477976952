"""Reads request bodies, within a budget of bytes for all of them and at a least pace for each.

A request holds its bytes from the moment they are read until it is answered, for what is made of
them takes memory too. One task may use a budget that is idle, but when it is spent, each task that
has requests has an equal share of it. A body of a task that has less gets room from those that have
more: their slowest incoming body gives way, then their largest; if they have none, it waits until
one of their requests is answered, and what becomes free is its own. A body of a task that has its
share gets room only from a slow one, and is otherwise asked to come again.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from starlette.requests import Request

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import MessageTooLarge, Problem, TooManyRequests

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

    def __init__(self, budget: int) -> None:
        """Allow bodies of `budget` bytes together."""
        self._budget = self._free = budget
        self._bodies: set[Body] = set()
        self._coming: set[Body] = set()
        self._waiting: set[anyio.Event] = set()

    @contextmanager
    def request(self) -> Iterator["Body"]:
        """Give the body of a request, which holds its bytes until the request ends."""
        body = Body(self)
        try:
            yield body
        finally:
            self._bodies.discard(body)
            self._give_back(body.held)

    @contextmanager
    def coming(self, body: "Body") -> Iterator[None]:
        """Let `body` be asked to give way for the time being."""
        self._bodies.add(body)
        self._coming.add(body)
        try:
            yield
        finally:
            self._coming.discard(body)

    async def take(self, body: "Body", size: int) -> None:
        """Take `size` bytes of the budget for a body that is coming.

        Raises:
            TooManyRequests: They are not available, and nobody has to give way.
        """
        is_in_time = True
        while size > self._free or self._waiting:
            excess = self._excess(body, size)
            is_over = excess[body.task] > 0
            if size <= self._free and not is_over:
                break
            if self._make_room(body, excess):
                continue
            if is_over or not is_in_time:
                raise TooManyRequests("all requests together have too many bytes")
            is_in_time = await self._wait(body, size)
        self._free -= size

    def _excess(self, body: "Body", size: int) -> Counter[TaskId | None]:
        """Return by how much each task exceeds its share if `body` takes `size` bytes more."""
        held = Counter({each.task: 0 for each in self._bodies})
        for each in self._bodies:
            held[each.task] += each.held
        held[body.task] += size
        share = self._budget // len(held)
        return Counter({task: taken - share for task, taken in held.items()})

    def _make_room(self, body: "Body", excess: Counter[TaskId | None]) -> bool:
        """Let an incoming body give way; return whether there was one that has to."""
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
        """Wait for room, and let nobody else in meanwhile; return whether there is some in time."""
        self._coming.discard(body)  # it stands still through no fault of its sender
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
    """Return the body of a request to an application with an intake; see `Body.read`."""
    body: Body = request.scope[SCOPE_KEY]
    return await body.read(request, limit)


class Body:
    """The body of one request.

    Attributes:
        held: Its bytes of the budget.
        task: The task that the request is for; None if it is for none.
    """

    def __init__(self, intake: Intake) -> None:
        """Take its bytes from the budget of `intake`."""
        self.held = 0
        self.task: TaskId | None = None
        self._intake = intake
        self._began = 0.0
        self._scope = anyio.CancelScope()
        self._problem: Problem = BodyTooSlow(f"it must come at {PACE} bytes a second or faster")

    @property
    def seconds(self) -> float:
        """For how long it has been coming."""
        return time.monotonic() - self._began

    def give_way(self, problem: Problem) -> int:
        """Stop reading, with this answer; return how many bytes are given back."""
        freed, self.held = self.held, 0
        self._problem = problem
        self._scope.cancel()
        return freed

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let the time until the end of the block be ours, and not its sender's."""
        began = anyio.current_time()
        left, self._scope.deadline = self._scope.deadline - began, math.inf
        try:
            yield
        finally:
            now = anyio.current_time()
            self._scope.deadline = now + left
            self._began += now - began

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
        self.task = request.scope.get("dap_task_id")
        self._began = time.monotonic()
        with self._scope, self._intake.coming(self):
            self._scope.deadline = anyio.current_time() + GRACE_SECONDS
            async for chunk in request.stream():
                if len(content) + len(chunk) > limit:
                    raise MessageTooLarge(f"the body may have {limit} bytes")
                await self._intake.take(self, len(chunk))
                self.held += len(chunk)
                content += chunk
                self._scope.deadline += len(chunk) / PACE
            return bytes(content)
        raise self._problem
