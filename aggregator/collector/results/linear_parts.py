"""The part of a quantity's error that is linear in the noise, and a bound on the rest.

An estimate is off by L + rest, where L is a combination of the noise whose coefficients depend on
the truth. L' is L with the observed values in place of the truth: it is known and its law is exact.
Both L - L' and the rest are small of second order, and bounded unless one of a few events happens
whose probability is set aside from the miss. So a difference of two such quantities is off by at
most the width of L'1 - L'2, in which noise common to both cancels, plus the sum of the slacks.
"""

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING

from aggregator.collector.results.intervals import NO_LOWER, NO_UPPER, Bound

if TYPE_CHECKING:
    from aggregator.collector.results.values import Noised


@dataclasses.dataclass(frozen=True, slots=True)
class LinearPart:
    """The parts of an estimate's error.

    `noise` is a value whose noise is L' and whose own value is the estimate; `slack` bounds L - L'
    and the rest together, unless one of `asides` events happens, each of the probability set aside.
    `is_borderline` says that the slack has no bound near this estimate, so an interval found in
    another way must be used too. The truth lies between `low` and `high`.
    """

    noise: "Noised"
    slack: Fraction = Fraction(0)
    asides: int = 0
    is_borderline: bool = False
    low: Bound = NO_LOWER
    high: Bound = NO_UPPER
