"""Tasks take turns, however much one of them asks for."""

import threading
from functools import partial

import anyio
import pytest

from aggregator.service.runtime import FairQueue, Threads
from tests.support.patience import PATIENCE_SECONDS

FLOODED, SMALL, LATE = b"flooded", b"small", b"late"


def test_tasks_are_served_in_turn_and_each_in_the_order_of_its_items() -> None:
    turns: FairQueue[str] = FairQueue()
    for number in range(5):
        turns.put(FLOODED, f"flooded {number}")
    turns.put(SMALL, "small 0")
    turns.put(SMALL, "small 1")
    taken = [turns.take() for _ in range(3)]
    turns.put(LATE, "late 0")
    while turns:
        taken.append(turns.take())
    assert taken == [
        *("flooded 0", "small 0", "flooded 1", "small 1"),
        *("flooded 2", "late 0", "flooded 3", "flooded 4"),
    ]


def test_what_waits_no_more_is_not_served() -> None:
    turns: FairQueue[str] = FairQueue()
    turns.put(FLOODED, "gone")
    turns.put(FLOODED, "stays")
    turns.put(SMALL, "only")
    turns.discard(FLOODED, "gone")
    turns.discard(SMALL, "only")
    turns.discard(SMALL, "only")
    assert turns.take() == "stays"
    assert not turns


async def test_a_flood_of_one_task_delays_another_by_one_piece_of_work() -> None:
    threads = Threads(1)
    order: list[bytes] = []
    async with anyio.create_task_group() as group:
        for task in (*[FLOODED] * 50, SMALL):
            group.start_soon(threads.run, task, partial(order.append, task))
    assert order.index(SMALL) <= 2
    assert len(order) == 51


async def test_no_more_run_at_once_than_there_are_threads() -> None:
    threads = Threads(2)
    together = threading.Barrier(2)
    running: list[int] = []
    most: list[int] = []

    def work() -> None:
        running.append(1)
        together.wait(PATIENCE_SECONDS)  # breaks unless two run at once
        most.append(len(running))
        running.pop()

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(threads.run, FLOODED, work)
    assert max(most) <= 2


async def test_whoever_leaves_the_queue_takes_no_thread_along() -> None:
    threads = Threads(1)
    release = threading.Event()
    done: list[bytes] = []
    async with anyio.create_task_group() as group:
        group.start_soon(threads.run, FLOODED, partial(release.wait, 10))
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.05):
            await threads.run(SMALL, partial(done.append, SMALL))
        release.set()
    for _ in range(3):
        await threads.run(LATE, partial(done.append, LATE))
    assert done == [LATE] * 3


async def test_work_that_fails_gives_its_thread_back() -> None:
    threads = Threads(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await threads.run(SMALL, lambda: 1 // 0)
