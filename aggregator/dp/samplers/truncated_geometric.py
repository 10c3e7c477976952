"""Exact truncated symmetric geometric noise for every rational scale.

Source: [DVGM22], "Truncated symmetric geometric distribution".
"""

import functools
from fractions import Fraction

import numpy as np

from aggregator.dp.rationals import require_positive
from aggregator.dp.samplers.discrete_laplace import check_count
from aggregator.dp.samplers.keystream import Keystream
from aggregator.dp.samplers.two_sided_geometric import Draws, TwoSidedGeometric
from aggregator.dp.truncation import MAX_BOUND
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError


class TruncatedGeometricSampler:
    """The distribution with P(X = x) proportional to q^|x| for |x| <= bound, q = e^(-1/scale).

    Args:
        scale: An exact rational; 0 is the constant 0.
        bound: k, from 0 to 2^61.

    Raises:
        ParameterError: The scale is negative or not a `Fraction`, or the bound is out of range.
    """

    __slots__ = ("bound", "scale")

    def __init__(self, scale: Fraction, bound: int) -> None:
        if scale != 0:
            require_positive(scale, "scale")
        if not 0 <= bound <= MAX_BOUND:
            raise ParameterError(f"bound must be from 0 to 2^61, not {bound}")
        self.scale = scale
        self.bound = bound

    def sample(self, count: int, entropy: Entropy) -> Draws:
        """Return `count` independent exact draws; at scale 0, zeros, and no entropy is drawn.

        A two-sided geometric variable with as many digits as the bound is redrawn while it exceeds
        the bound, less than half of the time. How often that happens is independent of the value
        kept, so the time does not depend on the values, up to events of probability 2^-64.
        """
        check_count(count)
        if self.scale == 0 or self.bound == 0:
            return np.zeros(count, np.int64)
        digits = _digits(self.scale, self.bound.bit_length())
        stream = Keystream(entropy)
        values = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            # A few more than are missing, so that one round is usually enough.
            missing = count - filled
            draws = digits.draw(missing + missing // 64 + 16, stream)
            kept = draws[(draws >= -self.bound) & (draws <= self.bound)][:missing]
            values[filled : filled + len(kept)] = kept
            filled += len(kept)
        return values


@functools.lru_cache(maxsize=256)
def _digits(scale: Fraction, num_digits: int) -> TwoSidedGeometric:
    """Return the rows for a scale: constants only, no randomness."""
    return TwoSidedGeometric(scale, num_digits, has_tail=False)
