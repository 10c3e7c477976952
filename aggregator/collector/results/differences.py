"""The difference of two quantities of any kind.

The part that is linear in the noise of both has an exact law (`LinearPart`), and two quantiles of
independent bins are ruled out in pairs. Where neither applies, both intervals at once bound the
difference, as if all noise were at its worst in both, in opposite directions.
"""

import dataclasses
import heapq
import math
from collections.abc import Iterator
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import NO_LOWER, NO_UPPER, ConfidenceInterval
from aggregator.collector.results.quantiles import BinNoise, Quantile
from aggregator.collector.results.sums import SumLaw, check_confidence
from aggregator.collector.results.values import (
    LinearPart,
    Noised,
    Quantity,
    Source,
    joint_intervals,
)
from aggregator.dp.utility import DEFAULT_CONFIDENCE

_MISS_OF_EVENT = Fraction(1, 80)
"""The part of the miss that is set aside for each event beside the exact law."""

_MOST_PAIRS = 4000
_MOST_WIDTHS = 40
"""How many pairs of bins are examined, with exact widths, before the rest are kept."""

_DIGITS = 16
"""The ratio of two report counts is rounded to one over this, to keep laws short."""


def difference(first: Quantity, second: Quantity) -> Quantity:
    """Return `first` minus `second`, for any two quantities."""
    if isinstance(first, Noised) and isinstance(second, Noised):
        return first - second
    match first, second:
        case Quantile(), Quantile() if not first.sources() & second.sources():
            return QuantileDifference(first, second, unit=first.unit)
    return Difference(first, second, unit=first.unit)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Difference(Quantity):
    """The difference of two quantities, first minus second."""

    first: Quantity
    second: Quantity

    @property
    @override
    def estimate(self) -> Fraction | None:
        minuend, subtrahend = self.first.estimate, self.second.estimate
        return None if minuend is None or subtrahend is None else minuend - subtrahend

    @override
    def sources(self) -> frozenset[Source]:
        return self.first.sources() | self.second.sources()

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        """Return an interval by the linear parts, by both intervals, or by both ways at once.

        What is chosen depends on the noise, which must not choose the way that misses. A ratio has
        two limits for its noised denominator, as far apart as its noise may move it both ways:
        below both, the second way is taken, above both the first, and between them the interval
        holds what both say. So unless an event happens that is set aside, a true denominator in the
        upper half is never left to the second way alone, nor one in the lower half to the first.
        """
        check_confidence(confidence)
        aside = _MISS_OF_EVENT * (1 - confidence)
        parts = self.first.linear_part(aside), self.second.linear_part(aside)
        if parts[0] is None or parts[1] is None:
            found = self._by_both(confidence + 2 * aside)
            return dataclasses.replace(found, confidence=confidence)
        found = _by_linear_parts(parts[0], parts[1], aside, confidence)
        if parts[0].is_borderline or parts[1].is_borderline:
            both = self._by_both(confidence + 2 * aside)
            low, high = min(found.low, both.low), max(found.high, both.high)
            found = dataclasses.replace(found, low=low, high=high)
        return dataclasses.replace(found, confidence=confidence)

    def _by_both(self, confidence: Fraction) -> ConfidenceInterval:
        first, second = joint_intervals([self.first, self.second], confidence)
        low, high = first.low - second.high, first.high - second.low
        if math.isnan(low) or math.isnan(high):
            low, high = NO_LOWER, NO_UPPER
        return ConfidenceInterval(low, high, confidence, f"both at once ({first.method})")


def _by_linear_parts(
    first: LinearPart, second: LinearPart, aside: Fraction, confidence: Fraction
) -> ConfidenceInterval:
    noise = first.noise - second.noise
    exact = confidence + (first.asides + second.asides) * aside
    width = noise.law.width(exact).size + first.slack + second.slack
    return ConfidenceInterval(
        noise.value - width,
        noise.value + width,
        confidence,
        "exact law of the linear part, with a bound of the rest",
    ).within(first.low - second.high, first.high - second.low)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class QuantileDifference(Difference):
    """The difference of two quantiles, of bins that have no noise in common.

    If the first quantile is in bin I, the noise up to the bin below is above what is seen there;
    if the second is in bin J, the noise up to it is below. So the pair is too far apart, first up
    and second down, if the sum of both excesses is beyond what the sum of their noise exceeds with
    half the miss; and the same with first down and second up. Only the true pair must be kept, so
    the number of pairs needs no correction. Bins that either quantile is not in
    by itself, at a miss that is set aside, are not looked at.
    """

    first: Quantile
    second: Quantile

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        aside = 2 * _MISS_OF_EVENT * (1 - confidence)
        return ConfidenceInterval(
            -self._furthest(self.second, self.first, confidence, aside),
            self._furthest(self.first, self.second, confidence, aside),
            confidence,
            "whole bins, each pair ruled out by the exact law or not",
        )

    def _furthest(
        self, upper: Quantile, lower: Quantile, confidence: Fraction, aside: Fraction
    ) -> Fraction:
        """Return the most by which `upper` may be above `lower`."""
        up, down = BinNoise(upper.bins), BinNoise(lower.bins)
        above, below = upper.excesses(), lower.excesses()
        factor = self._factor(upper, lower)
        asked, furthest = 0, Fraction(0)
        pairs = _pairs(upper, lower, confidence=1 - aside)
        for number, (apart, high, low) in enumerate(pairs):
            furthest = apart
            is_last = high == 0 or low == len(lower.bins) - 1
            if is_last or number == _MOST_PAIRS or asked == _MOST_WIDTHS:
                break
            beyond = above[high - 1] - factor * below[low]
            counts = up.counts(high - 1, upper.taken(high - 1))
            for (each, weight), count in down.counts(low, lower.taken(low)).items():
                counts[each, factor * weight] += count
            law = SumLaw.counted(counts)
            exact = confidence + 2 * aside
            if beyond < law.chernoff_width(exact):
                asked += 1
                if beyond < law.width(exact).size:
                    break
        return furthest

    def _factor(self, upper: Quantile, lower: Quantile) -> Fraction:
        """Return the weight of a report of `lower` beside one of `upper`; any public one works."""
        if upper.report_count is None or lower.report_count is None:
            return Fraction(1)
        ratio = Fraction(upper.report_count, lower.report_count)
        return Fraction(max(1, round(ratio * _DIGITS)), _DIGITS)


def _pairs(
    upper: Quantile, lower: Quantile, confidence: Fraction
) -> Iterator[tuple[Fraction, int, int]]:
    """Yield pairs of bins that the quantiles may be in, with their distance, the furthest first."""
    first, last = upper.kept(confidence)
    start, end = lower.kept(confidence)

    def apart(high: int, low: int) -> Fraction:
        return Fraction(upper.edges[high + 1]) - Fraction(lower.edges[low])

    waiting = [(-apart(last, start), last, start)]
    while waiting:
        negative, high, low = heapq.heappop(waiting)
        yield -negative, high, low
        if low < end:
            heapq.heappush(waiting, (-apart(high, low + 1), high, low + 1))
        if low == start and high > first:
            heapq.heappush(waiting, (-apart(high - 1, low), high - 1, low))
