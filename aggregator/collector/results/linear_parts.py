"""What is linear in the noise of a quantity, and how much the rest may be: for differences.

An estimate is off by L + rest, where L is a combination of the noise whose coefficients depend on
the truth. At what was seen in its place, L' is known and its law is exact, and both L - L' and the
rest are small of second order: bounded, unless one of a few events happens that are set aside from
the miss. So a difference of two such quantities is off by no more than the width of L'1 - L'2, in
which noise that both have in common cancels, and the sum of the slacks.
"""

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING

from aggregator.collector.results.intervals import NO_LOWER, NO_UPPER, Bound

if TYPE_CHECKING:
    from aggregator.collector.results.values import Noised


@dataclasses.dataclass(frozen=True, slots=True)
class LinearPart:
    """An estimate, taken apart.

    Attributes:
        noise: L', as a value that is off by it: its own value is the estimate.
        slack: How far L - L' and the rest together reach.
        asides: So many events of the probability that is set aside may be why they reach further.
        is_near: Whether the estimate is so near to where the slack has no bound that an interval
            found otherwise must be looked at, too.
        low: The least that the truth can be.
        high: The most.
    """

    noise: "Noised"
    slack: Fraction = Fraction(0)
    asides: int = 0
    is_near: bool = False
    low: Bound = NO_LOWER
    high: Bound = NO_UPPER
