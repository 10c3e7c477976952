"""A queue in which tasks take turns, and threads that are handed out in that order.

However much work one task has, another task waits for one piece of it, not for all.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import anyio
from anyio import CapacityLimiter

from aggregator.failures import in_thread

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue of items, each of a task; the tasks are served in turn."""

    def __init__(self) -> None:
        """Begin empty."""
        self._queues: dict[bytes, deque[T]] = {}

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._queues)

    def __iter__(self) -> Iterator[T]:
        """Iterate over all items, the items of each task in order."""
        return itertools.chain.from_iterable(self._queues.values())

    def put(self, task: bytes, item: T) -> None:
        """Queue an item of a task."""
        self._queues.setdefault(task, deque()).append(item)

    def take(self) -> T:
        """Remove and return the first item of the task whose turn it is; there must be one."""
        task = next(iter(self._queues))
        queue = self._queues.pop(task)
        item = queue.popleft()
        if queue:
            self._queues[task] = queue  # behind all others
        return item

    def discard(self, task: bytes, item: T) -> None:
        """Remove an item, if it still waits."""
        queue = self._queues.get(task)
        if queue is None or item not in queue:
            return
        queue.remove(item)
        if not queue:
            del self._queues[task]


class Threads:
    """A few threads for CPU work; tasks get them in turn."""

    def __init__(self, count: int) -> None:
        """Run up to `count` pieces of work at once."""
        self._free = count
        self._waiting: FairQueue[anyio.Event] = FairQueue()

    async def run(self, task: bytes, work: Callable[[], T]) -> T:
        """Return `work()`, run in a thread for a task; once begun, it is not cancelled."""
        await self._begin(task)
        try:
            return await in_thread(work, limiter=CapacityLimiter(1))
        finally:
            self._end()

    async def _begin(self, task: bytes) -> None:
        if self._free:
            self._free -= 1
            return
        turn = anyio.Event()
        self._waiting.put(task, turn)
        try:
            await turn.wait()
        except BaseException:
            self._waiting.discard(task, turn)
            if turn.is_set():
                self._end()  # the thread was given to us as we left
            raise

    def _end(self) -> None:
        if self._waiting:
            self._waiting.take().set()
        else:
            self._free += 1
