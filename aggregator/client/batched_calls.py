"""Batches the work of many threads, where one batch costs about as much as one piece.

A thread that finds nobody working does the work of all threads that wait. Threads that come
meanwhile wait for the next turn.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class _Item(Generic[Given, Made]):
    """What one thread wants done; afterwards its result or its error."""

    __slots__ = ("error", "given", "is_done", "made")

    def __init__(self, given: Given) -> None:
        self.given = given
        self.made: list[Made] = []
        self.error: Exception | None = None
        self.is_done = False


class BatchedCalls(Generic[Given, Made]):
    """Does the work of many threads together, at most `most` pieces at once.

    `work` does all the pieces or none, and returns their results in order.
    """

    def __init__(self, work: Callable[[Sequence[Given]], Sequence[Made]], most: int) -> None:
        self._work, self._most = work, most
        self._waiting: deque[_Item[Given, Made]] = deque()
        self._turn = threading.Condition()
        self._worker: int | None = None
        self._taken: list[_Item[Given, Made]] = []

    def do(self, given: Given) -> Made:
        """Do a piece of work; raise what `work` raises of it alone."""
        own = _Item[Given, Made](given)
        with self._turn:
            self._waiting.append(own)
        # Without the lock, so that a thread whose work is done leaves at once: if it queued for the
        # lock again, the two or three threads that overtook it would make up whole turns.
        while not own.is_done:
            try:
                if items := self._next(own):
                    self._work_on(items)
            finally:
                self._end()
        if own.error is not None:
            raise own.error
        return own.made[0]

    def _next(self, own: _Item[Given, Made]) -> list[_Item[Given, Made]]:
        """Wait until nobody works; return the next pieces, or none if our own is done."""
        with self._turn:
            self._turn.wait_for(lambda: own.is_done or self._worker is None)
            if own.is_done:
                return []
            self._worker = threading.get_ident()
            while self._waiting and len(self._taken) < self._most:
                self._taken.append(self._waiting.popleft())
            return self._taken

    def _end(self) -> None:
        """Let the next thread work if this one did, wherever it was interrupted."""
        with self._turn:
            if self._worker != threading.get_ident():
                return
            for item in self._taken:
                if not item.made and item.error is None:
                    item.error = RuntimeError(
                        "the thread that did this was interrupted: it may have been done"
                    )
                item.is_done = True
            self._taken = []
            self._worker = None
            self._turn.notify_all()

    def _work_on(self, items: Sequence[_Item[Given, Made]]) -> None:
        """Do all pieces; if that fails, in halves, so that a bad piece does not stop the others."""
        try:
            made = self._work([item.given for item in items])
        except Exception as error:  # noqa: BLE001  whatever it is, its thread hears of it
            if len(items) == 1:
                items[0].error = error
                return
            middle = len(items) // 2
            self._work_on(items[:middle])
            self._work_on(items[middle:])
            return
        for item, each in zip(items, made, strict=True):
            item.made = [each]
