"""The variance of a number that only some people gave, whose count has noise too."""

import dataclasses
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import ConfidenceInterval
from aggregator.collector.results.ratios import ratio
from aggregator.collector.results.sums import check_confidence
from aggregator.collector.results.values import (
    Exact,
    Noised,
    Quantity,
    Source,
    check_noised,
    combination,
    rational,
)
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError

_POINTS = 64
"""One point is chosen from this many plus one possible means, all fixed beforehand."""

_MISS_OF_MEAN = Fraction(1, 4)
"""The part of the miss that is set aside for the mean."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class VarianceOfSome(Quantity):
    """The variance among the people who gave a number from 0 to `most`.

    It is that of these people, divided by their number and not by one less.

    With v the true variance and m the true mean, the mean of the squared distances from a point p
    is v + (p - m)^2, and is the ratio of two linear combinations of what was released. So it has an
    interval by Fieller's inversion, and so has m. The point is the one nearest to the mean that is
    seen, among points that do not depend on the data: the miss is shared out over all of them.
    """

    people: Noised
    sum_: Noised
    squares: Noised
    most: Exact

    def __post_init__(self) -> None:
        check_noised(self.people, self.sum_, self.squares)
        if self.most <= 0:
            raise ParameterError(f"most: must be above 0, not {self.most}")

    @property
    @override
    def estimate(self) -> Fraction | None:
        """The variance of the noised moments, cut where no variance can be."""
        if self.people.value <= 0:
            return None
        mean = self.sum_.value / self.people.value
        found = self.squares.value / self.people.value - mean**2
        return max(Fraction(0), min(found, self._largest(mean, mean)))

    @override
    def sources(self) -> frozenset[Source]:
        return self.people.sources() | self.sum_.sources() | self.squares.sources()

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        miss, most = 1 - confidence, rational(self.most)
        found = ratio(self.sum_, self.people).interval(1 - _MISS_OF_MEAN * miss)
        low = min(max(Fraction(0), _exact(found.low, 0)), most)
        high = max(low, min(most, _exact(found.high, most)))
        point = most * round(_POINTS * self._seen() / most) / _POINTS
        squares = combination([(self.squares, 1), (self.sum_, -2 * point), (self.people, point**2)])
        about = ratio(squares, self.people).interval(1 - (1 - _MISS_OF_MEAN) * miss / (_POINTS + 1))
        least = _exact(about.low, 0) - max(abs(point - low), abs(point - high)) ** 2
        nearest = min(max(point, low), high)  # the possible mean that is nearest to the point
        most_about = _exact(about.high, most**2) - (point - nearest) ** 2
        top = max(Fraction(0), min(most_about, self._largest(low, high)))
        return ConfidenceInterval(
            min(max(Fraction(0), least), top),
            top,
            confidence,
            "Fieller's inversion about a point, with bounds of the mean",
        )

    def _seen(self) -> Fraction:
        """Return the mean as it is seen, within its range."""
        most = rational(self.most)
        if self.people.value <= 0:
            return most / 2
        return min(max(Fraction(0), self.sum_.value / self.people.value), most)

    def _largest(self, low: Fraction, high: Fraction) -> Fraction:
        """Return the largest variance of numbers whose mean is between two."""
        most = rational(self.most)
        mean = min(max(most / 2, low), high)
        return max(Fraction(0), mean * (most - mean))


def _exact(bound: Fraction | float, otherwise: Exact) -> Fraction:
    """Return a bound if it is finite, else `otherwise`."""
    return bound if isinstance(bound, Fraction) else rational(otherwise)
