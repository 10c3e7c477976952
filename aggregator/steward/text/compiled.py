"""Adds up many fingerprints' buckets in compiled code: `search.scores`, twenty times as fast.

Nearly all the time goes into SipHash. Its rounds are straight-line code, which a compiler turns
into one loop over many candidates, in vector registers. It does so with the remainder, too, if that
is computed in doubles, which hold every number there exactly.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.client.text.hashing import TextHashes, initial_state
from aggregator.steward.text.candidates import Prints
from field.lanes import KernelMissing, compile_here, inlined, kernel

_HALF: Final = 32


class CompiledSearch:
    """A search of chunks of fingerprints, on every thread that calls it."""

    def __init__(
        self,
        hashes: TextHashes,
        units: npt.NDArray[np.int32],
        needed: npt.NDArray[np.int64],
        plainly: Callable[[Prints], Prints],
    ) -> None:
        """Take the current remainders of the tables: a row for each task, from -128 to 127.

        A candidate whose units add up to less than is `needed` after a task is given up. `plainly`
        is the same search without a compiler.
        """
        compile_here()  # a second or two, to save hours
        states = [initial_state(hashes.key(task)) for task in range(hashes.tasks)]
        self._states = np.array(states, np.uint64)
        self._units = units.astype(np.int8)
        self._needed, self._plainly = needed, plainly
        self._buckets = hashes.buckets

    def __call__(self, prints: Prints) -> Prints:
        """Return the fingerprints whose units reach the level."""
        left = prints.copy()
        sums, buckets = np.empty(len(left), np.int32), np.empty(len(left), np.int32)
        try:
            count = _search(
                self._states, self._units, self._needed, self._buckets, left, sums, buckets
            )
        except KernelMissing:
            return self._plainly(prints)
        return left[:count].copy()  # a view would keep the whole chunk: 16 GiB, of all of them


@inlined
def _turned(word: np.uint64, by: int) -> np.uint64:
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


@inlined
def _rounds(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, count: int
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    for _ in range(count):
        v0 += v1
        v2 += v3
        v1 = _turned(v1, 13) ^ v0
        v3 = _turned(v3, 16) ^ v2
        v0 = _turned(v0, 32) + v3
        v2 += v1
        v3 = _turned(v3, 21) ^ v0
        v1 = _turned(v1, 17) ^ v2
        v2 = _turned(v2, 32)
    return v0, v1, v2, v3


@kernel
def _hash(
    state: npt.NDArray[np.uint64],
    prints: Prints,
    count: int,
    width: int,
    buckets: npt.NDArray[np.int32],
) -> None:
    """Fill in the buckets, less 1, of the first `count` fingerprints."""
    of = np.float64(width)
    inverse, half = 1 / of, np.float64((1 << _HALF) % width)
    for at in range(count):
        word = np.uint64(prints[at])
        # A fingerprint's bytes go in from the most significant on, followed by their number.
        low = ((word & np.uint64(0xFF)) << np.uint64(24)) | (
            (word & np.uint64(0xFF00)) << np.uint64(8)
        )
        high = ((word >> np.uint64(8)) & np.uint64(0xFF00)) | (word >> np.uint64(24))
        block = low | high | np.uint64(4 << 56)
        v0, v1, v2, v3 = _rounds(state[0], state[1], state[2], state[3] ^ block, 2)
        v0, v1, v2, v3 = _rounds(v0 ^ block, v1, v2 ^ np.uint64(0xFF), v3, 4)
        hashed = v0 ^ v1 ^ v2 ^ v3
        # Quotients may be one off; the remainder is below 2^42 and exact in any case.
        first = np.float64(hashed >> np.uint64(_HALF))
        rest = (first - np.floor(first * inverse) * of) * half
        rest += np.float64(hashed & np.uint64(0xFFFFFFFF))
        rest -= np.floor(rest * inverse) * of
        if rest < 0:
            rest += of
        if rest >= of:
            rest -= of
        buckets[at] = np.int32(rest)


@kernel
def _search(
    states: npt.NDArray[np.uint64],
    units: npt.NDArray[np.int8],
    needed: npt.NDArray[np.int64],
    width: int,
    prints: Prints,
    sums: npt.NDArray[np.int32],
    buckets: npt.NDArray[np.int32],
) -> int:
    """Move the fingerprints that reach the level to the front; return how many there are."""
    count = len(prints)
    for at in range(count):
        sums[at] = 0
    for task in range(len(units)):
        _hash(states[task], prints, count, width, buckets)
        kept = 0
        for at in range(count):
            total = sums[at] + np.int32(units[task, buckets[at]])
            prints[kept], sums[kept] = prints[at], total
            kept += total >= needed[task]
        count = kept
    return count
