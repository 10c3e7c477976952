"""Exact draws of the keep decision, a vector at a time.

No float takes part: each probability becomes its first 64 bits, computed with certainty, and is
compared with 64 uniform bits. Only where all 64 agree, once in 10^19 draws, are more of both drawn
up. So the decisions have exactly the law of `OptimalSelection.keep_probability`.
"""

import dataclasses
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from aggregator.dp.decimals import expm1, to_decimal, working
from aggregator.dp.partition_selection import OptimalSelection
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError

_WORD_BITS = 64
_TABLE_LIMIT = 2**20
_CHUNK = 2**20
_TABLE_DIGITS = 60


@dataclass(frozen=True, slots=True)
class KeepDecisions:
    """Draws keep or drop for vectors of counts; construct it with `KeepDecisions.of`.

    Attributes:
        selection: The primitive whose law the draws have.
        words: `uint64[m]`, floor(pi(n) 2^64) for n below m; m is at most 2^20.
    """

    selection: OptimalSelection
    words: NDArray[np.uint64] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, selection: OptimalSelection) -> "KeepDecisions":
        """Prepare the table of probabilities."""
        certain = selection.first_certain
        size = _TABLE_LIMIT if certain is None else min(_TABLE_LIMIT, certain)
        return cls(selection, np.array(_words(selection, size), dtype=np.uint64))

    def draw(self, counts: NDArray[np.int64], entropy: Entropy) -> NDArray[np.bool_]:
        """Return one independent decision for each count; True keeps the bucket.

        Args:
            counts: `int64[n]`, each at least 0.
            entropy: Gives eight bytes a decision.

        Returns:
            `bool[n]`. Element i is one exact sample of Bernoulli(pi(counts[i])).

        Raises:
            ParameterError: A count is negative.
        """
        if counts.size and int(counts.min()) < 0:
            raise ParameterError(f"counts must be at least 0, not {int(counts.min())}")
        chunks = [
            self._draw_chunk(counts[start : start + _CHUNK], entropy)
            for start in range(0, counts.size, _CHUNK)
        ]
        return np.concatenate(chunks) if chunks else np.zeros(0, dtype=np.bool_)

    def _draw_chunk(self, counts: NDArray[np.int64], entropy: Entropy) -> NDArray[np.bool_]:
        uniform = np.frombuffer(entropy.bytes(8 * counts.size), dtype="<u8")
        certain = self.selection.first_certain
        if certain is None:
            return np.zeros(counts.size, dtype=np.bool_)
        certain = min(certain, np.iinfo(np.int64).max)
        last = self.words.size - 1
        words = self.words.take(np.minimum(counts, last)) if last >= 0 else uniform
        always = counts >= certain
        keep = (uniform < words) | always
        ties = ~always & ((uniform == words) | (counts > last))
        for i in np.flatnonzero(ties):
            keep[i] = self._settle(int(counts[i]), int(uniform[i]), entropy)
        return keep

    def _settle(self, count: int, prefix: int, entropy: Entropy) -> bool:
        """Decide for `count` when the uniform number starts with the 64 bits of `prefix`."""
        bits = _WORD_BITS
        while True:
            word = self.selection.threshold_word(count, bits)
            if prefix != word:
                return prefix < word
            prefix = prefix << _WORD_BITS | int.from_bytes(entropy.bytes(8), "little")
            bits += _WORD_BITS


def _words(selection: OptimalSelection, size: int) -> list[int]:
    """Return floor(pi(n) 2^64) for n below `size`, all of them below pi = 1.

    The recursion's relative error grows by 3e-60 a step, so after 2^20 steps it is below 1e-53;
    where that leaves the floor in doubt the closed form decides.
    """
    if selection.delta == 0:
        return [0]
    words = []
    with working(_TABLE_DIGITS):
        growth = 1 + expm1(to_decimal(selection.epsilon))
        delta = to_decimal(selection.delta)
        keep, unit, margin = Decimal(0), Decimal(2) ** _WORD_BITS, Decimal("1e-30")
        for count in range(size):
            scaled = keep * unit
            word = math.floor(scaled)
            if not margin < scaled - word < 1 - margin:
                word = selection.threshold_word(count, _WORD_BITS)
            words.append(word)
            keep = min(growth * keep + delta, 1 - (1 - delta - keep) / growth)
    return words
