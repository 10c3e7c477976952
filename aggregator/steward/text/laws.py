"""The exact laws of scores: what a string that nobody holds scores, and what a held one does.

A string's score is the sum, over all tasks, of its bucket less the mean of that task's buckets,
each limited from above, less what this sum is on average (`Clip`). The limit is what keeps a
frequent string from making hits of all that share one bucket with it. Limited values are rounded to
whole units before they are added, so the law of a sum is a convolution of whole numbers, and what
is computed here is the law of the very numbers that a decoder adds: no quantile of a normal law
stands for it. Few tasks have a heavy tail.

Terms of a decoder's convolutions are all positive, so tails have the relative precision of doubles.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Units = npt.NDArray[np.int32]

CLIP: Final = 1.3
"""A bucket counts for at most so many times what it would need to hold for the threshold."""

_STEPS: Final = 32
"""Units between 0 and the limit."""

_LOWEST: Final = -4 * _STEPS
"""Nothing counts for less: a larger value only makes the law of empty strings heavier."""


@dataclasses.dataclass(frozen=True, slots=True)
class Clip:
    """The limits and the unit that belong to a threshold.

    Attributes:
        threshold: The least score, in reports, of a string that is taken for held.
        tasks: Over how many buckets a score adds.
        is_limited: Whether values are limited from above; not to do so is the trap that tests show.
    """

    threshold: float
    tasks: int
    is_limited: bool = True

    @property
    def unit(self) -> float:
        """What one unit is, in reports."""
        return CLIP * self.threshold / (self.tasks * _STEPS)

    def units(self, values: Floats) -> Units:
        """Return values less their mean in units, limited."""
        highest = _STEPS if self.is_limited else None
        return np.clip(np.rint(values / self.unit), _LOWEST, highest).astype(np.int32)

    def law(self, values: Floats, weights: Floats | None = None) -> Floats:
        """Return the law of one of the values, drawn by the weights; index 0 is the least unit."""
        found = np.bincount(self.units(values).ravel() - _LOWEST, weights, _STEPS - _LOWEST + 1)
        return np.asarray(found / found.sum(), np.float64)

    def level(self, mean: float) -> int:
        """Return the threshold in units, for sums that are `mean` units on average."""
        return math.ceil(self.tasks * _STEPS / CLIP + mean)

    def chance(self, laws: Sequence[Floats]) -> float:
        """Return the chance that a string which nobody holds reaches the threshold.

        Args:
            laws: Of each task's buckets.
        """
        return self._reached(_together(laws), sum(map(mean_of, laws)))

    def chance_of_equal(self, law: Floats, empty: Floats) -> float:
        """Return the chance that a string reaches it whose buckets all have one law.

        By Fourier transforms: right to about 1e-14, where plans ask for 1e-12 and more.

        Args:
            law: Of the string's buckets.
            empty: Of all buckets, which says what sums are on average.
        """
        size = 2 ** math.ceil(math.log2(self.tasks * (len(law) - 1) + 1))
        together = np.fft.irfft(np.fft.rfft(law, size) ** self.tasks, size)
        return self._reached(np.maximum(together, 0), self.tasks * mean_of(empty))

    def _reached(self, law: Floats, mean: float) -> float:
        first = self.level(mean) - self.tasks * _LOWEST
        return min(1.0, float(law[max(0, first) :].sum()))


def mean_of(law: Floats) -> float:
    """Return the mean of a law in units."""
    return float(law @ np.arange(_LOWEST, _LOWEST + len(law)))


def _together(laws: Sequence[Floats]) -> Floats:
    """Return the law of the sum of independent draws, short ones first."""
    waiting = list(laws)
    while len(waiting) > 1:
        pairs = zip(waiting[::2], waiting[1::2], strict=False)
        waiting = [np.convolve(one, other) for one, other in pairs] + waiting[len(waiting) & ~1 :]
    return waiting[0]


def least_threshold(expected: Callable[[float], float], false: float, deviation: float) -> float:
    """Return the least threshold above which few false strings pass, looked for from above.

    Args:
        expected: How many false strings pass a threshold.
        false: How many may.
        deviation: Of an unlimited score.
    """
    high = 8 * deviation
    while expected(high) > false:
        high *= 2
    low = high / _STRIDE
    while expected(low) <= false and low > deviation:
        low, high = low / _STRIDE, low
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if expected(middle) > false else (low, middle)
    return high


_STRIDE: Final = 1.2
_CLOSE: Final = 1.005
"""Thresholds so near to each other are as good."""
