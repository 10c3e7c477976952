"""The difference of two quantities of any kind.

Two ratios are ruled out in pairs, by the law that their noise would have together, and so are two
variances at each pair of means that is possible (`RatioDifference`); two quantiles of independent
bins are ruled out in pairs of bins. Otherwise both intervals at once bound the difference, as if
all noise were at its worst in both, in opposite directions.
"""

import dataclasses
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import NO_LOWER, NO_UPPER, Bound, ConfidenceInterval
from aggregator.collector.results.moments import Variance
from aggregator.collector.results.moments_of_some import MISS_OF_MEAN, VarianceOfSome
from aggregator.collector.results.quantiles import BinNoise, Quantile
from aggregator.collector.results.ratios import Ratio, ratio, rounded
from aggregator.collector.results.sums import SumLaw, check_confidence
from aggregator.collector.results.values import (
    Noised,
    Quantity,
    Source,
    combination,
    joint_intervals,
)
from aggregator.dp.utility import DEFAULT_CONFIDENCE

_MISS_OF_CUT = Fraction(1, 40)
"""The part of the miss that is set aside for where each ratio is by itself."""

_MISS_OF_WEIGHTS = Fraction(1, 40)
"""The part that is set aside because the data choose the weights of two ratios' noise."""

_MISS_OF_EVENT = Fraction(1, 80)
"""The part of the miss that is set aside for each of two quantiles by itself."""

_WEIGHT_BITS = 10
"""The binary digits of weights and ratios in a law, which keep fractions short."""

_MOST_PAIRS = 4000
_MOST_WIDTHS = 40
"""How many pairs of bins are examined, with exact widths, before the rest are kept."""

_DIGITS = 16
"""The ratio of two report counts is rounded to one over this, to keep laws short."""


def difference(first: Quantity, second: Quantity) -> Quantity:
    """Return `first` minus `second`, for any two quantities."""
    match first, second:
        case Noised(), Noised():
            return first - second
        case Ratio(), Ratio() if _is_same(first.denominator, second.denominator):
            return _of_one_whole(first, second)
        case Quantile(), Quantile() if not first.sources() & second.sources():
            return QuantileDifference(first, second, unit=first.unit)
        case (Noised() | Ratio(), Noised() | Ratio()) | (
            Variance() | VarianceOfSome(),
            Variance() | VarianceOfSome(),
        ):
            return RatioDifference(first, second, unit=first.unit)
        case _:
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

    @property
    @override
    def limits(self) -> tuple[Bound, Bound]:
        (low, high), (least, most) = self.first.limits, self.second.limits
        return low - most, high - least

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        """Return an interval by both intervals at once."""
        check_confidence(confidence)
        first, second = joint_intervals([self.first, self.second], confidence)
        low, high = first.low - second.high, first.high - second.low
        if math.isnan(low) or math.isnan(high):
            low, high = NO_LOWER, NO_UPPER
        found = ConfidenceInterval(low, high, confidence, f"both at once ({first.method})")
        return found.within(*self.limits)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RatioDifference(Difference):
    """The difference of two ratios, of two means, or of two variances.

    With x and y what is seen of numerator and denominator, and r the true ratio, x - r y is noise
    alone, of a known law. So at the true pair r, r' the noise of (x - r y) / w - (x' - r' y') / w'
    has a known law for any weights w and w'. A pair is ruled out where that is wider than its noise
    is with the probability of the miss. With the denominators that are seen for weights, what is
    left are the pairs whose difference is near enough to the difference of the ratios that are
    seen; they are cut by the interval of each ratio by itself, at a small part of the miss.

    The law is exact for weights that are fixed beforehand. That the data choose them moves the
    coverage by what is of the second order in the noise of the denominators; a part of the miss is
    set aside for it, which simulations do not use up even where a denominator is three standard
    deviations of its noise.

    The variance of numbers of mean m is a ratio, if m is known; see `VarianceOfSome`. So each pair
    of possible means has its own differences.
    """

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        miss = 1 - confidence
        aside = MISS_OF_MEAN * miss
        sides = [_at_possible_means(each, 1 - aside) for each in (self.first, self.second)]
        asides = sum(aside for side in sides if len(side) > 1)
        found = [
            _of_pair(one, two, confidence + asides, miss) for one, two in itertools.product(*sides)
        ]
        if any(each is None for each in found):
            return super().interval(confidence)
        ends = [each for each in found if each is not None]
        return ConfidenceInterval(
            min(low for low, _ in ends),
            max(high for _, high in ends),
            confidence,
            "exact law of both noises together, at possible pairs",
        ).within(*self.limits)


def _is_same(one: Noised, other: Noised) -> bool:
    return one is other or (one.value == other.value and one.terms == other.terms)


def _of_one_whole(first: Ratio, second: Ratio) -> Ratio:
    """Return the difference of two ratios with one denominator, which is a ratio, too."""
    return ratio(
        first.numerator - second.numerator,
        first.denominator,
        unit=first.unit,
        least=first.least - second.most,
        most=first.most - second.least,
    )


def _at_possible_means(quantity: Quantity, confidence: Fraction) -> Sequence[Ratio]:
    """Return what a quantity is as a ratio, of a variance at each mean that is possible."""
    match quantity:
        case Ratio():
            return [quantity]
        case Noised():
            return [ratio(quantity, Noised.exact(1))]
        case Variance():
            return _at_possible_means(quantity.of_all, confidence)
        case VarianceOfSome():
            low, high = quantity.limits
            means = quantity.possible_means(confidence)
            found = [quantity.about(mean) for mean in {means[0], means[len(means) // 2], means[-1]}]
            return [dataclasses.replace(each, least=low, most=high) for each in found]
        case _:
            raise TypeError(type(quantity))


def _of_pair(
    first: Ratio, second: Ratio, confidence: Fraction, miss: Fraction
) -> tuple[Bound, Bound] | None:
    """Return the ends of a difference; None if nothing is known of one ratio by itself.

    Args:
        first: The one.
        second: The ratio that is subtracted.
        confidence: Of the interval; less is set aside from its own miss here.
        miss: The miss of the whole, of which parts are set aside.
    """
    if _is_same(first.denominator, second.denominator):
        found = _of_one_whole(first, second).interval(confidence)
        return (found.low, found.high) if found.is_bounded else None
    if abs(first.denominator.value) < abs(second.denominator.value):
        turned = _of_pair(second, first, confidence, miss)  # so that both ways say the same
        return None if turned is None else (-turned[1], -turned[0])
    aside = _MISS_OF_CUT * miss
    cuts = [_cut(each, 1 - aside) for each in (first, second)]
    exact = confidence + 2 * aside + _MISS_OF_WEIGHTS * miss
    (over, under), (other, whole) = first.upright(), second.upright()
    low, high = cuts[0][0] - cuts[1][1], cuts[0][1] - cuts[1][0]
    if not math.isfinite(high - low):
        return None
    if under.value <= 0 or whole.value <= 0:
        return low, high
    (least, most), (start, end) = ((Fraction(each[0]), Fraction(each[1])) for each in cuts)
    seen, beside = over.value / under.value, other.value / whole.value
    weight = rounded(under.value / whole.value, _WEIGHT_BITS)

    def width(one: Fraction, two: Fraction) -> Fraction:
        """Return how far the difference may be from what is seen, at a pair of true ratios."""
        noise = combination(
            [
                (over, 1),
                (under, -rounded(one, _WEIGHT_BITS)),
                (other, -weight),
                (whole, weight * rounded(two, _WEIGHT_BITS)),
            ]
        )
        # The weight is not quite the ratio of what is seen.
        rest = abs(under.value - weight * whole.value) * abs(beside - two)
        return (noise.law.width(exact).size + rest) / under.value

    centre = width(min(max(seen, least), most), min(max(beside, start), end))
    ends = list[Fraction]()
    for sign in (-1, 1):
        apart = seen - beside + sign * centre
        # All pairs that far apart: the first ratio from `first_one` to `last_one`.
        first_one, last_one = max(least, start + apart), min(most, end + apart)
        if first_one > last_one:
            ends.append(Fraction(low if sign < 0 else high))
            continue
        widest = max(width(one, one - apart) for one in {first_one, last_one})
        ends.append(seen - beside + sign * widest)
    return max(Fraction(low), ends[0]), min(Fraction(high), ends[1])


def _cut(one: Ratio, confidence: Fraction) -> tuple[Bound, Bound]:
    """Return limits of a true ratio by itself, which need not be the narrowest.

    From y (q - r) = X - r Y, with q the ratio that is seen, follows |q - r| (y - |Y|) <= |X - q Y|.
    """
    over, under = one.upright()
    half = (1 - confidence) / 2 if under.terms else 1 - confidence
    furthest = under.law.width(1 - half).size
    if under.value <= 2 * furthest:
        found = one.interval(confidence)
        return found.low, found.high
    seen = over.value / under.value
    noise = combination([(over, 1), (under, -rounded(seen, _WEIGHT_BITS))])
    off = abs(seen - rounded(seen, _WEIGHT_BITS)) * furthest
    reach = (noise.law.width(1 - half).size + off) / (under.value - furthest)
    cut = ConfidenceInterval(seen - reach, seen + reach, confidence, "").within(*one.limits)
    return cut.low, cut.high


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
