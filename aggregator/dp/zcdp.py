"""Zero-concentrated differential privacy and the (epsilon, delta) pairs that it implies."""

import functools
import math
from fractions import Fraction

from aggregator.dp.certified import Interval, ln, round_up, sqrt


@functools.lru_cache(maxsize=256)
def implied_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon such that rho-zCDP implies (epsilon, delta)-DP, rounded up.

    For every alpha > 1, rho-zCDP bounds the Renyi divergence of order alpha by alpha rho, and so

        epsilon = alpha rho + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1/alpha)

    is enough. Floating point only picks the alpha; the bound is then taken at that alpha exactly,
    so a poor choice could make it larger than it need be, never too small.

    Source:
        [CKS20], Corollary 13.
    """
    alpha = Fraction(_best_order(float(rho), -_log(delta)))

    def bound(digits: int) -> Interval:
        penalty = ln(1 / (alpha * delta), digits) / (alpha - 1)
        return alpha * rho + penalty + ln(1 - 1 / alpha, digits)

    return max(Fraction(0), round_up(bound))


def textbook_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return rho + 2 sqrt(rho ln(1/delta)), the looser bound that is usually quoted, rounded up.

    Source:
        [BS16], Proposition 1.3.
    """
    return round_up(lambda digits: rho + 2 * sqrt(rho * ln(1 / delta, digits), digits))


def _best_order(rho: float, log_one_over_delta: float) -> float:
    """Return about the best alpha, by golden-section search on ln(alpha - 1)."""

    def epsilon(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1 + excess
        return (
            alpha * rho
            + (log_one_over_delta - math.log(alpha)) / excess
            + math.log(excess)
            - math.log(alpha)
        )

    low, high = -40.0, 80.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(120):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if epsilon(left) <= epsilon(right):
            high = right
        else:
            low = left
    return 1 + math.exp((low + high) / 2)


def _log(value: Fraction) -> float:
    """Return about ln(value), also where the value is below the smallest float."""
    return math.log(value.numerator) - math.log(value.denominator)
