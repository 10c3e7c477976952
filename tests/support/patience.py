"""How tests wait, and how they judge time, so that none fails because a machine is slow.

Anything that is waited for gets `PATIENCE_SECONDS`. What must not take long is measured in
yardsticks: the processor time of a piece of work, over that of another piece in the same moment.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 600.0
"""Whatever takes longer has not been slow, but will not come."""


def yardstick(clock: Callable[[], float] = time.process_time) -> float:
    """Return how long the same piece of work takes here and now: 10 to 25 ms."""
    begin = clock()
    sum(number * number % 7 for number in range(200_000))
    return clock() - begin


def wait_until(is_so: Callable[[], object], *of: object) -> None:
    """Wait until something is so; if it never is, the failure shows what it was about."""
    deadline, pause = time.monotonic() + PATIENCE_SECONDS, 0.05
    while not is_so():
        assert time.monotonic() < deadline, of
        time.sleep(pause)
        pause = min(1.2 * pause, 0.5)  # to ask may take much itself


class Spent:
    """What a piece of work has cost.

    Attributes:
        yardsticks: How many.
    """

    def __init__(self) -> None:
        self.yardsticks = float("nan")


@contextmanager
def measured(clock: Callable[[], float] = time.process_time) -> Iterator[Spent]:
    """Measure the block in yardsticks, of processor time unless a clock is given."""
    spent = Spent()
    before = yardstick(clock)
    begin = clock()
    yield spent
    seconds = clock() - begin
    spent.yardsticks = seconds / max(before, yardstick(clock))
