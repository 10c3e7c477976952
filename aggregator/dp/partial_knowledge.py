"""Thresholding without noise: what it protects if the data is random to the attacker.

A count is shown if it is above a threshold T, and replaced by "suppressed" otherwise. That is not
differential privacy. Under an assumption on the data - independent answers, each "yes" with a
probability below p - the suppression of small counts still hides one person, as [Des20] shows.
This module holds that theorem, its sharpening and the exact curve.

The assumption cannot be read off the data, and the guarantee is about buckets that stay hidden: a
count that is shown carries no noise and no protection. It is about one count, published once. The
party that suppresses sees every count. `CAVEATS` says so to a steward.

Guarantees are for one answer replaced, against a reader of the published count who knows nothing of
the other answers, knows some of them (passive), or has chosen some of them (active).
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from aggregator.dp.binomial import DIGITS, Binomial
from aggregator.dp.decimals import Real, expm1, integer_in, log1p, rational_in, to_decimal, working
from aggregator.errors import ParameterError

MOST_REPORTS = 10**10

CAVEATS = (
    (
        "The collector sees every count before it suppresses any: this protects only against"
        " readers of what the collector publishes, and is offered only where the mechanism is None."
    ),
    (
        "Not differential privacy: it holds only if answers are independent and each is 'yes' with"
        " a probability below p, which the data cannot certify."
    ),
    (
        "It protects buckets that stay hidden. A bucket that is shown got no noise and no"
        " protection, and its being shown is itself evidence that the assumption on p failed."
    ),
    (
        "It is about one count. Where the total is public and every report is in some bucket, a"
        " single suppressed bucket is found by subtraction; for histograms and multihot: no"
        " guarantee."
    ),
    "It says nothing about several publications over time.",
)
"""What must be told with every figure of this module."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a theorem promises: (epsilon, delta) against the attacker it names.

    Attributes:
        b_max: For known answers: the number of "yes" among them that the bound was split at.
    """

    epsilon: Decimal
    delta: Decimal
    ratio: Decimal
    b_max: int | None = None


@dataclass(frozen=True, slots=True)
class Thresholding:
    """The release of one count of `reports` answers if it is above `threshold`.

    Construct it with `Thresholding.of`. Every answer is "yes" independently with `probability`; the
    theorems also hold where it only bounds each answer's own probability.

    Source:
        [Des20], Definition 60 and Theorem 4.
    """

    reports: int
    probability: Fraction
    threshold: int

    @classmethod
    def of(cls, reports: int, probability: Real, threshold: int) -> "Thresholding":
        """Build it.

        Args:
            reports: Number of answers, 1 to 10^10.
            probability: Strictly between 0 and 1.
            threshold: The largest count that is suppressed, from 0 to below `reports`.

        Raises:
            ParameterError: A number is outside its range.
        """
        integer_in(reports, "reports", 1, MOST_REPORTS)
        p = rational_in(probability, "probability", 0, 1, open_low=True, open_high=True)
        integer_in(threshold, "threshold", 0, reports - 1)
        return cls(reports, p, threshold)

    @property
    def ratio(self) -> Fraction | None:
        """The r = p (n-1) / ((1-p) T), below 1 where the theorem speaks; None for T = 0."""
        if self.threshold == 0:
            return None
        return self._odds * (self.reports - 1) / self.threshold

    @property
    def epsilon_max(self) -> Decimal | None:
        """Up to this epsilon the exact curve also bounds answers with smaller probabilities.

        It is ln[(1-p) T / (p (n-1-T))]; None where T has no r below 1 or the logarithm is infinite.
        """
        others = self.reports - 1 - self.threshold
        ratio = self.ratio
        if ratio is None or ratio >= 1 or others == 0:
            return None
        with working():
            return to_decimal(self.threshold / (self._odds * others)).ln()

    @property
    def _odds(self) -> Fraction:
        return self.probability / (1 - self.probability)

    @property
    def _others(self) -> Binomial:
        return Binomial(self.reports - 1, self.probability)

    def bound(self) -> Bound:
        """Return the published bound for an attacker who knows no other answer.

        Raises:
            ParameterError: r is not below 1, or the bound is above 1: the theorem says nothing.

        Source:
            [Des20], Theorem 4.
        """
        ratio = _ratio_below_one(self.ratio, "r = p(n-1)/((1-p)T)")
        with working():
            delta = self._others.mass(self.threshold) / (1 - to_decimal(ratio))
            return Bound(_epsilon_of(delta), delta, to_decimal(ratio))

    def sharper_bound(self) -> Bound:
        """Return the bound (0, f(T, n-1, p)), smaller in both numbers on the same conditions.

        It is the total variation distance between the two outcomes, attained if all answers have
        the same probability.

        Raises:
            ParameterError: r is not below 1.
        """
        ratio = _ratio_below_one(self.ratio, "r = p(n-1)/((1-p)T)")
        with working():
            return Bound(Decimal(0), +self._others.mass(self.threshold), to_decimal(ratio))

    def release_probability(self) -> Decimal:
        """Return the chance that the count is shown when the person in question says "yes"."""
        return self._others.at_least(self.threshold)

    def suppressed_loss(self) -> Decimal | None:
        """Return the loss of a suppressed count, ln F(T)/F(T-1); None (infinite) for T = 0."""
        if self.threshold == 0:
            return None
        with working(DIGITS):
            below = self._others.at_most(self.threshold - 1)
            return log1p(self._others.mass(self.threshold) / below)

    def delta(self, epsilon: Real = 0) -> Decimal:
        """Return the exact delta at `epsilon`, all probabilities being equal to p.

        Where p only bounds the probabilities, it is the least sound delta up to `epsilon_max`.

        Raises:
            ParameterError: `epsilon` is negative.
        """
        bound = rational_in(epsilon, "epsilon", 0, None)
        return max(self._delta_of_yes(bound), self._delta_of_no(bound))

    def _delta_of_yes(self, epsilon: Fraction) -> Decimal:
        """Return the curve from "yes" to "no": counts k > T with f(k-1) > e^epsilon f(k).

        Those are the k above e^epsilon p n / (1-p + e^epsilon p), as f(k)/f(k-1) =
        p(n-k)/((1-p)k) falls; the sum telescopes to S(K-1) - e^epsilon S(K).
        """
        with working(DIGITS):
            p, growth = to_decimal(self.probability), to_decimal(epsilon).exp()
            border = growth * p * self.reports / (1 - p + growth * p)
            first = max(self.threshold + 1, int(border) + 1)
            # S(K-1) - e^epsilon S(K) = f(K-1) - (e^epsilon - 1) S(K).
            grown = expm1(to_decimal(epsilon))
            value = self._others.mass(first - 1) - grown * self._others.at_least(first)
            return max(Decimal(0), value)

    def _delta_of_no(self, epsilon: Fraction) -> Decimal:
        """Return the curve from "no" to "yes": "suppressed" and the k with f(k) > e^epsilon f(k-1).

        Those counts follow T without a gap, and where there are any "suppressed" tells too, since F
        is log-concave: the sum is F(K) - e^epsilon F(K-1).
        """
        with working(DIGITS):
            p, growth = to_decimal(self.probability), to_decimal(epsilon).exp()
            border = p * self.reports / (p + (1 - p) * growth)
            last = max(self.threshold, _below(border))
            grown = expm1(to_decimal(epsilon))
            value = growth * self._others.mass(last) - grown * self._others.at_most(last)
            return max(Decimal(0), value)


@dataclass(frozen=True, slots=True)
class PassiveAttacker:
    """Someone who knows `known` of the other answers, drawn like all, but chose none of them."""

    release: Thresholding
    known: int

    @classmethod
    def of(cls, release: Thresholding, known: int) -> "PassiveAttacker":
        """Build it; `known` is 0 to one less than the number of reports.

        Raises:
            ParameterError: `known` is outside its range.
        """
        return cls(release, integer_in(known, "known", 0, release.reports - 1))

    def bound(self) -> Bound:
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

    def delta(self, epsilon: Real = 0) -> Decimal:
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
            # Upwards delta may grow to 1 while its weight falls: stop once the weights left, a
            # geometric series at most, cannot matter. Downwards delta falls with the weight.
            for b in range(mode, self.known + 1):
                total += weight * self._delta_given(unknown, b, epsilon)
                ratio = known_ratio(known, b)
                if ratio < 1 and weight * ratio < total * Decimal("1e-30") * (1 - ratio):
                    break
                weight *= ratio
            weight = at_mode
            for b in range(mode - 1, -1, -1):
                weight /= known_ratio(known, b)
                part = weight * self._delta_given(unknown, b, epsilon)
                total += part
                if weight * mode < total * Decimal("1e-30") or part * mode < total * Decimal(
                    "1e-35"
                ):
                    break
            return total

    def _delta_given(self, unknown: int, b: int, epsilon: Real) -> Decimal:
        # Below zero every threshold shows every count, as -1 does.
        threshold = max(self.release.threshold - b, -1)
        return Thresholding(unknown, self.release.probability, min(threshold, unknown)).delta(
            epsilon
        )

    def _candidates(self) -> list[int]:
        """Return the few b_max whose delta may be the smallest, found in floating point.

        Both terms' logarithms are running sums of the logarithms of simple ratios; what they err is
        far below the margin, and the candidates are compared exactly.
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

    def _bound_at(self, b_max: int) -> Bound:
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
            epsilon = _epsilon_of(other_part) if other_part < 1 else Decimal("Infinity")
            return Bound(epsilon, known_part + other_part, ratio, b_max)


def against_active_attacker(release: Thresholding, known: int) -> Thresholding:
    """Return the release without knowledge that is as private as `release` against an attacker.

    The attacker chose `known` of the answers. The worst choice is all "yes": it lowers the
    threshold by as many.

    Raises:
        ParameterError: `known` is above the threshold: the attacker reads every count.

    Source:
        [Des20], Proposition 28.
    """
    integer_in(known, "known", 0, release.reports - 1)
    if known > release.threshold:
        raise ParameterError(
            f"known must be at most the threshold {release.threshold} for an active attacker, not"
            f" {known}: who can cast that many 'yes' answers sees every count"
        )
    return Thresholding(release.reports - known, release.probability, release.threshold - known)


def known_ratio(law: Binomial, s: int) -> Decimal:
    """Return P[X = s + 1] / P[X = s]."""
    return to_decimal(law.success / (1 - law.success) * Fraction(law.trials - s, s + 1))


def _below(border: Decimal) -> int:
    """Return the largest integer strictly below a positive `border`."""
    whole = int(border)
    return whole - 1 if whole == border else whole


def _ratio_below_one(ratio: Fraction | None, name: str) -> Fraction:
    if ratio is None:
        raise ParameterError(f"{name} must lie in [0, 1), but T is 0: the theorem says nothing")
    if ratio >= 1:
        raise ParameterError(
            f"{name} must lie in [0, 1), not {float(ratio):.6g}: the threshold is not above the"
            " expected count and the theorem says nothing"
        )
    return ratio


def _epsilon_of(delta: Decimal) -> Decimal:
    if delta >= 1:
        raise ParameterError(
            f"f(T, n-1, p)/(1-r) must lie in [0, 1), not {delta:.6g}: the theorem says nothing"
        )
    return -log1p(-delta)


def _log_float(value: Fraction) -> float:
    with working():
        return float(to_decimal(value).ln())


def _log_mass(law: Binomial, s: int) -> float:
    mass = law.mass(s)
    with working():
        return float(mass.ln()) if mass else -np.inf
