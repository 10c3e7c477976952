"""The privacy loss when both aggregators add discrete Laplace noise and both are honest.

With S = Z1 + Z2 and q = e^(-epsilon0/size): P(S = s) = ((1-q)/(1+q))^2 q^|s| (|s| + c), where
c = (1+q^2)/(1-q^2). That law is log-concave, so the loss ln P(s)/P(s - step) of one coordinate
falls as s grows, and every event of it is a tail of S.

The largest loss stays epsilon0, and is approached far out: two draws improve delta(epsilon), but
not a pure epsilon. The figures also need trust in both aggregators. Do not advertise them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from aggregator.dp.decimals import DIGITS, Number, rational_in, to_decimal, working
from aggregator.dp.search import least
from aggregator.errors import ParameterError
from aggregator.papers.loss_law import MOST_EPSILON0, Move

# The mass beyond this reach is less than 10^-45 of the whole.
_REACH = 45
_MOST_ATOMS = 200_000
# Enough for a mean whose terms cancel up to the square of epsilon0.
_MEAN_DIGITS = 40


@dataclass(frozen=True, slots=True)
class TwoDrawLaw:
    """The loss of one or two moved coordinates under the sum of two honest draws.

    One coordinate moves for count and sum, two for a histogram. `vector_loss` has a bound for more.
    """

    MOST_COORDINATES: ClassVar[int] = 2

    epsilon0: Fraction
    move: Move

    @classmethod
    def of(cls, epsilon0: Number, move: Move) -> "TwoDrawLaw":
        """Make the law for an epsilon0 above 0, at most 1000, and a move of one or two coordinates.

        Raises `ParameterError` if epsilon0 is outside its range, or the move has more coordinates.
        """
        number = rational_in(epsilon0, "epsilon0", 0, MOST_EPSILON0, open_low=True)
        if move.coordinates > cls.MOST_COORDINATES:
            raise ParameterError(
                "coordinates moved must be 1 or 2 for the exact law of two draws, not"
                f" {move.coordinates}: see `VectorTwoDrawLaw`"
            )
        return cls(number, move)

    def probability_at_most(self, epsilon: Number) -> Decimal:
        """Return P(|L| <= `epsilon`)."""
        bound = rational_in(epsilon, "epsilon", 0, None)
        if bound >= self.epsilon0:
            return Decimal(1)
        with working():
            limit = to_decimal(bound)
            return self._above(-limit - _HAIR) - self._above(limit + _HAIR)

    def probability_above(self, epsilon: Number) -> Decimal:
        """Return P(L > `epsilon`)."""
        bound = rational_in(epsilon, "epsilon", 0, None)
        if bound >= self.epsilon0:
            return Decimal(0)
        with working():
            return self._above(to_decimal(bound) + _HAIR)

    def delta(self, epsilon: Number) -> Decimal:
        """Return the exact delta at `epsilon`, the sum of max(0, P - e^epsilon Q)."""
        bound = rational_in(epsilon, "epsilon", 0, None)
        if bound >= self.epsilon0:
            return Decimal(0)
        with working():
            sums, limit = self._sums, to_decimal(bound)
            growth, step = limit.exp(), sums.step
            if self.move.coordinates == 1:
                last = sums.last_above(limit)
                return sums.at_most(last) - growth * sums.at_most(last - step)
            return sums.over_pairs(
                limit,
                lambda s, last: (
                    sums.mass(s) * sums.at_most(last)
                    - growth * sums.mass(s - step) * sums.at_most(last - step)
                ),
            )

    def expected(self) -> Decimal:
        """Return the expected loss."""
        with working():
            sums = self._sums
        with working(_MEAN_DIGITS):
            # L(step - s) = -L(s), so half of the losses suffice.
            step = sums.step
            half = range(sums.reach.start, (step + 1) // 2)
            one = sum(
                ((sums.mass(s) - sums.mass(step - s)) * sums.loss(s) for s in half), Decimal(0)
            )
            return self.move.coordinates * one

    @property
    def _sums(self) -> "_SumOfTwo":
        return _sum_of_two(self.epsilon0 / self.move.length, self.move.step)

    def _above(self, bound: Decimal) -> Decimal:
        sums = self._sums
        if self.move.coordinates == 1:
            return sums.at_most(sums.last_above(bound))
        return sums.over_pairs(bound, lambda s, last: sums.mass(s) * sums.at_most(last))


# Two coordinates' losses can cancel to exactly zero; rounding must not decide the sign.
_HAIR = Decimal(1).scaleb(20 - DIGITS)


@lru_cache(maxsize=8)
def _sum_of_two(rate: Fraction, step: int) -> "_SumOfTwo":
    with working():
        return _SumOfTwo(rate, step)


class _SumOfTwo:
    """The law of S and of one coordinate's loss."""

    def __init__(self, rate: Fraction, step: int) -> None:
        self.step = step
        far = int(_REACH * Decimal(10).ln() / to_decimal(rate)) + step + 40
        if far > _MOST_ATOMS:
            raise ParameterError(
                f"epsilon0 is so small that the exact law has more than {2 * _MOST_ATOMS} losses:"
                " quote the figures for one honest aggregator"
            )
        self._q = to_decimal(-rate).exp()
        self._c = (1 + self._q * self._q) / (1 - self._q * self._q)
        self.reach = range(-far, far + 1)
        self._rate = to_decimal(rate)
        self._losses: list[Decimal] = []

    def mass(self, s: int) -> Decimal:
        """Return P(S = s)."""
        q = self._q
        return ((1 - q) / (1 + q)) ** 2 * q ** abs(s) * (abs(s) + self._c)

    def at_most(self, m: int) -> Decimal:
        """Return P(S <= m)."""
        if m >= 0:
            return 1 - self.at_most(-m - 1)
        q = self._q
        # P(S <= m) = P(S >= -m), in closed form from -m = 1 on.
        return q**-m / (1 + q) ** 2 * ((self._c - m) * (1 - q) + q)

    def loss(self, s: int) -> Decimal:
        """Return ln P(S = s)/P(S = s - step)."""
        here, there = abs(s), abs(s - self.step)
        # The constant and q's powers taken apart.
        return self._rate * (there - here) + ((here + self._c) / (there + self._c)).ln()

    def last_above(self, bound: Decimal) -> int:
        """Return the largest s with a loss above `bound`; if none has, the one before the reach."""
        return least(lambda s: self.loss(s) <= bound, self.reach.start, self.reach.stop) - 1

    def over_pairs(self, bound: Decimal, part: Callable[[int, int], Decimal]) -> Decimal:
        """Add `part(s, last)` over s, `last` being the largest t with L(s) + L(t) > bound."""
        total = Decimal(0)
        losses = self._all_losses()
        start = self.reach.start
        last = self.reach.stop - 1
        for s in self.reach:
            # As s grows its loss falls, so the other's must rise: last walks down.
            rest = bound - losses[s - start]
            while last >= start and losses[last - start] <= rest:
                last -= 1
            if last < start:
                break
            total += part(s, last)
        return total

    def _all_losses(self) -> list[Decimal]:
        if not self._losses:
            self._losses = [self.loss(s) for s in self.reach]
        return self._losses
