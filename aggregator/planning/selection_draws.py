"""Exact draws of keep decisions for whole vectors.

A uniform number has 64 bits until it needs more. For counts below 2^18 a table holds the first 64
bits of each probability, computed with certainty; a comparison settles all but one draw in 10^19.
For larger counts, which only a tiny epsilon and delta leave open, a double decides, but only
outside its proved error. The rest are settled by as many bits of both numbers as it takes. So the
decisions have exactly the law of `OptimalSelection.keep_probability`.
"""

import dataclasses
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from aggregator.dp.decimals import expm1, to_decimal, working
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.planning.partition_selection import OptimalSelection

_WORD_BITS = 64
_TABLE_LIMIT = 2**18
_CHUNK = 2**20
_TABLE_DIGITS = 60
_LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KeepDecisions:
    """Draws keep or drop for vectors of counts; made by `KeepDecisions.of`.

    Attributes:
        selection: The primitive whose law the draws have.
        words: `uint64[m]`, floor(pi(n) 2^64) for n below m; m is at most 2^18.
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
            entropy: Gives eight bytes per decision.

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
        last = self.words.size - 1
        words = self.words.take(np.minimum(counts, last))
        keep, ties = uniform < words, uniform == words
        if certain > self.words.size and int(counts.max()) > last:
            far = counts > last
            keep[far], ties[far] = _by_double(self.selection, counts[far], uniform[far])
        if certain <= _LARGEST_COUNT:
            always = counts >= certain
            keep |= always
            ties &= ~always
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

    The recursion's relative error grows by 3e-60 per step, so after 2^18 steps it is below 1e-53;
    if that leaves the floor in doubt, the closed form decides.
    """
    if selection.delta == 0:
        return [0]
    words = []
    with working(_TABLE_DIGITS):
        growth = to_decimal(selection.epsilon).exp()
        delta = to_decimal(selection.delta)
        keep, unit, doubt = Decimal(0), Decimal(1 << _WORD_BITS), Decimal("1e-45")
        for count in range(size):
            scaled = keep * unit
            word, high = math.floor(scaled * (1 - doubt)), math.floor(scaled * (1 + doubt))
            words.append(word if word == high else selection.threshold_word(count, _WORD_BITS))
            keep = min(growth * keep + delta, 1 - (1 - delta - keep) / growth)
    return words


def _by_double(
    selection: OptimalSelection, counts: NDArray[np.int64], uniform: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which buckets are certainly kept, and which a double cannot decide.

    With x = n epsilon, which the products and functions below take with a relative error of a few
    2^-53 each, ln pi errs by less than (x + |ln delta| + |ln epsilon| + 10) 2^-50, and so does pi
    relatively; in the upper branch 1 - pi is a difference of two terms below 1, each with such a
    relative error. Counts are those below the first certain one.

    Args:
        selection: With an epsilon above 0: at 0 a double could tell every probability.
        counts: `int64[n]`.
        uniform: `uint64[n]`, the first 64 bits of each uniform number.
    """
    n1 = selection.n1 or 1
    with working():
        epsilon, delta = to_decimal(selection.epsilon), to_decimal(selection.delta)
        log_delta = float(delta.ln())
        log_scale = float((delta / expm1(epsilon)).ln()) if epsilon else 0.0
        reach = float((selection.n2 or 1) * epsilon)
        at_n1 = float(selection.keep_probability(n1))
        rate, log_rate = float(epsilon), float(epsilon.ln()) if epsilon else 0.0
    if rate == 0:
        return np.zeros(counts.size, dtype=np.bool_), np.ones(counts.size, dtype=np.bool_)
    doubt = (reach + abs(log_delta) + abs(log_rate) + 10) * 2.0**-50
    below = rate * np.minimum(counts, n1)
    # ln(e^x - 1) is x from 50 on, to a double's last digit.
    log_grown = np.where(below < 50, np.log(np.expm1(np.minimum(below, 50))), below)  # noqa: PLR2004 - said above
    lower = np.exp(log_scale + log_grown)
    above = rate * np.maximum(counts - n1, 0)
    fallen = np.exp(log_scale + np.log(-np.expm1(-np.maximum(above, rate))))
    upper = 1 - (np.exp(-above) * (1 - at_n1) - fallen)
    keep = np.where(counts <= n1, lower, upper)
    error = np.where(counts <= n1, keep * doubt, 3 * doubt)
    unit = 2.0**-_WORD_BITS
    # The uniform number lies in [first, first + 1) 2^-64; its double errs by 2^-53 of itself.
    first = uniform.astype(np.float64)
    kept = (first + 1) * unit * (1 + 2.0**-50) < keep - error
    dropped = first * unit * (1 - 2.0**-50) > keep + error
    return kept, ~(kept | dropped)
