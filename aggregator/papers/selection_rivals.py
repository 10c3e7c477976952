"""The rivals of the optimal selection primitive: noise on the count and a threshold.

They do worse at the same (epsilon, delta), but may show the noisy count as well (truncated
geometric, Laplace), or spread better over many buckets per person (Gaussian). All guarantees are
for adding or removing one person, as in `partition_selection`.

A number that is out of its range raises `ParameterError`.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil

from aggregator.dp.decimals import (
    Number,
    expm1,
    integer_in,
    log1p,
    rational_in,
    to_decimal,
    working,
)
from aggregator.dp.truncation import least_bound
from aggregator.errors import ParameterError
from aggregator.papers.normal import density, gaussian_mu, upper_quantile, upper_tail
from aggregator.papers.roots import find_root


@dataclass(frozen=True, slots=True)
class TruncatedGeometricRelease:
    """Symmetric geometric noise cut off at plus and minus k; shown only above a threshold.

    With the threshold k an empty bucket is never shown, and the noisy count of every shown bucket
    may be published at no further cost.

    Attributes:
        epsilon: The epsilon of the guarantee.
        delta: The delta of the guarantee, above 0.
        k: The least cut-off at which the outermost mass is at most delta.

    Source: [DVGM22], Definitions 7 and 8, Theorems 4 and 6.
    """

    epsilon: Fraction
    delta: Fraction
    k: int

    @classmethod
    def of(cls, epsilon: Number, delta: Number) -> "TruncatedGeometricRelease":
        """Make the rule with the least sufficient k."""
        epsilon = rational_in(epsilon, "epsilon", 0, None)
        delta = rational_in(delta, "delta", 0, 1, open_low=True)
        return cls(epsilon, delta, _least_cut_off(epsilon, delta))

    @property
    def edge_mass(self) -> Decimal:
        """The probability of the outermost value on one side, at most delta."""
        return self.tail(self.k)

    def tail(self, m: int) -> Decimal:
        """Return P[X >= m] of the noise X."""
        with working():
            return _tail(self.epsilon, self.k, m)

    def keep_probability(self, count: int, threshold: int | None = None) -> Decimal:
        """Return P[count + X > threshold], the chance that the bucket is shown.

        Buckets of a public list may have any threshold; private ones need k, the default.
        """
        integer_in(count, "count", 0, None)
        return self.tail((self.k if threshold is None else threshold) + 1 - count)


@dataclass(frozen=True, slots=True)
class LaplaceSelection:
    """Laplace noise of scale 1/epsilon on the count, and a threshold.

    Attributes:
        threshold: 1 - ln(2 delta)/epsilon; also the count that is kept half of the time.

    Source: [DVGM22], Definition 9; the case of a delta above one half is ours.
    """

    epsilon: Fraction
    threshold: Decimal

    @classmethod
    def of(cls, epsilon: Number, delta: Number) -> "LaplaceSelection":
        """Make the rule for an epsilon above 0 and a delta strictly between 0 and 1."""
        epsilon = rational_in(epsilon, "epsilon", 0, None, open_low=True)
        delta = rational_in(delta, "delta", 0, 1, open_low=True, open_high=True)
        with working():
            # A lone person must be shown with probability delta: P[1 + Z > threshold] = delta.
            if 2 * delta <= 1:
                above = -to_decimal(2 * delta).ln()
            else:
                above = to_decimal(2 * (1 - delta)).ln()
            return cls(epsilon, 1 + above / to_decimal(epsilon))

    def keep_probability(self, count: int) -> Decimal:
        """Return P[count + Z > threshold]; 0 for an empty bucket, which is not listed."""
        if integer_in(count, "count", 0, None) == 0:
            return Decimal(0)
        with working():
            missing = self.threshold - count
            half = (-abs(missing) * to_decimal(self.epsilon)).exp() / 2
            return half if missing >= 0 else 1 - half

    def count_kept_with(self, probability: Fraction) -> Decimal:
        """Return the real count that is kept with `probability`, strictly between 0 and 1."""
        with working():
            if 2 * probability <= 1:
                shift = to_decimal(2 * probability).ln()
            else:
                shift = -to_decimal(2 * (1 - probability)).ln()
            return self.threshold + shift / to_decimal(self.epsilon)


@dataclass(frozen=True, slots=True)
class GaussianSelection:
    """Gaussian noise on every count, and a threshold, for `kappa` buckets per person.

    delta is split: one part pays for the noise (sensitivity sqrt(kappa)), the other for the chance
    that a bucket of this person alone is shown. The split minimises the threshold.

    Attributes:
        sigma: Standard deviation of the noise.
        threshold: 1 + sigma Phi^-1((1 - delta_threshold)^(1/kappa)).
        noise_share: The part of delta that pays for the noise.

    Source: [DVGM22], Figure 4; sigma by [BW18], Theorem 8.
    """

    sigma: Decimal
    threshold: Decimal
    noise_share: Decimal

    @classmethod
    def of(
        cls, epsilon: Number, delta: Number, kappa: int = 1, noise_share: Number | None = None
    ) -> "GaussianSelection":
        """Make the rule, with the best split unless `noise_share` gives one.

        If delta is above 1 - 2^-kappa a lone bucket may be shown more often than not, and the split
        that brings the threshold down to exactly 1 is taken. No split is best where delta equals
        it.
        """
        rational_in(epsilon, "epsilon", 0, None)
        exact_delta = rational_in(delta, "delta", 0, 1, open_low=True, open_high=True)
        integer_in(kappa, "kappa", 1, None)
        half = 1 - Fraction(1, 2**kappa)
        share = None
        if noise_share is not None:
            share = rational_in(noise_share, "noise_share", 0, 1, open_low=True, open_high=True)
        elif exact_delta == half:
            raise ParameterError(f"delta must not equal 1 - 2^-kappa = {half} for the best split")
        with working():
            bound = to_decimal(rational_in(epsilon, "epsilon", 0, None))
            total = to_decimal(exact_delta)
            if share is not None:
                return cls._with_share(bound, total, kappa, to_decimal(share))
            if exact_delta > half:
                return cls._with_share(bound, total, kappa, to_decimal(1 - half / exact_delta))

            def slope(share: Decimal) -> Decimal:
                return _slope_of_threshold(bound, total, kappa, share)

            low, high = Decimal("0.5"), Decimal("0.5")
            while slope(low) > 0:
                low /= 4
            while slope(high) < 0:
                high = (1 + 3 * high) / 4 if high < Decimal("0.999") else 1 - (1 - high) / 100
            best = low if low == high else find_root(slope, low, high, digits=25)
            return cls._with_share(bound, total, kappa, best)

    @classmethod
    def _with_share(
        cls, epsilon: Decimal, delta: Decimal, kappa: int, share: Decimal
    ) -> "GaussianSelection":
        sigma = Decimal(kappa).sqrt() / gaussian_mu(epsilon, delta * share)
        return cls(sigma, 1 + sigma * _margin(delta * (1 - share), kappa), share)

    def keep_probability(self, count: int) -> Decimal:
        """Return P[count + Z > threshold]; 0 for an empty bucket, which is not listed."""
        if integer_in(count, "count", 0, None) == 0:
            return Decimal(0)
        with working():
            return upper_tail((self.threshold - count) / self.sigma)

    def count_kept_with(self, probability: Fraction) -> Decimal:
        """Return the real count that is kept with `probability`, strictly between 0 and 1."""
        with working():
            return self.threshold - self.sigma * upper_quantile(to_decimal(probability))


def _margin(delta: Decimal, kappa: int) -> Decimal:
    """Return z with Phi(z)^kappa = 1 - delta."""
    return upper_quantile(-expm1(log1p(-delta) / kappa))


def _slope_of_threshold(epsilon: Decimal, delta: Decimal, kappa: int, share: Decimal) -> Decimal:
    """Return the derivative of ln(sigma z) by the noise's delta, whose zero is the best split.

    With mu = sqrt(kappa)/sigma, d delta/d mu = phi(mu/2 - epsilon/mu), since the two terms of the
    curve share the factor phi; and d z/d delta_threshold = -(1-delta)^(1/kappa-1)/(kappa phi(z)).
    """
    for_noise, for_threshold = delta * share, delta * (1 - share)
    mu = gaussian_mu(epsilon, for_noise)
    z = _margin(for_threshold, kappa)
    of_sigma = -1 / (mu * density(mu / 2 - epsilon / mu))
    root = ((1 / Decimal(kappa) - 1) * log1p(-for_threshold)).exp()
    of_margin = root / (kappa * density(z) * z)
    return of_sigma + of_margin


def _least_cut_off(epsilon: Fraction, delta: Fraction) -> int:
    if epsilon == 0:
        return max(0, ceil((1 / delta - 1) / 2))
    if 2 * delta >= 1:
        # Of three values, the outer two are the least likely: below one half from k = 1 on.
        return 0 if delta == 1 else 1
    return least_bound(epsilon, delta)


def _tail(rate: Fraction, k: int, m: int) -> Decimal:
    """Return P[X >= m] where P[X = x] is proportional to e^(-rate |x|) on -k..k."""
    if m > k:
        return Decimal(0)
    if m <= -k:
        return Decimal(1)
    if m <= 0:
        return 1 - _tail(rate, k, 1 - m)
    if rate == 0:
        return to_decimal(Fraction(k - m + 1, 2 * k + 1))
    x = to_decimal(rate)
    # sum_{m..k} y^x = y^m (1 - y^(k-m+1))/(1 - y); all values: (1 + y - 2 y^(k+1))/(1 - y).
    total = -expm1(-x) - 2 * (-x).exp() * expm1(-k * x)
    return (-m * x).exp() * -expm1(-(k - m + 1) * x) / total
