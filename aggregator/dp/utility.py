"""How far a released value may lie from the truth: intervals from the exact law of the noise.

An interval's width is the least integer that covers, found by certified arithmetic, so the stated
coverage holds exactly. Intervals hold per value, before any bucket is selected, and only if neither
aggregator added anything but its noise.
"""

import functools
from fractions import Fraction

from aggregator.dp.certified import is_positive, to_float
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.search import least
from aggregator.errors import ParameterError

DEFAULT_CONFIDENCE = Fraction(95, 100)
PERCENT = f"{100 * DEFAULT_CONFIDENCE} %"
"""The same for people to read."""


@functools.lru_cache(maxsize=256)
def variance_of(law: NoiseLaw) -> float:
    """Return the variance of the noise; each task that is read asks for it, and many have one law.

    It is close to the exact one as `to_float` is.
    """
    return to_float(law.variance())


@functools.lru_cache(maxsize=1024)
def half_width_of(law: NoiseLaw, confidence: Fraction, num_coordinates: int = 1) -> int:
    """Return the least h >= 0 with 2 P(S >= h + 1) <= (1 - confidence) / num_coordinates.

    Raises `ParameterError` if the confidence is not strictly between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must be between 0 and 1, not {confidence}")
    miss = (1 - confidence) / num_coordinates

    def covers(width: int) -> bool:
        tail = law.upper_tail(width + 1)
        return tail is None or is_positive(lambda digits: miss - 2 * tail(digits))

    return least(covers, 0)
