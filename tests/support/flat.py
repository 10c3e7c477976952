"""Repeats an attack until it takes no more memory: what each leaves behind would add up."""

from collections.abc import Callable

from tests.support.processes import Processes

FLAT = 3
"""How many repetitions in a row must add nothing."""

MOST = 16
"""How often an attack is repeated: a service may grow a few times, and then no more."""

NOISE = 2
"""MiB by which a service that does its usual work grows and shrinks."""


def repeat_until_flat(services: Processes, name: str, attack: Callable[[], object]) -> int:
    """Repeat an attack on a service; return the most MiB that the service ever had meanwhile.

    Raises:
        AssertionError: Its memory does not become flat.
    """
    peaks: list[int] = []
    for _ in range(MOST):
        services.forget_peak_memory(name)
        attack()
        peaks.append(services.peak_memory(name))
        before, last = peaks[:-FLAT], peaks[-FLAT:]
        if before and max(last) <= max(before) + NOISE:
            return max(peaks)
    raise AssertionError(f"the memory of the {name} grows and grows: {peaks} MiB")
