"""Zero-concentrated differential privacy and the (epsilon, delta) pairs that it implies."""

import functools
import math
from fractions import Fraction

from aggregator.dp.certified import Enclosure, ln, round_up, round_up_closely, sqrt
from aggregator.dp.search import least
from aggregator.errors import ParameterError

_FINENESS = 10**6
"""A rho is found from below, to one part in this many of epsilon."""


@functools.lru_cache(maxsize=256)
def implied_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon such that rho-zCDP implies (epsilon, delta)-DP, rounded up.

    For every alpha > 1, rho-zCDP bounds the Renyi divergence of order alpha by alpha rho, and so

        epsilon = alpha rho + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1/alpha)

    is enough. Floating point only picks alpha; the bound is then computed exactly at that alpha, so
    a poor choice could make it larger than necessary, never too small.

    Source: [CKS20], Corollary 13.
    """
    alpha = 1 + Fraction(_best_excess(float(rho), -_log(delta)))

    def bound(digits: int) -> Enclosure:
        penalty = ln(1 / (alpha * delta), digits) / (alpha - 1)
        return alpha * rho + penalty + ln(1 - 1 / alpha, digits)

    return max(Fraction(0), round_up(bound))


def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return nearly the largest rho that implies at most epsilon at delta.

    Raises `ParameterError` if epsilon is too small for any rho.
    """
    step = epsilon / _FINENESS
    above = least(lambda count: implied_epsilon((count + 1) * step, delta) > epsilon, 0)
    if above == 0:
        raise ParameterError(f"epsilon: {epsilon} is too small for this delta")
    return above * step


def textbook_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the looser bound that is usually quoted, rounded up: [BS16], Proposition 1.3.

    It is rho + 2 sqrt(rho ln(1/delta)).
    """
    return round_up_closely(lambda digits: rho + 2 * sqrt(rho * ln(1 / delta, digits), digits))


def _best_excess(rho: float, log_one_over_delta: float) -> float:
    """Return roughly the best alpha - 1, above 0, by golden-section search on its logarithm.

    alpha itself would be 1 in floating point where rho is large.
    """

    def above_rho(log_excess: float) -> float:
        """Return epsilon minus rho: a large rho would drown the rest."""
        excess = math.exp(log_excess)
        log_alpha = math.log1p(excess)
        return excess * rho + (log_one_over_delta - log_alpha) / excess + log_excess - log_alpha

    low, high = -300.0, 80.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(140):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if above_rho(left) <= above_rho(right):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)


def _log(value: Fraction) -> float:
    """Return roughly ln(value), even if the value is below the smallest float, or nearly 1."""
    if 2 * value > 1:
        return math.log1p(float(value - 1))
    return math.log(value.numerator) - math.log(value.denominator)
