"""Exact discrete Laplace noise for every rational scale.

Source: [CKS20], Definition of the discrete Laplace distribution; the sampler by independent binary
digits is `two_sided_geometric`'s.
"""

import functools
from fractions import Fraction

import numpy as np

from aggregator.dp.rationals import require_positive
from aggregator.dp.samplers.keystream import Keystream
from aggregator.dp.samplers.two_sided_geometric import Draws, TwoSidedGeometric
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError


class DiscreteLaplaceSampler:
    """The distribution P(Z = z) = (1 - q) / (1 + q) q^|z| with q = e^(-1/scale).

    Args:
        scale: t, an exact rational; 0 is the constant 0.

    Raises:
        ParameterError: The scale is negative or not a `Fraction`.
    """

    __slots__ = ("scale",)

    def __init__(self, scale: Fraction) -> None:
        if scale != 0:
            require_positive(scale, "scale")
        self.scale = scale

    def sample(self, count: int, entropy: Entropy) -> Draws:
        """Return `count` independent exact draws; at scale 0, zeros, and no entropy is drawn.

        The time does not depend on the values, up to events of probability 2^-64. The tail is
        exact: a draw that does not fit in 64 bits comes out whole, in an object array.
        """
        check_count(count)
        if self.scale == 0:
            return np.zeros(count, np.int64)
        return laplace_digits(self.scale).draw(count, Keystream(entropy))


def check_count(count: int) -> None:
    """Refuse a negative number of draws."""
    if count < 0:
        raise ParameterError(f"count must be at least 0, not {count}")


@functools.lru_cache(maxsize=256)
def laplace_digits(scale: Fraction) -> TwoSidedGeometric:
    """Return the rows for a scale: constants only, no randomness."""
    num_digits = 0
    # 45 > 64 ln 2, so e^(-2^I/t) < 2^-64.
    while 2**num_digits < 45 * scale:
        num_digits += 1
    return TwoSidedGeometric(scale, num_digits, has_tail=True)
