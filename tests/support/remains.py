"""What an answered request leaves in memory until garbage is collected, and what for good."""

import asyncio
import gc
import time
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tests.support.patience import PATIENCE_SECONDS

TIMES = 2
"""How often a request is repeated while it is watched, after a first time that fills caches."""


async def remains(answered: Callable[[], Awaitable[object]], most: int) -> str:
    """Return what several times of `answered` leave behind, in words; empty if nothing.

    That is every frame that only the collector of garbage would free, with all that it holds, or
    memory of more than `most` bytes for each time.
    """
    await answered()
    with _no_collection():
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(TIMES):
                await answered()
            frames = _frames_in_garbage()
            if frames:
                return ", ".join(f"{count} frames of {name}" for name, count in frames.items())
            deadline = time.monotonic() + PATIENCE_SECONDS
            while (grown := tracemalloc.get_traced_memory()[0] - before) > TIMES * most:
                if time.monotonic() > deadline:
                    return f"{grown // TIMES:,} bytes"
                await asyncio.sleep(0.01)  # a thread may not have let go of what it has answered
        finally:
            tracemalloc.stop()
    return ""


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.disable()
    gc.freeze()  # what is there already is none of the requests', and would be looked at each time
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def _frames_in_garbage() -> Counter[str]:
    """Collect garbage; return the names of the functions whose frames were in it."""
    before = len(gc.garbage)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        found = gc.garbage[before:]
        return Counter(each.f_code.co_qualname for each in found if isinstance(each, FrameType))
    finally:
        gc.set_debug(0)
        del gc.garbage[before:]
