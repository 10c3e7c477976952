"""The least epsilon whose discrete Laplace noise has a wanted mean absolute error."""

from decimal import Decimal
from fractions import Fraction

from aggregator.dp.decimals import DIGITS, find_root, to_decimal, working
from aggregator.dp.laws import DiscreteLaplaceLaw


def least_epsilon(error: Fraction, sensitivity: int) -> Decimal:
    """Return the epsilon at which both aggregators' draws together have this mean absolute error.

    Args:
        error: The error of each coordinate, above 0. A smaller epsilon has a larger one.
        sensitivity: In the L1 norm, at least 1.
    """
    with working():
        wanted = to_decimal(error)
        digits = DIGITS + abs(wanted.adjusted())

        def excess(epsilon: Decimal) -> Decimal:
            law = DiscreteLaplaceLaw(2, sensitivity / Fraction(epsilon))
            return to_decimal(law.mean_magnitude()(digits).low) - wanted

        low = high = Decimal(sensitivity)
        while excess(high) > 0:
            high *= 2
        while excess(low) < 0:
            low /= 2
        return low if low == high else find_root(excess, low, high)
