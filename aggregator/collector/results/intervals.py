"""An interval for a true value, with the probability that it states and the name of its method."""

import dataclasses
import math
from fractions import Fraction

Bound = Fraction | float
"""A bound of an interval: exact, or plus or minus infinity."""

NO_LOWER, NO_UPPER = -math.inf, math.inf

TOO_FEW = "too few answers to say"
"""What stands in place of a number whose interval covers more than half of what is possible."""

_MOST_COVERED = Fraction(1, 2)


@dataclasses.dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """All true values that the release does not rule out at a confidence.

    It covers only the noise: the true value is that of the people who were asked, not of a wider
    population. It holds if both aggregators added their noise and nothing else.

    Attributes:
        low: The smallest value; minus infinity if there is none.
        high: The largest value; infinity if there is none.
        confidence: With at least this probability, before the noise is drawn, the interval will
            hold the true value.
        jointly: How many values are all covered at once with that probability.
    """

    low: Bound
    high: Bound
    confidence: Fraction
    method: str
    jointly: int = 1

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float | Fraction) and self.low <= value <= self.high

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def covers_most_of(self, low: Bound, high: Bound) -> bool:
        """Return whether it holds more than half of what lies between two limits.

        Such an interval says too little to show a number: a reader would take noise for news.
        """
        if not self.is_bounded:
            return True
        inside = self.within(low, high)
        return inside.high - inside.low > _MOST_COVERED * (high - low)

    def jointly_of(self, count: int, confidence: Fraction, note: str) -> "ConfidenceInterval":
        """Return the interval as one of `count` that all hold at once with this confidence."""
        method = self.method + note
        return dataclasses.replace(self, confidence=confidence, jointly=count, method=method)

    def within(self, low: Bound, high: Bound) -> "ConfidenceInterval":
        """Return the part between limits that hold for certain, without looking at the data.

        If nothing is left, the interval missed, and the nearest limit is returned.
        """
        first, last = min(max(self.low, low), high), max(min(self.high, high), low)
        return dataclasses.replace(self, low=first, high=last)
