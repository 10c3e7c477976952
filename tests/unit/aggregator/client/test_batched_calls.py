"""Work of many threads, done together."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from aggregator.client.batched_calls import BatchedCalls
from tests.support.patience import PATIENCE_SECONDS


class Work:
    """Doubles numbers, each turn when it is let."""

    def __init__(self, before: Callable[[int], None]) -> None:
        self.before = before
        self.turns: list[list[int]] = []

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.turns.append(list(numbers))
        self.before(len(self.turns))
        if any(number < 0 for number in numbers):
            raise ValueError(f"{min(numbers)} is below 0")
        return [2 * number for number in numbers]


def done(futures: Sequence[Future[int]]) -> list[int]:
    return [each.result(PATIENCE_SECONDS) for each in futures]


def arrived(together: BatchedCalls[int, int], count: int) -> None:
    """Wait until this many wait."""
    pause = threading.Event()
    while len(together._waiting) < count:
        pause.wait(0.001)


def test_whoever_comes_meanwhile_is_served_together_and_leaves_before_the_next_turn() -> None:
    """Else turns would be of two or three, however many threads there are."""
    gates = [threading.Event() for _ in range(3)]
    work = Work(lambda turn: assert_set(gates[turn - 1]))
    together = BatchedCalls(work, 100)
    with ThreadPoolExecutor(22) as threads:
        first = threads.submit(together.do, 0)
        while not work.turns:
            pass
        second = [threads.submit(together.do, number) for number in range(1, 21)]
        arrived(together, 20)
        gates[0].set()
        while len(work.turns) == 1:
            pass
        third = threads.submit(together.do, 21)
        arrived(together, 1)
        gates[1].set()
        # The third turn lasts until all of the second have left.
        assert done([first, *second]) == [2 * number for number in range(21)]
        gates[2].set()
        assert done([third]) == [42]
    assert [len(turn) for turn in work.turns] == [1, 20, 1]


def assert_set(gate: threading.Event) -> None:
    assert gate.wait(PATIENCE_SECONDS)


def test_one_that_cannot_be_done_costs_the_others_a_few_turns() -> None:
    gate = threading.Event()
    work = Work(lambda turn: assert_set(gate) if turn == 1 else None)
    together = BatchedCalls(work, 100)
    with ThreadPoolExecutor(65) as threads:
        first = threads.submit(together.do, 0)
        while not work.turns:
            pass
        others = [threads.submit(together.do, -1 if place == 40 else 1) for place in range(64)]
        arrived(together, 64)
        gate.set()
        with pytest.raises(ValueError, match="-1 is below 0"):
            others.pop(40).result(PATIENCE_SECONDS)
        assert done([first, *others]) == [0, *[2] * 63]
    assert len(work.turns) == 2 + 2 * 6


def test_no_more_is_done_at_once_than_was_said() -> None:
    gate = threading.Event()
    work = Work(lambda turn: assert_set(gate) if turn == 1 else None)
    together = BatchedCalls(work, 3)
    with ThreadPoolExecutor(9) as threads:
        futures = [threads.submit(together.do, 0)]
        while not work.turns:
            pass
        futures += [threads.submit(together.do, 1) for _ in range(8)]
        arrived(together, 8)
        gate.set()
        assert done(futures) == [0, *[2] * 8]
    assert [len(turn) for turn in work.turns] == [1, 3, 3, 2]


def test_a_thread_that_is_interrupted_keeps_nobody_waiting() -> None:
    def interrupt(turn: int) -> None:
        if turn == 1:
            raise KeyboardInterrupt

    together = BatchedCalls(Work(interrupt), 10)
    with pytest.raises(KeyboardInterrupt):
        together.do(1)
    assert together.do(2) == 4


def test_a_thread_that_is_interrupted_before_it_begins_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = BatchedCalls(Work(lambda _: None), 10)
    taken = together._next

    def interrupted(own: object) -> None:
        taken(own)  # type: ignore[arg-type]  # whatever it is
        raise KeyboardInterrupt

    monkeypatch.setattr(together, "_next", interrupted)
    with pytest.raises(KeyboardInterrupt):
        together.do(1)
    monkeypatch.undo()
    with ThreadPoolExecutor(1) as threads:
        assert done([threads.submit(together.do, 2)]) == [4]
