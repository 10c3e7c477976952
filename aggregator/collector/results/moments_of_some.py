"""The variance of numbers, from noised moments: of everybody, or of those who gave a number.

With v the true variance, m the true mean, and N, S and Q the sums of 1, of the numbers and of their
squares, (Q - 2 m S + m^2 N) / N = v. So at the true mean the variance is the ratio of two linear
combinations of what was released, whose noise has a known law: those pairs of m and v that are not
ruled out by it are a set with its whole confidence. It is cut by an interval of the mean at a small
part of the miss, and what is left of it reaches from the least variance to the most.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import NO_LOWER, NO_UPPER, Bound, ConfidenceInterval
from aggregator.collector.results.ratios import Ratio, ratio
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

MISS_OF_MEAN = Fraction(1, 20)
"""The part of the miss that is set aside for the mean."""

_BITS = 2**12
"""Means are rounded to a part of their interval, so that fractions are short."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class VarianceOfSome(Quantity):
    """The variance among the people who gave a number from 0 to `most`; None has no limit.

    It is that of these people, divided by their number and not by one less.
    """

    people: Noised
    sum_: Noised
    squares: Noised
    most: Exact | None

    def __post_init__(self) -> None:
        check_noised(self.people, self.sum_, self.squares)
        if self.most is not None and self.most <= 0:
            raise ParameterError(f"most: must be above 0, not {self.most}")

    @property
    @override
    def estimate(self) -> Fraction | None:
        """The variance of the noised moments, cut where no variance can be."""
        if self.people.value <= 0:
            return None
        mean = self.sum_.value / self.people.value
        found = self.squares.value / self.people.value - mean**2
        cut = min(found, self._largest(mean, mean))
        return max(Fraction(0), Fraction(cut))

    @override
    def sources(self) -> frozenset[Source]:
        return self.people.sources() | self.sum_.sources() | self.squares.sources()

    @property
    @override
    def limits(self) -> tuple[Bound, Bound]:
        if self.most is None:
            return Fraction(0), NO_UPPER
        return Fraction(0), rational(self.most) ** 2 / 4

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        aside = MISS_OF_MEAN * (1 - confidence)
        means = self.possible_means(1 - aside)
        # What a mean far from the true one takes for the variance is too large, by the square of
        # the distance: the most is at one of the ends, the least between them.
        lows = [self.about(mean).low_end(confidence + aside) for mean in means]
        highs = [
            -self.about(mean).negative().low_end(confidence + aside)
            for mean in {means[0], means[-1]}
        ]
        top = max(Fraction(0), self._largest(means[0], means[-1]))
        return ConfidenceInterval(
            min(lows), max(highs), confidence, "Fieller's inversion at possible means"
        ).within(Fraction(0), top)

    def about(self, point: Fraction) -> Ratio:
        """Return the mean of squared distances from a point: the variance, if it is the mean."""
        squares = combination([(self.squares, 1), (self.sum_, -2 * point), (self.people, point**2)])
        return ratio(squares, self.people)

    def possible_means(self, confidence: Fraction) -> Sequence[Fraction]:
        """Return the least mean that is possible, the most, and some between, in order.

        The one that is seen, if it can be, is among them.
        """
        most = NO_UPPER if self.most is None else rational(self.most)
        least = NO_LOWER if self.most is None else Fraction(0)
        found = ratio(self.sum_, self.people, least=least, most=most).interval(confidence)
        assert isinstance(found.low, Fraction)  # noqa: S101  without limits people are exact
        assert isinstance(found.high, Fraction)  # noqa: S101  the same
        low, high = found.low, found.high
        unit = (high - low) / _BITS
        if not unit:
            return [low]
        seen = (low + high) / 2
        if self.people.value > 0:
            seen = min(max(self.sum_.value / self.people.value, low), high)
        seen = low + unit * round((seen - low) / unit)
        return sorted({low, (low + seen) / 2, seen, (seen + high) / 2, high})

    def _largest(self, low: Fraction, high: Fraction) -> Bound:
        """Return the largest variance of numbers whose mean is between two."""
        if self.most is None:
            return NO_UPPER
        most = rational(self.most)
        mean = min(max(most / 2, low), high)
        return max(Fraction(0), mean * (most - mean))
