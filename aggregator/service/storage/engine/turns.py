"""Turns at the database: callers wait for theirs in the event loop, so that none holds a thread."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from anyio import CapacityLimiter
    from anyio.lowlevel import RunVar

T = TypeVar("T")


class Turns:
    """So many calls at once, in worker threads of each event loop."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def take(self, work: Callable[[], T]) -> T:
        """Return `work()`, called in a worker thread once it is its turn."""
        from anyio import to_thread  # here, since a command that opens a store runs no loop

        return await to_thread.run_sync(work, limiter=self._of_this_loop())

    @cached_property
    def _limiters(self) -> "RunVar[CapacityLimiter]":
        from anyio.lowlevel import RunVar

        return RunVar(f"turns {id(self)}")

    def _of_this_loop(self) -> "CapacityLimiter":
        """Return this event loop's limiter; a limiter cannot be shared between loops."""
        from anyio import CapacityLimiter

        try:
            return self._limiters.get()
        except LookupError:
            limiter = CapacityLimiter(self._count)
            self._limiters.set(limiter)
            return limiter
