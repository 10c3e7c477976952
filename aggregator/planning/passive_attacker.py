"""Thresholding without noise, against an attacker who knows some of the other answers.

A passive attacker knows some people's answers but chose none of them. The published theorem loses a
factor of 10^3 to 10^6 here: for equally likely answers, knowing some costs almost nothing.

Source:
    [Des20], Theorem 4, second form; Definition 58.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from aggregator.dp.binomial import DIGITS, Binomial
from aggregator.dp.decimals import Number, integer_in, rational_in, to_decimal, working
from aggregator.dp.partial_knowledge import SuppressionBound, Thresholding, epsilon_of
from aggregator.errors import ParameterError


@dataclass(frozen=True, slots=True)
class PassiveAttacker:
    """An attacker who knows `known` of the other answers, drawn like all, but chose none."""

    release: Thresholding
    known: int

    @classmethod
    def of(cls, release: Thresholding, known: int) -> "PassiveAttacker":
        """Make it; `known` is from 0 to one less than the number of reports.

        Raises:
            ParameterError: `known` is outside its range.
        """
        return cls(release, integer_in(known, "known", 0, release.reports - 1))

    def bound(self) -> SuppressionBound:
        """Return the published bound with the b_max that makes its delta smallest.

        Raises:
            ParameterError: No b_max satisfies the theorem, or the bound is above 1.

        Source:
            [Des20], Theorem 4, second form.
        """
        if self.known == 0:
            return self.release.bound()
        bounds = [self._bound_at(b_max) for b_max in self._candidates()]
        if not bounds:
            raise ParameterError(
                "no b_max in 1 to T-1 has p|B|/((1-p)b_max) < 1 and p(n-|B|-1)/((1-p)(T-b_max)) < 1"
                " for this threshold, probability and known: the theorem says nothing"
            )
        best = min(bounds, key=lambda bound: bound.delta)
        if best.delta >= 1:
            raise ParameterError(
                f"the theorem's delta is {best.delta:.6g}, above 1: it says nothing"
            )
        return best

    def delta(self, epsilon: Number = 0) -> Decimal:
        """Return the exact delta at `epsilon`, averaged over what the attacker may know.

        It is sum_b f(b, |B|, p) delta(n-|B|, T-b) over the number b of "yes" among the known.

        Raises:
            ParameterError: `epsilon` is negative.
        """
        rational_in(epsilon, "epsilon", 0, None)
        known = Binomial(self.known, self.release.probability)
        unknown = self.release.reports - self.known
        mode = int((self.known + 1) * self.release.probability)
        with working(DIGITS):
            total = Decimal(0)
            weight = at_mode = known.mass(mode)
            # Upwards delta may grow to 1 while its weight falls: stop once the remaining weights,
            # at most a geometric series, cannot matter. Downwards delta falls with the weight.
            for b in range(mode, self.known + 1):
                total += weight * self._delta_given(unknown, b, epsilon)
                ratio = _ratio(known, b)
                if ratio < 1 and weight * ratio < total * Decimal("1e-30") * (1 - ratio):
                    break
                weight *= ratio
            weight = at_mode
            for b in range(mode - 1, -1, -1):
                weight /= _ratio(known, b)
                part = weight * self._delta_given(unknown, b, epsilon)
                total += part
                if weight * mode < total * Decimal("1e-30") or part * mode < total * Decimal(
                    "1e-35"
                ):
                    break
            return total

    def _delta_given(self, unknown: int, b: int, epsilon: Number) -> Decimal:
        # Below zero every threshold shows every count, as -1 does.
        threshold = max(self.release.threshold - b, -1)
        return Thresholding(unknown, self.release.probability, min(threshold, unknown)).delta(
            epsilon
        )

    def _candidates(self) -> list[int]:
        """Return the few values of b_max whose delta may be the smallest, found in floating point.

        Both terms' logarithms are running sums of logarithms of simple ratios; their error is far
        below the margin, and the candidates are compared exactly.
        """
        release = self.release
        odds = release.probability / (1 - release.probability)
        others = release.reports - self.known - 1
        low = int(odds * self.known) + 1
        # T - b_max > odds * others.
        high = min(release.threshold - 1, -int(-(release.threshold - odds * others) // 1) - 1)
        if high < low:
            return []
        b = np.arange(low, high + 1, dtype=np.float64)
        rest = release.threshold - b
        log_odds = _log_float(odds)
        with np.errstate(divide="ignore"):
            # f(b+1)/f(b) and f(T-b)/f(T-b-1); a count above the number of answers has none.
            known_steps = np.log(np.maximum(self.known - b[:-1], 0)) - np.log(b[1:]) + log_odds
            other_steps = np.log(np.maximum(others - rest[1:], 0)) - np.log(rest[:-1]) + log_odds
            log_known = np.concatenate(([0.0], np.cumsum(known_steps)))
            log_other = np.concatenate((np.cumsum(other_steps[::-1])[::-1], [0.0]))
            log_known += _log_mass(Binomial(self.known, release.probability), low)
            log_other += _log_mass(Binomial(others, release.probability), release.threshold - high)
            log_known -= np.log1p(-float(odds) * self.known / b)
            log_other -= np.log1p(-float(odds) * others / rest)
        total = np.logaddexp(log_known, log_other)
        near = np.flatnonzero(total <= total.min() + 1e-4)
        best = near[np.argsort(total[near])][:16]
        return [low + int(i) for i in best]

    def _bound_at(self, b_max: int) -> SuppressionBound:
        release = self.release
        with working():
            p = to_decimal(release.probability)
            odds = p / (1 - p)
            others = release.reports - self.known - 1
            rest = release.threshold - b_max
            known_part = Binomial(self.known, release.probability).mass(b_max) / (
                1 - odds * self.known / b_max
            )
            ratio = odds * others / rest
            other_part = Binomial(others, release.probability).mass(rest) / (1 - ratio)
            epsilon = epsilon_of(other_part) if other_part < 1 else Decimal("Infinity")
            return SuppressionBound(epsilon, known_part + other_part, ratio, b_max)


def _ratio(law: Binomial, s: int) -> Decimal:
    """Return P[X = s + 1] / P[X = s]."""
    return to_decimal(law.success / (1 - law.success) * Fraction(law.trials - s, s + 1))


def _log_float(value: Fraction) -> float:
    with working():
        return float(to_decimal(value).ln())


def _log_mass(law: Binomial, s: int) -> float:
    mass = law.mass(s)
    with working():
        return float(mass.ln()) if mass else -np.inf
