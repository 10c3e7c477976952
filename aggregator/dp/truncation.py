"""How far truncated symmetric geometric noise must reach for a given epsilon and delta.

X has P(X = x) = q^|x| / n for |x| <= k. Two sums that differ by m shift it by m: where both laws
are positive the loss is at most m (-ln q), and only the top m values of one law lie outside the
other. So q = e^(-epsilon/m) and a mass of at most delta for the top m values give (epsilon, delta).
"""

import functools
from fractions import Fraction

from aggregator.dp.certified import Enclosed, Enclosure, exp, floor_of, is_positive, ln
from aggregator.errors import ParameterError

MAX_BOUND = 2**61
"""Larger truncated noise would not fit in a word, nor leave room for sums in any field."""


@functools.lru_cache(maxsize=256)
def least_bound(epsilon: Fraction, delta: Fraction, shift: int = 1) -> int:
    """Return the least k whose top `shift` values have a mass of at most delta.

    With q = e^(-epsilon/m) that mass is q^(k - m + 1) (1 - q^m) / (1 + q - 2 q^(k + 1)), so k is at
    least

        m - 1 + (m/epsilon) ln((1 - q^m + 2 delta q^m) / (delta (1 + q)))

    That real number is not an integer, as q is transcendental, so its floor plus one is the least
    k: no rounding can make it one too small.

    Args:
        epsilon: Of one coordinate.
        delta: Of one coordinate, below 1/2, so that k is at least m.
        shift: m, how far one person can move the coordinate.

    Raises:
        ParameterError: delta is 1/2 or more, or k is beyond 2^61.
    """
    if not 0 < delta < Fraction(1, 2):
        raise ParameterError(f"delta of one coordinate must be below 1/2, not {delta}")

    def least_real(digits: int) -> Enclosure:
        q, power = exp(-epsilon / shift, digits), exp(-epsilon, digits)
        ratio = (1 - power + 2 * delta * power) / (delta * (1 + q))
        return shift - 1 + shift / epsilon * ln(ratio, digits)

    if is_positive(lambda digits: least_real(digits) - MAX_BOUND):
        raise ParameterError(
            f"epsilon {epsilon} and delta {delta} need noise beyond 2^61; take a larger epsilon"
        )
    return floor_of(least_real) + 1


def edge_mass(epsilon: Fraction, bound: int, shift: int = 1) -> Enclosed:
    """Return the exact mass of the top `shift` values, the delta of one coordinate."""

    def enclosure(digits: int) -> Enclosure:
        def power(exponent: int) -> Enclosure:
            return exp(-exponent * epsilon / shift, digits)

        top = power(bound - shift + 1) * (1 - power(shift))
        return top / (1 + power(1) - 2 * power(bound + 1))

    return enclosure
