"""Does small jobs that come at once together: in one thread, and in one transaction for all.

What each job costs however small it is, such as threads, transactions and waits for the disk, is
more than the verification of a hundred reports. Jobs stay units of failure: whatever does not go
smoothly is done again alone, as it would have been without the others, and that says why it fails.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel

from aggregator.failures import in_thread
from aggregator.protocol.task import Task
from aggregator.service.runtime.fair_queue import FairQueue
from aggregator.service.runtime.lock_order import LockOrder, lock_order
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction

A = TypeVar("A")
R = TypeVar("R")

SMALL_BYTES = 2**20
"""The most bytes of reports in a small job."""

MOST = 16
"""How many jobs are done together at most."""


class Together(Generic[A, R]):
    """Gathers small jobs, or what is left to do of them, while others are being done."""

    def __init__(
        self, work: Callable[[Sequence[A], Sequence[Context]], Sequence[R | None]]
    ) -> None:
        """Do them by `work`, in a thread, given the context of each for its log lines and spans.

        It returns None for each that must be done alone.
        """
        self._work = work
        self._waiting: FairQueue[_Place[A, R]] = FairQueue()
        self._is_busy = False

    async def run(self, task: bytes, item: A, alone: Callable[[], Awaitable[R]]) -> R:
        """Return what becomes of an item with others that wait, or what `alone` returns.

        Once it waits, it is not cancelled. Tasks, known by their ids, take turns.
        """
        place: _Place[A, R] = _Place(item)
        # Shielded: it may have to do the others' work too, and must not abandon them.
        with anyio.CancelScope(shield=True):
            if self._is_busy:
                await self._wait(task, place)
            else:
                self._is_busy = True
                await anyio.lowlevel.checkpoint()  # others may have come at the same moment
            if not place.is_done:
                await self._lead(place, alone)
        return await alone() if place.result is None else place.result

    async def _wait(self, task: bytes, place: "_Place[A, R]") -> None:
        """Wait until the item is done, or until it is its turn to lead."""
        self._waiting.put(task, place)
        try:
            await place.woken
        except BaseException:
            self._waiting.discard(task, place)
            if place.woken.done() and not place.is_done:
                self._hand_on()
            raise

    async def _lead(self, first: "_Place[A, R]", alone: Callable[[], Awaitable[R]]) -> None:
        """Do `first` with those whose turn it is."""
        group = [first]
        while self._waiting and len(group) < MOST:
            group.append(self._waiting.take())
        try:
            if len(group) == 1:
                first.result = await alone()
                return
            for each, result in zip(group, await in_thread(self._apart, group), strict=True):
                each.result = result
        finally:
            for each in group:
                each.is_done = True
                each.wake()
            self._hand_on()

    def _apart(self, group: Sequence["_Place[A, R]"]) -> Sequence[R | None]:
        """Do some items; what is of no single job is in a context of its own."""
        items, contexts = [each.item for each in group], [each.context for each in group]
        done = attempt(partial(self._work, items, contexts), Context())
        return [None] * len(group) if done is None else done

    def _hand_on(self) -> None:
        self._is_busy = bool(self._waiting)
        if self._waiting:
            self._waiting.take().wake()


class _Place(Generic[A, R]):
    """An item that waits, and then what became of it; None if it must be done alone."""

    def __init__(self, item: A) -> None:
        self.item = item
        self.context = copy_context()
        self.is_done = False
        self.result: R | None = None
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


def attempt(work: Callable[[], R], context: Context | None = None) -> R | None:
    """Return `work()`, or None if it fails; then it is done again alone, which says why."""
    try:
        return work() if context is None else context.run(work)
    except Exception:  # noqa: BLE001  as above
        return None


def store_together(
    database: Database,
    name: str,
    works: Sequence[tuple[Task, Callable[[Transaction], R]] | None],
) -> list[R | None]:
    """Return what each of some works returns, in one transaction; None for all if that fails.

    Several of one task are in one transaction each: `capacity` counts on that.

    Args:
        database: The store.
        name: The name of the transactions.
        works: They, each with its task; None is passed over.
    """
    rounds: dict[int, dict[LockOrder, tuple[int, Callable[[Transaction], R]]]] = {}
    before: Counter[LockOrder] = Counter()
    for number, each in enumerate(works):
        if each is not None:
            order, work = lock_order(each[0]), each[1]
            rounds.setdefault(before[order], {})[order] = number, work
            before[order] += 1
    results: list[R | None] = [None] * len(works)
    for of_task in rounds.values():
        numbers, some = zip(*(of_task[order] for order in sorted(of_task)), strict=True)
        done = attempt(partial(database.run_sync, name, partial(_all, some)))
        if done is not None:
            for number, result in zip(numbers, done, strict=True):
                results[number] = result
    return results


def _all(some: Sequence[Callable[[Transaction], R]], tx: Transaction) -> list[R]:
    return [work(tx) for work in some]
