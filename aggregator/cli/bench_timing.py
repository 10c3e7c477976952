"""Processor time of pieces of work, taken by turns.

Other programs slow a shared machine down, and not evenly. Processor time leaves out the time when
another program ran; that it shared caches and memory stays in. Pieces that are to be compared take
turns, so that what slows one down slows the other down too.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Work = Callable[[], object]


def median_seconds(works: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Return the median processor time of each piece of work, in seconds.

    Args:
        works: The pieces, by name; each is done once before time is taken.
        rounds: How often all of them are done, one after the other.
    """
    return _medians(works, rounds, time.process_time)


def median_wall_seconds(works: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Return the same by the clock on the wall, for works of more than one thread."""
    return _medians(works, rounds, time.perf_counter)


def _medians(
    works: Mapping[str, Work], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            begin = clock()
            work()
            taken[name].append(clock() - begin)
    return {name: _median(times) for name, times in taken.items()}


def _median(times: Sequence[float]) -> float:
    # A clock that ticks slowly may see nothing; its tick is then too much rather than too little.
    return max(statistics.median(times), 1e-9)
