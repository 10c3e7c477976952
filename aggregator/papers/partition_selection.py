"""Which private buckets may be shown: the optimal selection primitive of [DVGM22].

A bucket that exists only because somebody reported it gives that person away by its name alone. A
selection primitive keeps a bucket of n persons with probability pi(n), pi(0) = 0, so that one
person added to or removed from one bucket changes the outcome within (epsilon, delta). This module
holds the largest such pi. Its rivals are in `selection_rivals`, exact draws in `selection_draws`,
several buckets per person and the choice between them in `selection_plan`.

No service runs a rule: aggregators add their noise before anybody sees a count, and a histogram's
buckets are public. `prio plan keep` draws for counts from elsewhere, or from a task without noise.

The guarantee is (epsilon, delta)-DP for adding or removing one person who is in at most one bucket,
towards everyone but the party that sees the counts and makes the draws.

A number that is out of its range raises `ParameterError`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from aggregator.dp.decimals import (
    DIGITS,
    Number,
    expm1,
    integer_in,
    log1p,
    rational_in,
    to_decimal,
    working,
)
from aggregator.dp.search import least
from aggregator.errors import ParameterError

_MOST_DIGITS = 20_000


@dataclass(frozen=True, slots=True)
class OptimalSelection:
    """The (epsilon, delta)-DP primitive that keeps every bucket with the highest probability.

    `OptimalSelection.of` makes and checks it.

    Source: [DVGM22], Theorems 1 and 2, Lemma 1.
    """

    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(cls, epsilon: Number, delta: Number) -> "OptimalSelection":
        """Make the primitive for an epsilon of at least 0 and a delta between 0 and 1."""
        return cls(rational_in(epsilon, "epsilon", 0, None), rational_in(delta, "delta", 0, 1))

    @property
    def n1(self) -> int | None:
        """The last count of the branch that grows as e^(n epsilon); None if delta is 0."""
        return None if self.delta == 0 else _crossovers(self.epsilon, self.delta)[0]

    @property
    def n2(self) -> int | None:
        """The last count of the second branch; larger buckets are kept. None if delta is 0."""
        return None if self.delta == 0 else _crossovers(self.epsilon, self.delta)[1]

    @property
    def first_certain(self) -> int | None:
        """The least count that is always kept, n2 or n2 + 1; None if delta is 0."""
        last = self.n2
        if last is None:
            return None
        if self.epsilon == 0:
            return math.ceil(1 / self.delta)
        return last if last * self.delta == 1 else last + 1

    def keep_probability(self, count: int) -> Decimal:
        """Return pi(`count`), the probability that a bucket of `count` persons is shown."""
        return self._probabilities(integer_in(count, "count", 0, None), DIGITS)[0]

    def drop_probability(self, count: int) -> Decimal:
        """Return 1 - pi(`count`), to full relative accuracy where pi is next to 1."""
        return self._probabilities(integer_in(count, "count", 0, None), DIGITS)[1]

    def threshold_word(self, count: int, bits: int) -> int:
        """Return floor(pi(`count`) * 2^`bits`), exactly.

        A uniform integer below 2^`bits` keeps the bucket if it is smaller and drops it if it is
        larger; if it is equal, further bits decide.
        """
        rational = self._rational(count)
        if rational is not None:
            return math.floor(rational * (1 << bits))
        # pi is transcendental here: e^epsilon is, and pi is a polynomial in it and its inverse that
        # is not constant. So it is not a multiple of 2^-bits, and enough digits end the loop.
        digits = DIGITS + bits // 3
        while True:
            keep, _ = self._probabilities(count, digits)
            with working(digits + bits):
                scaled = keep * (1 << bits)
                margin = Decimal(1 << bits).scaleb(5 - digits)
                low, high = math.floor(scaled - margin), math.floor(scaled + margin)
            if low == high:
                return low
            digits = more_digits(digits)

    def recursion(self) -> Iterator[Decimal]:
        """Yield pi(0), pi(1), ... by the recursion, as a check on the closed form.

        Source: [DVGM22], Lemma 1.
        """
        with working():
            growth, delta = to_decimal(self.epsilon).exp(), to_decimal(self.delta)
            least_step = 1 - delta
        keep = Decimal(0)
        while True:
            yield keep
            with working():
                first = growth * keep + delta
                # 1 - e^-epsilon (1 - pi - delta); it is above 1 once pi passes 1 - delta.
                second = 1 - (least_step - keep) / growth
                keep = min(first, second, Decimal(1))

    def count_kept_with(self, probability: Fraction) -> Decimal | None:
        """Return the real count that is kept with `probability`, strictly between 0 and 1.

        The first branch is read up to one half and as far as it goes, the second beyond, so that
        the least whole count kept with `probability` is this number rounded up. None if delta is 0.
        """
        if self.delta == 0:
            return None
        with working():
            epsilon, delta = to_decimal(self.epsilon), to_decimal(self.delta)
            goal = to_decimal(probability)
            if self.epsilon == 0:
                return goal / delta
            grown = expm1(epsilon)
            first = log1p(grown * goal / delta) / epsilon
            n1, _ = _crossovers(self.epsilon, self.delta)
            if 2 * probability <= 1 or first <= n1:
                return first
            # e^(-m epsilon) (1 - pi(n1) + d) = 1 - probability + d, as in `_probabilities`.
            end = delta / grown
            missing = (1 - end * expm1(n1 * epsilon) + end) / (1 - goal + end)
            return n1 + missing.ln() / epsilon

    def smallest_count(self, probability: Number) -> int | None:
        """Return the least count that is shown with at least `probability`; None if none is."""
        wanted = rational_in(probability, "probability", 0, 1, open_low=True)
        high = self.first_certain
        if high is None:
            return None
        with working(DIGITS):
            goal = to_decimal(wanted)
        return least(lambda count: self.keep_probability(count) >= goal, 1, high)

    def _rational(self, count: int) -> Fraction | None:
        """Return pi(`count`) if it is rational, None if it is transcendental."""
        if count == 0 or self.delta == 0:
            return Fraction(0)
        if self.epsilon == 0:
            return min(Fraction(1), count * self.delta)
        if count == 1:
            return self.delta
        certain = self.first_certain
        return Fraction(1) if certain is None or count >= certain else None

    def _probabilities(self, count: int, digits: int) -> tuple[Decimal, Decimal]:
        """Return pi and 1 - pi with a relative error of pi below 10^(5 - `digits`).

        Each branch is a few correctly rounded operations on positive terms; `expm1` bears the loss
        from a small argument. The only difference, 1 - pi in the upper branch, is between terms
        below 1.
        """
        rational = self._rational(count)
        with working(digits):
            if rational is not None:
                return to_decimal(rational), to_decimal(1 - rational)
            epsilon, delta = to_decimal(self.epsilon), to_decimal(self.delta)
            n1, _ = _crossovers(self.epsilon, self.delta)
            if count <= n1:
                keep = delta * expm1(count * epsilon) / expm1(epsilon)
                return keep, 1 - keep
        # 1 - pi(n) = e^(-m epsilon) (1 - pi(n1)) - delta (1 - e^(-m epsilon)) / (e^epsilon - 1):
        # near n2 the two agree, by at most the digits of the smaller of delta and epsilon.
        spare = max(0, -epsilon.adjusted()) + max(0, -delta.adjusted()) + 5
        with working(digits + spare):
            epsilon, delta = to_decimal(self.epsilon), to_decimal(self.delta)
            steps = (count - n1) * epsilon
            at_n1 = delta * expm1(n1 * epsilon) / expm1(epsilon)
            drop = (-steps).exp() * (1 - at_n1) + delta * expm1(-steps) / expm1(epsilon)
            drop = max(drop, Decimal(0))
            keep = 1 - drop
        with working(digits):
            return +keep, +drop


@lru_cache(maxsize=256)
def _crossovers(epsilon: Fraction, delta: Fraction) -> tuple[int, int]:
    """Return n1 and n2 for a delta above 0.

    n1 = 1 + floor(k*), n2 = n1 + floor(ln(1 + (e^epsilon - 1)(1 - pi(n1))/delta) / epsilon).
    Neither logarithm is a multiple of epsilon while delta is below 1/2, because e^epsilon is
    transcendental; so enough digits make both floors certain.
    """
    if epsilon == 0:
        return 1 + math.floor((1 - delta) / (2 * delta)), math.floor(1 / delta)
    if 2 * delta >= 1:
        # k* <= tanh(epsilon/2)/epsilon < 1, and the second logarithm is below epsilon, but equal to
        # it at delta = 1/2.
        return 1, 2 if 2 * delta == 1 else 1
    n1 = 1 + certain_floor(lambda: crossover(epsilon, delta))

    def second() -> Decimal:
        grown = expm1(to_decimal(epsilon))
        keep = to_decimal(delta) * expm1(n1 * to_decimal(epsilon)) / grown
        return log1p(grown / to_decimal(delta) * (1 - keep)) / to_decimal(epsilon)

    return n1, n1 + certain_floor(second)


def crossover(epsilon: Fraction, delta: Fraction) -> Decimal:
    """Return the real k* = ln(1 + (1-delta)/delta tanh(epsilon/2)) / epsilon, both above 0.

    Computed in the digits of the current context, whatever the size of epsilon; the printed formula
    loses everything where epsilon is small.
    """
    grown = expm1(to_decimal(epsilon))
    tanh = grown / (grown + 2)
    return log1p(to_decimal((1 - delta) / delta) * tanh) / to_decimal(epsilon)


def certain_floor(compute: Callable[[], Decimal]) -> int:
    """Return the floor of a real number that is not an integer, with enough digits to be certain.

    `compute` has a relative error below 10^(8 - digits of the context). If 20,000 digits do not
    decide, that is a `ParameterError`.
    """
    digits = DIGITS
    while True:
        with working(digits):
            value = compute()
            margin = max(Decimal(1), abs(value)).scaleb(8 - digits)
            low, high = math.floor(value - margin), math.floor(value + margin)
        if low == high:
            return low
        digits = more_digits(digits)


def more_digits(digits: int) -> int:
    """Return twice `digits`, or refuse to go on beyond 20,000."""
    if digits > _MOST_DIGITS:
        raise ParameterError("the numbers given need more than 20,000 digits to be told apart")
    return 2 * digits
