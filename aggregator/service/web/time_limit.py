"""A time limit of a request, cheap to move, because each request moves it several times.

A deadline of anyio's makes a timer anew whenever it moves. Here moving it sets a number, and one
timer looks at that when it goes off.
"""

import asyncio
import math
from types import TracebackType
from typing import Self

import anyio


class TimeLimit:
    """A block that is cancelled when its time is over; it has no end until `end_in`.

    Attributes:
        end: When it ends, by the event loop's clock. It may move to later moments, and to infinity
            and back, but to no earlier one.
    """

    def __init__(self) -> None:
        """Begin without an end."""
        self.end = math.inf
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._scope = anyio.CancelScope()

    def end_in(self, seconds: float) -> None:
        """Let the block end in some seconds from now."""
        self.end_at(self._loop.time() + seconds)

    def end_at(self, moment: float) -> None:
        """Let the block end at a moment of the event loop's clock."""
        self.end = moment
        if self._timer is None and moment < math.inf:
            self._timer = self._loop.call_at(moment, self._look)

    def cancel(self) -> None:
        """End the block now."""
        self._scope.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() < self.end:
            self.end_at(self.end)
        else:
            self._scope.cancel()

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        self.end, self._timer = math.inf, None
        return self._scope.__exit__(kind, error, traceback)
