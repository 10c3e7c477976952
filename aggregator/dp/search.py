"""The least integer at which a statement becomes true, by bisection."""

from collections.abc import Callable


def least(holds: Callable[[int], bool], low: int, high: int | None = None) -> int:
    """Return the least integer from `low` on at which `holds` is true.

    Args:
        holds: False up to some integer, true from there on.
        low: The first integer to try.
        high: An integer at which it is known to hold; found by doubling unless given.
    """
    if high is None:
        step = 1
        while not holds(low + step - 1):
            low, step = low + step, 2 * step
        high = low + step - 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
