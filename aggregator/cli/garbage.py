"""Garbage collections that a short command does without.

What a command loads are some 130,000 permanent objects. The collector would look at the young ones
again and again while modules load, and at all of them when the process ends: a third of the time
that such a command takes.
"""

import atexit
import gc

_YOUNG = 200_000
"""How many objects are made before a collection: more than a command loads that only looks."""

_USUAL = gc.get_threshold()


def collect_rarely() -> None:
    """Collect rarely from now on, and not at the end, when all is freed with the process."""
    gc.set_threshold(_YOUNG, *_USUAL[1:])
    atexit.register(gc.freeze)


def collect_as_usual() -> None:
    """Collect as often as Python does by itself, in a process that stays."""
    gc.set_threshold(*_USUAL)
