"""The standard deviation of what was reported: the square root of a variance, ends and all."""

import dataclasses
import math
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import Bound, ConfidenceInterval
from aggregator.collector.results.values import Quantity, Source
from aggregator.dp.utility import DEFAULT_CONFIDENCE

_BITS = 40
"""Ends are rounded outwards by less than 2^-40."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Deviation(Quantity):
    """A standard deviation; the root grows with the variance, so its interval is as exact."""

    variance: Quantity

    @property
    @override
    def estimate(self) -> Fraction | None:
        found = self.variance.estimate
        return None if found is None else _root(found, 0)

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        found = self.variance.interval(confidence)
        return dataclasses.replace(found, low=_bound(found.low, 0), high=_bound(found.high, 1))

    @property
    @override
    def limits(self) -> tuple[Bound, Bound]:
        low, high = self.variance.limits
        return _bound(low, 0), _bound(high, 1)

    @override
    def sources(self) -> frozenset[Source]:
        return self.variance.sources()


def _bound(bound: Bound, more: int) -> Bound:
    return _root(bound, more) if isinstance(bound, Fraction) else max(0.0, bound)


def _root(square: Fraction, more: int) -> Fraction:
    """Return the root, rounded down to a multiple of 2^-40, or `more` multiples above that."""
    if square <= 0:
        return Fraction(0)
    return Fraction(math.isqrt(math.floor(square * 4**_BITS)) + more, 2**_BITS)
