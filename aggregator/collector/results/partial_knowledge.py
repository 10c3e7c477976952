"""Thresholding without noise: what it protects if the data is random to the attacker.

A count is shown if it is above a threshold T, and replaced by "suppressed" otherwise. That is not
differential privacy. Under an assumption on the data - independent answers, each "yes" with a
probability below p - the suppression of small counts still hides one person, as [Des20] shows.
This module holds that theorem, its sharpening and the exact curve.

We also suppress a count that lacks at most T of all reports. That can be computed from the first
rule's outcome and the public number of reports, so whatever holds for the one holds for the other,
and so does what is proved with "no" for "yes".

The assumption cannot be checked on the data, and the guarantee covers only buckets that stay
hidden: a count that is shown has neither noise nor protection. It covers one count, published once.
The party that suppresses sees every count. `CAVEATS` tells a steward so.

Guarantees are for one answer replaced, against a reader of the published count who knows nothing of
the other answers, knows some of them (passive), or has chosen some of them (active).

A number that is out of its range raises `ParameterError`, and so does a theorem that says nothing.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from aggregator.collector.results.binomial import DIGITS, Binomial
from aggregator.dp.decimals import (
    Number,
    expm1,
    integer_in,
    log1p,
    rational_in,
    to_decimal,
    working,
)
from aggregator.errors import ParameterError

MOST_REPORTS = 10**10
_MOST_EPSILON = 1000  # e^epsilon is an ordinary number up to there

CAVEATS = (
    (
        "The collector sees every count before it suppresses any: this protects only against"
        " readers of what the collector publishes, and is offered only where the mechanism is None."
    ),
    (
        "Not differential privacy: it holds only if answers are independent and each is the rare"
        " one with a probability below p, which the data cannot certify."
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
    (
        "The figures are of a count that is hidden at or below T. Hiding it too if it lacks at most"
        " T of all reports is computed from that and their number, so they hold."
    ),
    "It says nothing about several publications over time.",
)
"""Caveats that must accompany every figure of this module."""


@dataclass(frozen=True, slots=True)
class SuppressionBound:
    """What a theorem promises: (epsilon, delta) against its attacker.

    Attributes:
        b_max: For known answers: the number of "yes" among them at which the bound was split.
    """

    epsilon: Decimal
    delta: Decimal
    ratio: Decimal
    b_max: int | None = None


@dataclass(frozen=True, slots=True)
class Thresholding:
    """The release of one count of `reports` answers if it is above `threshold`.

    Construct it with `Thresholding.of`. Every answer is "yes" independently with `probability`; the
    theorems also hold if that only bounds each answer's own probability.

    Source: [Des20], Definition 60 and Theorem 4.
    """

    reports: int
    probability: Fraction
    threshold: int

    @classmethod
    def of(cls, reports: int, probability: Number, threshold: int) -> "Thresholding":
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
        """The ratio r = p (n-1) / ((1-p) T), below 1 where the theorem applies; None for T = 0."""
        if self.threshold == 0:
            return None
        return self._odds * (self.reports - 1) / self.threshold

    @property
    def epsilon_max(self) -> Decimal | None:
        """The epsilon up to which the exact curve also bounds answers with smaller probabilities.

        It is ln[(1-p) T / (p (n-1-T))]; None if r is not below 1 or the logarithm is infinite.
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

    def bound(self) -> SuppressionBound:
        """Return the published bound for an attacker who knows no other answer: [Des20], Theorem 4.

        If r is not below 1, or the bound is above 1, the theorem says nothing: a ParameterError.
        """
        ratio = _ratio_below_one(self.ratio)
        with working():
            delta = self._others.mass(self.threshold) / (1 - to_decimal(ratio))
            return SuppressionBound(epsilon_of(delta), delta, to_decimal(ratio))

    def sharper_bound(self) -> SuppressionBound:
        """Return the bound (0, f(T, n-1, p)), smaller in both numbers under the same conditions.

        It is the total variation distance between the two outcomes, attained if all answers have
        the same probability.
        """
        ratio = _ratio_below_one(self.ratio)
        with working():
            return SuppressionBound(
                Decimal(0), +self._others.mass(self.threshold), to_decimal(ratio)
            )

    def release_probability(self) -> Decimal:
        """Return the chance that the count is shown when the person in question says "yes".

        It is not shown either if it lacks at most T of all reports.
        """
        beyond = max(self.threshold, self.reports - 1 - self.threshold)
        with working():
            return self._others.at_least(self.threshold) - self._others.at_least(beyond)

    def suppressed_loss(self) -> Decimal | None:
        """Return the loss of a suppressed count, ln F(T)/F(T-1); None (infinite) for T = 0."""
        if self.threshold == 0:
            return None
        with working(DIGITS):
            below = self._others.at_most(self.threshold - 1)
            return log1p(self._others.mass(self.threshold) / below)

    def delta(self, epsilon: Number = 0) -> Decimal:
        """Return the exact delta at `epsilon`, 0 to 1000, if all probabilities equal p.

        If p only bounds the probabilities, it is the least sound delta up to `epsilon_max`.
        """
        return self.deltas(range(self.threshold, self.threshold + 1), epsilon)[0]

    def deltas(self, thresholds: range, epsilon: Number = 0) -> list[Decimal]:
        """Return what `delta` is for consecutive thresholds instead of this one, -1 to n."""
        level = level_in(epsilon)
        yes = self._deltas_of_yes(thresholds, level)
        return list(map(max, yes, self._deltas_of_no(thresholds, level)))

    def _deltas_of_yes(self, thresholds: range, epsilon: Fraction) -> list[Decimal]:
        """Return the curve from "yes" to "no": counts k > T with f(k-1) > e^epsilon f(k).

        Those are the k above e^epsilon p n / (1-p + e^epsilon p), as f(k)/f(k-1) =
        p(n-k)/((1-p)k) falls; the sum telescopes to S(K-1) - e^epsilon S(K).
        """
        with working(DIGITS):
            p, growth = to_decimal(self.probability), to_decimal(epsilon).exp()
            border = growth * p * self.reports / (1 - p + growth * p)
            first = int(border) + 1
            firsts = range(max(thresholds[0] + 1, first), max(thresholds[-1] + 1, first) + 1)
            before = self._others.masses(range(firsts.start - 1, firsts.stop - 1))
            # S(K-1) - e^epsilon S(K) = f(K-1) - (e^epsilon - 1) S(K).
            found, grown = before, expm1(to_decimal(epsilon))
            if grown:
                at_least = [self._others.at_least(firsts[-1])]
                for mass in reversed(before[1:]):
                    at_least.append(at_least[-1] + mass)
                tails = reversed(at_least)
                found = [mass - grown * tail for mass, tail in zip(before, tails, strict=True)]
            values = [max(Decimal(0), value) for value in found]
            return [values[max(t + 1, first) - firsts.start] for t in thresholds]

    def _deltas_of_no(self, thresholds: range, epsilon: Fraction) -> list[Decimal]:
        """Return the curve from "no" to "yes": "suppressed" and the k with f(k) > e^epsilon f(k-1).

        Those counts follow T without a gap, and if there are any, "suppressed" counts too, since F
        is log-concave: the sum is F(K) - e^epsilon F(K-1).
        """
        with working(DIGITS):
            p, growth = to_decimal(self.probability), to_decimal(epsilon).exp()
            last = _below(p * self.reports / (p + (1 - p) * growth))
            lasts = range(max(thresholds[0], last), max(thresholds[-1], last) + 1)
            masses = self._others.masses(lasts)
            found, grown = masses, expm1(to_decimal(epsilon))
            if grown:
                at_most = [self._others.at_most(lasts[0])]
                for mass in masses[1:]:
                    at_most.append(at_most[-1] + mass)
                found = [
                    growth * mass - grown * tail for mass, tail in zip(masses, at_most, strict=True)
                ]
            values = [max(Decimal(0), value) for value in found]
            return [values[max(t, last) - lasts.start] for t in thresholds]


def rare_answer(probability: Fraction) -> tuple[str, Fraction]:
    """Return which answer is rare, and the most that its chance is said to be.

    A bound above 1/2 of the chance of "yes" is the least that it can be: the theorem then says
    nothing for any threshold below half of the reports, and is about "no".
    """
    if probability > Fraction(1, 2):
        return "no", 1 - probability
    return "yes", probability


def level_in(epsilon: Number) -> Fraction:
    """Return `epsilon`, checked to be one at which a curve is read off, from 0 to 1000."""
    return rational_in(epsilon, "epsilon", 0, _MOST_EPSILON)


def _below(border: Decimal) -> int:
    """Return the largest integer strictly below a positive `border`."""
    whole = int(border)
    return whole - 1 if whole == border else whole


def _ratio_below_one(ratio: Fraction | None) -> Fraction:
    name = "r = p(n-1)/((1-p)T)"
    if ratio is None:
        raise ParameterError(f"{name} must lie in [0, 1), but T is 0: the theorem says nothing")
    if ratio >= 1:
        raise ParameterError(
            f"{name} must lie in [0, 1), not {float(ratio):.6g}: the threshold is not above the"
            " expected count and the theorem says nothing"
        )
    return ratio


def epsilon_of(delta: Decimal) -> Decimal:
    """Return the theorem's epsilon, -ln(1 - delta), for a delta = f(T, n-1, p)/(1-r) below 1."""
    if delta >= 1:
        raise ParameterError(
            f"f(T, n-1, p)/(1-r) must lie in [0, 1), not {delta:.6g}: the theorem says nothing"
        )
    return -log1p(-delta)
