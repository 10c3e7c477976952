"""Times pieces of work by turns.

Other programs slow a shared machine down, and not evenly. Processor time leaves out the time when
another program ran, but not the effect of shared caches and memory. Pieces that are compared take
turns, so that whatever slows one down slows the others too.
"""

import statistics
import time
from collections.abc import Callable, Mapping

Work = Callable[[], object]


def median_seconds(works: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Return the median processor time of each piece of work, in seconds.

    Args:
        works: The pieces, by name; each is done once before timing begins.
        rounds: How often all of them are done, one after the other.
    """
    taken = _taken(works, rounds, time.process_time)
    return {name: statistics.median(times) for name, times in taken.items()}


def least_wall_seconds(works: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Return the least wall-clock time, for works of more than one thread.

    The median would mislead: while another program runs, several threads get no more than one.
    """
    return {name: min(times) for name, times in _taken(works, rounds, time.perf_counter).items()}


def _taken(
    works: Mapping[str, Work], rounds: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            begin = clock()
            work()
            # A clock that ticks slowly may see nothing.
            taken[name].append(max(clock() - begin, 1e-9))
    return taken
