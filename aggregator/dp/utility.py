"""How far a released value may lie from the truth: intervals from the exact law of the noise.

The width of an interval is an integer, and the least one that covers: it is decided by certified
arithmetic, so the stated coverage holds exactly. Intervals hold per value, before any bucket is
selected, and only if no aggregator added anything but its noise.
"""

import functools
from fractions import Fraction

from aggregator.dp.certified import is_positive, to_float
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.errors import ParameterError


def half_width(scale: Fraction, confidence: Fraction, aggregators: int = 2) -> int:
    """Return the least h such that discrete Laplace noise stays within -h to h with `confidence`.

    Args:
        scale: Of each draw; 0 is no noise.
        confidence: Strictly between 0 and 1.
        aggregators: How many draws are added, 1 or 2.
    """
    return joint_half_width(scale, confidence, 1, aggregators)


def joint_half_width(
    scale: Fraction, confidence: Fraction, num_coordinates: int, aggregators: int = 2
) -> int:
    """Return the least h that covers `num_coordinates` values at once, by the union bound."""
    if scale == 0:
        return 0
    return half_width_of(DiscreteLaplaceLaw(aggregators, scale), confidence, num_coordinates)


@functools.lru_cache(maxsize=1024)
def half_width_of(law: NoiseLaw, confidence: Fraction, num_coordinates: int = 1) -> int:
    """Return the least h >= 0 with 2 P(S >= h + 1) <= (1 - confidence) / num_coordinates.

    Raises:
        ParameterError: The confidence is not strictly between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must be between 0 and 1, not {confidence}")
    miss = (1 - confidence) / num_coordinates
    high = 1
    while not _covers(law, high, miss):
        high *= 2
    low = -1  # never covers; `high` does
    while high - low > 1:
        middle = (low + high) // 2
        if _covers(law, middle, miss):
            high = middle
        else:
            low = middle
    return high


def coverage(law: NoiseLaw, width: int) -> float:
    """Return P(|S| <= width)."""
    tail = law.upper_tail(width + 1)
    return 1.0 if tail is None else to_float(lambda digits: 1 - 2 * tail(digits))


def _covers(law: NoiseLaw, width: int, miss: Fraction) -> bool:
    tail = law.upper_tail(width + 1)
    return tail is None or is_positive(lambda digits: miss - 2 * tail(digits))
