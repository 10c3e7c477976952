"""How far discrete Laplace noise spreads, in decimals: beyond a double's range as well."""

from decimal import Decimal
from fractions import Fraction

from aggregator.dp.decimals import Number, expm1, find_root, rational_in, to_decimal, working
from aggregator.errors import ParameterError

_LEAST_EPSILON = Fraction(1, 10**30)
"""Noise of a smaller one fits no field, and its exact intervals take seconds and then minutes."""


def epsilon_of_noise(epsilon: Number) -> Fraction:
    """Return an epsilon for which the spread of the noise may be asked.

    Raises:
        ParameterError: It is below 10^-30.
    """
    number = rational_in(epsilon, "epsilon", 0, None, open_low=True)
    if number < _LEAST_EPSILON:
        raise ParameterError(f"epsilon must be at least 1e-30, not {epsilon}")
    return number


def variance(rate: Decimal, aggregators: int) -> Decimal:
    """Return 2q / (1 - q)^2 per draw.

    Args:
        rate: One over the scale; q = e^-rate.
        aggregators: How many draws are added, 1 or 2.
    """
    return aggregators * 2 * (-rate).exp() / expm1(-rate) ** 2


def mean_absolute_error(rate: Decimal, aggregators: int) -> Decimal:
    """Return E|S|: 2q / (1 - q^2) for one draw.

    For two, 2q / (1 + q)^2 [(1 + q) / (1 - q) + (1 + q^2) / (1 - q^2)]. Arguments as above.
    """
    q, less = (-rate).exp(), -expm1(-rate)  # `less` is 1 - q
    if aggregators == 1:
        return 2 * q / (less * (1 + q))
    spread = (1 + q) / less + (1 + q * q) / (less * (1 + q))
    return 2 * q / (1 + q) ** 2 * spread


def least_epsilon(error: Fraction, sensitivity: int) -> Decimal:
    """Return the epsilon at which the draws of both aggregators have a mean absolute error.

    Args:
        error: Of each coordinate, above 0. A smaller epsilon has a larger one.
        sensitivity: In the L1 norm, at least 1.
    """
    with working():
        wanted = to_decimal(error)

        def excess(epsilon: Decimal) -> Decimal:
            return mean_absolute_error(epsilon / sensitivity, 2) - wanted

        low = high = Decimal(sensitivity)
        while excess(high) > 0:
            high *= 2
        while excess(low) < 0:
            low /= 2
        return low if low == high else find_root(excess, low, high)
