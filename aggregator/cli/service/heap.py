"""The C library's heap as a service needs it, through which batches of megabytes come and go.

By itself, glibc gives most threads a heap of their own, and asks the system for each large block
and gives it back at once. The threads of a service take turns with batches, so it had the memory of
each thread's largest one, and the system filled every block with zeros before it was overwritten.

What is kept goes back to the system once in a while: under load it is fetched again at little cost,
and a service at rest holds only what it needs.

Source: mallopt(3) and malloc_trim(3) of the Linux manual pages.
"""

import ctypes
import os
import sys
from collections.abc import Callable

# mallopt's parameters, as glibc numbers them in malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8

_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES")
"""How the variables begin by which glibc's heap is set up."""

_KEPT_BYTES = 256 * 2**20
"""How much unused memory the process keeps; eight of the largest jobs at once take some 160 MiB."""

_LARGEST_MMAP_THRESHOLD = 32 * 2**20
"""The most that glibc accepts on 64-bit machines; larger blocks come from the system."""


GIVE_BACK_SECONDS = 30
"""How often what is kept goes back. It takes 1 to 40 ms, in which other threads get no memory."""


def keep_memory() -> None:
    """Have one heap for all threads, which keeps what it is given back; before they begin.

    Another C library than glibc is left alone, and so is a heap that the environment sets up.
    """
    mallopt = _function("mallopt")
    if mallopt is None:
        return
    mallopt(_ARENA_MAX, 1)
    mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def give_back_memory() -> None:
    """Give the system what the heap keeps and nobody uses; a heap of others is left alone."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> Callable[..., int] | None:
    """Return a function of glibc, unless the heap is not ours to set up."""
    is_set_up = any(each.startswith(_VARIABLES) for each in os.environ)
    if is_set_up or not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), name, None)
