"""Which of many fingerprints reach a score: with numpy, or compiled and on all processors.

A candidate is given up as soon as its remaining buckets can no longer lift it to the score, usually
after a handful of tasks.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.client.text.hashing import TextHashes
from aggregator.steward.text.candidates import Candidates, Prints

MANY: Final = 2**22
"""From this many candidates on, the compiled loop is worth its start of a second or more."""

_AHEAD: Final = 8
"""How many chunks wait for each thread."""

Units = npt.NDArray[np.int32]
Needed = npt.NDArray[np.int64]


def reaching(
    hashes: TextHashes,
    units: Units,
    level: int,
    candidates: Candidates,
    progress: Callable[[int], None],
) -> Prints:
    """Return the candidates whose units add up to the level or more.

    Units are a row for each task: the limited remainder of its table, from -128 to 127. `progress`
    is called with the number of candidates tried since its last call.
    """
    needed = _needed(units, level)

    def plainly(chunk: Prints) -> Prints:
        return chunk[_reached(hashes, units, needed, chunk)]

    search: Callable[[Prints], Prints] = plainly
    if candidates.count >= MANY:
        # This import loads a compiler, which takes longer than to try a list.
        from aggregator.steward.text.compiled import CompiledSearch

        search = CompiledSearch(hashes, units, needed, plainly)
    chunks, found = candidates.chunks(), list[Prints]()
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads, "fingerprints") as pool:
        while batch := list(islice(chunks, threads * _AHEAD)):
            found += pool.map(search, batch)
            progress(sum(map(len, batch)))
    return np.concatenate(found)


def scores(hashes: TextHashes, units: Units, prints: Prints, level: int) -> npt.NDArray[np.bool_]:
    """Return which fingerprints reach the level: the numpy version of `reaching`."""
    return _reached(hashes, units, _needed(units, level), prints)


def _reached(
    hashes: TextHashes, units: Units, needed: Needed, prints: Prints
) -> npt.NDArray[np.bool_]:
    reached = np.zeros(len(prints), np.bool_)
    index = np.arange(len(prints))
    sums = np.zeros(len(prints), np.int64)
    for task, row in enumerate(units):
        sums += row[hashes.string_buckets(task, prints[index])]
        can = sums >= needed[task]
        if not can.all():
            index, sums = index[can], sums[can]
    reached[index] = True
    return reached


def _needed(units: Units, level: int) -> Needed:
    """Return the least sum after each task from which the other tasks can still reach the level."""
    highest = units.max(axis=1).astype(np.int64)
    return np.asarray(level - (highest.sum() - highest.cumsum()), np.int64)
