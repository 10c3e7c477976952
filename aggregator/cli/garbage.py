"""Garbage collections that a short command does without, and that a service rarely needs.

What a command loads are some 130,000 permanent objects. The collector would look at the young ones
again and again while modules load, and at all of them when the process ends: a third of the time
that such a command takes.

Uploads leave next to nothing to the collector: what they made is freed with its last reference, if
they are refused too (`aggregator.failures`), which would otherwise fill the memory. But
as often as Python collects by itself, those that come and go over many connections have it look at
all that are under way for every tenth of them. Jobs leave few objects, but some of megabytes.
"""

import atexit
import gc

_YOUNG = 200_000
"""How many objects are made before a collection: more than a command loads that only looks."""

_OF_UPLOADS = 20_000
"""By how many objects those that live must grow before a collection: more than the requests of some
hundred connections have at once."""

_USUAL = gc.get_threshold()


def collect_rarely() -> None:
    """Collect rarely from now on, and not at the end, when all is freed with the process."""
    gc.set_threshold(_YOUNG, *_USUAL[1:])
    atexit.register(gc.freeze)


def collect_as_usual() -> None:
    """Collect as often as Python does by itself, in a process that stays."""
    gc.set_threshold(*_USUAL)


def collect_less_often() -> None:
    """Collect as a process needs it that takes uploads and works on no jobs."""
    gc.set_threshold(_OF_UPLOADS, *_USUAL[1:])
