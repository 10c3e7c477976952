"""The ratio of two noised values, by Fieller's inversion with the exact law of the noise.

For the true ratio r, numerator - r denominator has a true value of zero, so its noise alone decides
how far from zero it is seen: r is ruled out if that is beyond the width w(r) of that noise.

With X and Y the noise of the two values, |X - r Y| <= |X - c Y| + |r - c| |Y| for every c, so

    w(r) <= w(c) + |r - c| y        where P(|Y| > y) is set aside from the miss of w(c)

If the denominator is above y, one c near each end of the interval rules out everything beyond it.

Otherwise, what is far out is ruled out from near the estimate, with nearly the whole miss for Y:

    w(r) <= w'(c) + |r - c| y'    where P(|X - c Y| > w'(c)) is a small part, P(|Y| > y') the rest

so that there are bounds whenever the denominator is above y', which is when Fieller's set has some;
and from there c comes nearer to the end, step by step.

Source: [Fie54]
"""

import dataclasses
import math
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import NO_LOWER, NO_UPPER, Bound, ConfidenceInterval
from aggregator.collector.results.sums import check_confidence
from aggregator.collector.results.values import Noised, Quantity, Source, check_noised, combination
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError

_DENOMINATOR_SHARE = Fraction(1, 20)
"""The part of the miss that is set aside for the noise of the denominator."""

_REMAINDER_SHARE = Fraction(1, 1024)
"""The part of the miss that is left for the rest where the denominator gets nearly all of it."""

_ROUNDS = 4
_NEAR = Fraction(1, 256)
"""The part of the width to which c nears the end of the interval; a result holds with any c."""

_STEPS = 24
"""The most steps towards an end from far out; the interval holds even without any."""

_BITS = 12
"""The binary digits that c is rounded to, for short fractions."""

_FEW = 6
"""The binary digits of c in steps, which are many, so that the tables of their laws are short."""


UNKNOWN = "no bounds: the denominator may be zero"
NOTHING = "nothing is learned: the denominator may be zero"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ratio(Quantity):
    """One noised value divided by another; they may have noise in common.

    Where the true denominator may be zero, nothing is known but what is certain.

    Attributes:
        numerator: The one.
        denominator: The other.
        least: The least that the true ratio can be, if that is certain: 0 for a share.
        most: The most that it can be: 1 for a share.
    """

    numerator: Noised
    denominator: Noised
    least: Bound = NO_LOWER
    most: Bound = NO_UPPER

    def __post_init__(self) -> None:
        check_noised(self.numerator, self.denominator)
        if self.least > self.most:
            raise ParameterError(f"least: {self.least} is above the most, {self.most}")

    @property
    @override
    def estimate(self) -> Fraction | None:
        """The ratio of the estimates: biased, the less the smaller the denominator's noise is."""
        return self.numerator.value / self.denominator.value if self.denominator.value else None

    @override
    def sources(self) -> frozenset[Source]:
        return self.numerator.sources() | self.denominator.sources()

    @property
    @override
    def limits(self) -> tuple[Bound, Bound]:
        return self.least, self.most

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        over, under = self.upright()
        if not under.terms and under.value:
            found = (over / under.value).interval(confidence)
            return found.within(self.least, self.most)
        low, high = self.low_end(confidence), -self.negative().low_end(confidence)
        method = "Fieller's inversion of the exact law"
        if not math.isfinite(high - low):
            is_limited = math.isfinite(self.most - self.least)
            low, high, method = NO_LOWER, NO_UPPER, NOTHING if is_limited else UNKNOWN
        found = ConfidenceInterval(low, high, confidence, method)
        return found.within(self.least, self.most)

    def low_end(self, confidence: Fraction) -> Bound:
        """Return the lower end of its interval, by the noise alone."""
        over, under = self.upright()
        if not under.terms and under.value:
            return (over.value - over.law.width(confidence).size) / under.value
        usual = under.law.width(confidence + _REMAINDER_SHARE * (1 - confidence)).size
        if under.value <= usual:
            return NO_LOWER
        return _least(over, under, usual, confidence)

    def negative(self) -> "Ratio":
        """Return the same with the other sign."""
        return dataclasses.replace(
            self, numerator=-self.numerator, least=-self.most, most=-self.least
        )

    def upright(self) -> tuple[Noised, Noised]:
        """Return numerator and denominator, both turned round if the latter is negative."""
        if self.denominator.value < 0:
            return -self.numerator, -self.denominator
        return self.numerator, self.denominator


def ratio(
    numerator: Noised,
    denominator: Noised,
    *,
    label: str = "",
    unit: str = "",
    least: Bound = NO_LOWER,
    most: Bound = NO_UPPER,
) -> Ratio:
    """Return the ratio of two noised values, within the limits that are certain, if any."""
    return Ratio(numerator, denominator, least, most, label=label, unit=unit)


def _least(over: Noised, under: Noised, usual: Fraction, confidence: Fraction) -> Fraction:
    """Return a ratio below which all are ruled out, over / under, at the confidence of w(r).

    The denominator is above `usual`: y', what its noise exceeds with nearly the probability of the
    miss.
    """
    aside = _DENOMINATOR_SHARE * (1 - confidence)
    furthest = under.law.width(1 - aside).size
    if under.value > furthest:
        return _least_from_anywhere(over, under, furthest, confidence + aside)
    centre = rounded(over.value / under.value)
    noise = combination([(over, 1), (under, -centre)])
    width = noise.law.width(1 - _REMAINDER_SHARE * (1 - confidence)).size
    # D(r) = over - r under grows by under for each 1 that r falls, and the bound of w(r) by usual.
    start = centre - (width - noise.value) / (under.value - usual)
    return _least_by_steps(over, under, confidence, start)


def _least_from_anywhere(
    over: Noised, under: Noised, furthest: Fraction, confidence: Fraction
) -> Fraction:
    """Return what `_least` does, where the denominator is above `furthest`."""
    centre, slack, width = over.value / under.value, Fraction(0), Fraction(0)
    for _ in range(_ROUNDS):
        centre = rounded((over.value - width) / under.value)
        slack, width = _slack(over, under, centre, confidence)
        if abs(slack) <= _NEAR * width:
            break
    # A ratio r <= c is ruled out if over - r under > w(c) + (c - r) y, an r >= c likewise with
    # (r - c) y: both sides are linear in r, and meet once as under > y.
    return centre + slack / (under.value + (furthest if slack > 0 else -furthest))


def _least_by_steps(over: Noised, under: Noised, confidence: Fraction, start: Fraction) -> Fraction:
    """Return what `_least` does, by steps up from `start`, below which all are ruled out.

    A c with slack over - c under - w(c) > 0 rules out what is less than slack / (under + y) above
    it, and what is less than slack / (y - under) below it. If that reaches down to what was ruled
    out before, there is no gap. The more is set aside for y, the further it reaches; the less, the
    nearer to the end there is some slack.
    """
    asides = [_DENOMINATOR_SHARE * (1 - confidence), _REMAINDER_SHARE * (1 - confidence)]
    slack, width = Fraction(0), Fraction(0)
    found, part, end = start, Fraction(1, 2), over.value / under.value
    for _ in range(_STEPS):
        centre = rounded(found + part * (end - found), _FEW)
        for aside in asides:
            slack, width = _slack(over, under, centre, confidence + aside)
            furthest = under.law.width(1 - aside).size
            if slack > max(Fraction(0), (centre - found) * (furthest - under.value)):
                found = centre + slack / (under.value + furthest)
                part = Fraction(1, 2)
                break
        else:
            part /= 2
            end = min(end, centre) if slack <= 0 else end
        if (end - found) * under.value <= _NEAR * width:
            break
    return found


def _slack(
    over: Noised, under: Noised, centre: Fraction, confidence: Fraction
) -> tuple[Fraction, Fraction]:
    """Return how far the noise at a c is above its width, and that width."""
    noise = combination([(over, 1), (under, -centre)])
    width = noise.law.width(confidence).size
    return noise.value - width, width


def rounded(value: Fraction, bits: int = _BITS) -> Fraction:
    """Return a number with few binary digits, for short fractions."""
    mantissa, exponent = math.frexp(float(value))
    return Fraction(round(mantissa * 2**bits)) * Fraction(2) ** (exponent - bits)
