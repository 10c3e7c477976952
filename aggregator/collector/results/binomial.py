"""The binomial law in decimal arithmetic, with full relative accuracy however small a mass is."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from aggregator.dp.decimals import log1p, to_decimal, working
from aggregator.dp.normal import pi

# The logarithm of a mass may be as large as 10^13; what is left after it still holds sixty digits.
DIGITS = 75
_EXACT_FACTORIALS_UP_TO = 200
_STIRLING_TERMS = 26


@dataclass(frozen=True, slots=True)
class Binomial:
    """The law of how many of `trials` independent events happen, each with probability `success`.

    `trials` is at least 0; `success` lies strictly between 0 and 1.
    """

    trials: int
    success: Fraction

    def mass(self, s: int) -> Decimal:
        """Return P[X = s]."""
        if not 0 <= s <= self.trials:
            return Decimal(0)
        with working(DIGITS + 15):
            # Of p and 1 - p, the larger one may have no digit but nines.
            is_small = self.success <= Fraction(1, 2)
            smaller = to_decimal(min(self.success, 1 - self.success))
            logarithms = smaller.ln(), log1p(-smaller)
            yes, no = logarithms if is_small else logarithms[::-1]
            value = (_log_choose(self.trials, s) + s * yes + (self.trials - s) * no).exp()
        with working(DIGITS):
            return +value

    def masses(self, outcomes: range) -> list[Decimal]:
        """Return P[X = s] for consecutive s."""
        possible = range(max(outcomes.start, 0), min(outcomes.stop, self.trials + 1))
        if not possible:
            return [Decimal(0)] * len(outcomes)
        found = [self.mass(possible.start)]
        with working(DIGITS + 15):
            odds = to_decimal(self.success / (1 - self.success))
            for s in possible[:-1]:
                found.append(found[-1] * odds * (self.trials - s) / (s + 1))
        before, after = possible.start - outcomes.start, outcomes.stop - possible.stop
        return [Decimal(0)] * before + found + [Decimal(0)] * after

    def at_least(self, m: int) -> Decimal:
        """Return P[X >= m]."""
        if m <= 0:
            return Decimal(1)
        if m > self.trials * self.success:
            return self._sum_upwards(m)
        with working(DIGITS):
            return 1 - self._sum_downwards(m - 1)

    def at_most(self, m: int) -> Decimal:
        """Return P[X <= m]."""
        if m >= self.trials:
            return Decimal(1)
        if m < self.trials * self.success:
            return self._sum_downwards(m)
        with working(DIGITS):
            return 1 - self._sum_upwards(m + 1)

    def _sum_upwards(self, start: int) -> Decimal:
        """Add the masses from `start`, above the mean, upwards until the rest is negligible."""
        if start > self.trials:
            return Decimal(0)
        with working(DIGITS):
            odds = to_decimal(self.success / (1 - self.success))
            term = total = Decimal(1)
            least = Decimal(1).scaleb(-DIGITS)
            for s in range(start, self.trials):
                ratio = odds * (self.trials - s) / (s + 1)
                term *= ratio
                total += term
                # Ratios fall with s, so the rest is below a geometric series.
                if term < total * least * (1 - ratio):
                    break
            return total * self.mass(start)

    def _sum_downwards(self, start: int) -> Decimal:
        """Add the masses from `start`, below the mean, downwards."""
        mirrored = Binomial(self.trials, 1 - self.success)
        return mirrored._sum_upwards(self.trials - start)


def _log_choose(n: int, k: int) -> Decimal:
    return _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)


@lru_cache(maxsize=4096)
def _log_factorial(n: int) -> Decimal:
    """Return ln(n!) with an absolute error below 10^-(DIGITS), by Stirling's series."""
    with working(DIGITS + 15):
        if n < _EXACT_FACTORIALS_UP_TO:
            return Decimal(math.factorial(n)).ln()
        x = Decimal(n + 1)
        total = (x - Decimal("0.5")) * x.ln() - x + _half_log_two_pi()
        # The series alternates: it errs by less than its first omitted term, 1e-90 at x = 200.
        power = 1 / x
        for coefficient in _stirling_coefficients():
            total += to_decimal(coefficient) * power
            power /= x * x
        return total


@lru_cache(maxsize=1)
def _half_log_two_pi() -> Decimal:
    with working(DIGITS + 20):
        return to_decimal(2 * pi(DIGITS + 20).low).ln() / 2


@lru_cache(maxsize=1)
def _stirling_coefficients() -> tuple[Fraction, ...]:
    """Return B_2k / (2k (2k-1)) for k = 1 up, B the Bernoulli numbers."""
    bernoulli = [Fraction(1)]
    for m in range(1, 2 * _STIRLING_TERMS + 1):
        total = sum((math.comb(m + 1, j) * bernoulli[j] for j in range(m)), Fraction(0))
        bernoulli.append(-total / (m + 1))
    return tuple(bernoulli[2 * k] / (2 * k * (2 * k - 1)) for k in range(1, _STIRLING_TERMS + 1))
