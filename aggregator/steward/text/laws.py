"""The exact laws of scores, for strings that nobody holds and for held ones.

A string's score is the sum, over all tasks, of its bucket less the mean of that task's buckets,
each limited from above, less the average of this sum (`Clip`). The limit keeps a frequent string
from lifting every string that shares one bucket with it above the threshold. Limited values are
rounded to whole units before they are added, so the law of a sum is a convolution on integers.
This is the law of the very numbers that a decoder adds, not a normal approximation: with few tasks
the tail is heavy.

A decoder's convolutions add only positive terms, so tails have the relative precision of doubles.
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
"""A bucket counts for at most this multiple of what the threshold needs per task."""

_STEPS: Final = 32
"""Units between 0 and the limit."""

_LOWEST: Final = -4 * _STEPS
"""Smaller values are raised to this, which only makes the law of empty strings heavier."""


@dataclasses.dataclass(frozen=True, slots=True)
class Clip:
    """The limits and the unit for a threshold, the least score at which a string counts as held.

    A score adds up a bucket of each task. Only tests are without the limits: they show what goes
    wrong.
    """

    threshold: float
    tasks: int
    is_limited: bool = True

    @property
    def unit(self) -> float:
        """The size of one unit, in reports."""
        return CLIP * self.threshold / (self.tasks * _STEPS)

    def units(self, values: Floats) -> Units:
        """Return values less their mean, limited, in units."""
        highest = _STEPS if self.is_limited else None
        return np.clip(np.rint(values / self.unit), _LOWEST, highest).astype(np.int32)

    def law(self, values: Floats, weights: Floats | None = None) -> Floats:
        """Return the law of a value drawn with these weights; index 0 is the least unit."""
        found = np.bincount(self.units(values).ravel() - _LOWEST, weights, _STEPS - _LOWEST + 1)
        return np.asarray(found / found.sum(), np.float64)

    def level(self, mean: float) -> int:
        """Return the threshold in units, for sums that average `mean` units."""
        return math.ceil(self.tasks * _STEPS / CLIP + mean)

    def chance(self, laws: Sequence[Floats]) -> float:
        """Return the chance that a string which nobody holds reaches the threshold."""
        return self._reached(_together(laws), sum(map(mean_of, laws)))

    def chance_of_equal(self, law: Floats, empty: Floats) -> float:
        """Return the chance that a string whose buckets all have one law reaches the threshold.

        `empty` is the law of all buckets, which gives the average of sums. By Fourier transforms,
        right to about 1e-14; plans ask for 1e-12 and more.
        """
        size = 2 ** math.ceil(math.log2(self.tasks * (len(law) - 1) + 1))
        together = np.fft.irfft(np.fft.rfft(law, size) ** self.tasks, size)
        return self._reached(np.maximum(together, 0), self.tasks * mean_of(empty))

    def _reached(self, law: Floats, mean: float) -> float:
        first = self.level(mean) - self.tasks * _LOWEST
        return min(1.0, float(law[max(0, first) :].sum()))


def mean_of(law: Floats) -> float:
    """Return the mean of a law, in units."""
    return float(law @ np.arange(_LOWEST, _LOWEST + len(law)))


def _together(laws: Sequence[Floats]) -> Floats:
    """Return the law of the sum of independent draws, shortest laws first."""
    waiting = list(laws)
    while len(waiting) > 1:
        pairs = zip(waiting[::2], waiting[1::2], strict=False)
        waiting = [np.convolve(one, other) for one, other in pairs] + waiting[len(waiting) & ~1 :]
    return waiting[0]


def least_threshold(expected: Callable[[float], float], false: float, deviation: float) -> float:
    """Return the least threshold that few false strings pass, searched from above.

    `expected` returns how many pass a threshold, and `false` is the most that may. The deviation is
    of an unlimited score.
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
"""Thresholds within this ratio count as equal."""
