"""The ratio of two noised values, by Fieller's inversion with the exact law of the noise.

For the true ratio r, numerator - r denominator has a true value of zero, so its noise alone decides
how far from zero it is seen: r is ruled out if that is beyond the width w(r) of that noise.

With X and Y the noise of the two values, |X - r Y| <= |X - c Y| + |r - c| |Y| for every c, so

    w(r) <= w(c) + |r - c| y        where P(|Y| > y) is set aside from the miss of w(c)

One c near each end of the interval then rules out everything beyond it.

Source:
    [Fie54]
"""

import dataclasses
import math
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import NO_LOWER, NO_UPPER, ConfidenceInterval
from aggregator.collector.results.sums import check_confidence
from aggregator.collector.results.values import Noised, Quantity, Source, check_noised, combination
from aggregator.protocol.results import DEFAULT_CONFIDENCE

_ASIDE = Fraction(1, 20)
"""The part of the miss that is set aside for the noise of the denominator."""

_ROUNDS = 4
_NEAR = Fraction(1, 256)
"""Each round takes c nearer to the end of the interval, until it is so near; any c is sound."""

_BITS = 12
"""To so many binary digits c is rounded, for short fractions."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ratio(Quantity):
    """One noised value by another; they may have noise in common.

    Attributes:
        numerator: Noised.
        denominator: Noised; where it may be zero for all that is known, the ratio has no bounds.
    """

    numerator: Noised
    denominator: Noised

    def __post_init__(self) -> None:
        check_noised(self.numerator, self.denominator)

    @property
    @override
    def estimate(self) -> Fraction | None:
        """The ratio of the estimates: biased, the less the smaller the denominator's noise is."""
        return self.numerator.value / self.denominator.value if self.denominator.value else None

    @override
    def sources(self) -> frozenset[Source]:
        return self.numerator.sources() | self.denominator.sources()

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        over, under = self.numerator, self.denominator
        if under.value < 0:
            over, under = -over, -under
        if not under.terms and under.value:
            return (over / under.value).interval(confidence)
        aside = _ASIDE * (1 - confidence)
        furthest = under.law.width(1 - aside).size
        if under.value <= furthest:
            return ConfidenceInterval(
                NO_LOWER, NO_UPPER, confidence, "no bounds: the denominator may be zero"
            )
        return ConfidenceInterval(
            _least(over, under, furthest, confidence + aside),
            -_least(-over, under, furthest, confidence + aside),
            confidence,
            "Fieller's inversion of the exact law",
        )


def ratio(numerator: Noised, denominator: Noised, *, label: str = "", unit: str = "") -> Ratio:
    """Return the ratio of two noised values."""
    return Ratio(numerator, denominator, label=label, unit=unit)


def _least(over: Noised, under: Noised, furthest: Fraction, confidence: Fraction) -> Fraction:
    """Return a ratio below which all are ruled out.

    Args:
        over: The numerator.
        under: The denominator, above `furthest`.
        furthest: y, what the denominator's noise exceeds with the probability set aside.
        confidence: Of w(c).
    """
    centre, slack, width = over.value / under.value, Fraction(0), Fraction(0)
    for _ in range(_ROUNDS):
        centre = _rounded((over.value - width) / under.value)
        noise = combination([(over, 1), (under, -centre)])
        width = noise.law.width(confidence).size
        slack = noise.value - width
        if abs(slack) <= _NEAR * width:
            break
    # A ratio r <= c is ruled out if over - r under > w(c) + (c - r) y, an r >= c likewise with
    # (r - c) y: both sides are linear in r, and meet once as under > y.
    return centre + slack / (under.value + (furthest if slack > 0 else -furthest))


def _rounded(value: Fraction) -> Fraction:
    mantissa, exponent = math.frexp(float(value))
    return Fraction(round(mantissa * 2**_BITS)) * Fraction(2) ** (exponent - _BITS)
