"""The mean and the sum of the numbers that people gave beside a string, with intervals.

The errors of a string's sum and of its count have much in common, since other strings lie in the
same buckets. The sum less beta times the count is what they have not in common. So it is as it
would be if strings were not selected by their counts, and the mean is beta + that / count.
"""

import dataclasses
import math
from fractions import Fraction
from statistics import NormalDist
from typing import Final, TypeAlias

from aggregator.client.text.amounts import Range

Estimated: TypeAlias = tuple[float, float, float]
"""An estimate, and the ends of its interval."""

ONE: Final = Range(Fraction(0), Fraction(1), Fraction(1), "")
"""Zeros and ones."""

_WORST: Final = 0.5
"""The mean, as a part of the range, of which the rounding says least."""


@dataclasses.dataclass(frozen=True, slots=True)
class MeanLaw:
    """What is known of a string's numbers, besides its count.

    Attributes:
        range: The possible numbers.
        base: beta, a number above the least.
        rest: The sum of what the string's numbers are above the least, less beta times its count.
        deviation: The standard deviation of `rest`.
    """

    range: Range
    base: float
    rest: float
    deviation: float

    def mean(self, count: Estimated, confidence: float) -> Estimated:
        """Return the mean, from how many people hold the string.

        Both intervals' errors are put together as the roots of sums of squares.
        """
        held, low, high = count
        if held <= 0:
            return self._within(0), self._within(-math.inf), self._within(math.inf)
        ratio, half = self.rest / held, self._half(confidence)
        down = up = math.inf
        if low > 0:
            least, most = (high, low) if self.rest > 0 else (low, high)
            down = math.hypot(half / held, ratio - self.rest / least)
            up = math.hypot(half / held, self.rest / most - ratio)
        return self._within(ratio), self._within(ratio - down), self._within(ratio + up)

    def sum(self, count: Estimated, confidence: float) -> Estimated:
        """Return the sum, from how many people hold the string.

        The interval has nothing below 0 where no number is, but the estimate may be.
        """
        held, low, high = count
        base, half = self.base + float(self.range.low), self._half(confidence)
        found = base * held + self.rest
        down, up = (math.hypot(base * each, half) for each in (held - low, high - held))
        least = 0.0 if self.range.low >= 0 else -math.inf
        return found, max(least, found - down), max(least, found + up)

    def _half(self, confidence: float) -> float:
        return NormalDist().inv_cdf((1 + confidence) / 2) * self.deviation

    def _within(self, rest: float) -> float:
        low, most = float(self.range.low), float(self.range.size)
        return low + min(most, max(0.0, self.base + rest))


@dataclasses.dataclass(frozen=True, slots=True)
class HowMuch:
    """The mean of a found string's numbers with its interval, their sum, and what says so."""

    mean: float
    low: float
    high: float
    sum: float
    sum_low: float
    sum_high: float
    law: MeanLaw = dataclasses.field(repr=False)

    @classmethod
    def of(cls, law: MeanLaw, count: Estimated, confidence: float) -> "HowMuch":
        """Return what a law says, from how many people hold the string."""
        return cls(*law.mean(count, confidence), *law.sum(count, confidence), law)

    @property
    def document(self) -> dict[str, float]:
        """The same as JSON, without the law."""
        found = dataclasses.asdict(self)
        del found["law"]
        return found


def expected_half_width(
    asked: Range, count: Estimated, deviation: float, confidence: float
) -> float:
    """Return half the width of the interval that a mean is expected to have, at most.

    The deviation is that of the string's count. The rounding to levels adds most where the mean is
    in the middle of the range, as is taken here.
    """
    most = float(asked.size)
    spread = (most / 2) ** 2 * deviation**2 + count[0] * _WORST * (1 - _WORST) * most**2
    law = MeanLaw(asked, _WORST * most, 0.0, math.sqrt(spread))
    _, low, high = law.mean(count, confidence)
    return (high - low) / 2
