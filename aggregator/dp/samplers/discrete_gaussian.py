"""Exact discrete Gaussian noise for every rational variance parameter.

A discrete Laplace draw y of scale t = sigma^2 / s, for any s > 0, is kept with probability
e^(-(|y| - s)^2 / (2 sigma^2)); what is kept is discrete Gaussian, since

    |y| s / sigma^2 + (|y| - s)^2 / (2 sigma^2) = y^2 / (2 sigma^2) + s^2 / (2 sigma^2).

With s the integer part of sigma, about three draws in four are kept; below sigma = 1, s = sigma^2
keeps the zeros. For s = n/d the exponent is N / D with the integer N = (|y| d - n)^2 and
D = 2 sigma^2 d^2. e^(-N/D) is the product of e^(-2^i/D) over the binary digits i of N, so a
draw is kept if an independent Bernoulli(e^(-2^i/D)) succeeds for every digit that is set.

Source: [CKS20], Algorithm 3, with s in place of sigma^2 / (floor(sigma) + 1).
"""

import functools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from aggregator.dp.rationals import require_positive
from aggregator.dp.samplers.bernoulli import LIMB_BITS, BernoulliRows, settle
from aggregator.dp.samplers.discrete_laplace import check_count, laplace_digits
from aggregator.dp.samplers.keystream import Keystream
from aggregator.dp.samplers.two_sided_geometric import Draws, as_array, decay
from aggregator.entropy import Entropy

_MOST_DIGITS_IN_A_WORD = 62
_LARGEST_SQUARED_IN_A_WORD = 2**31


class DiscreteGaussianSampler:
    """The distribution with P(X = x) proportional to e^(-x^2 / (2 sigma_squared)).

    Args:
        sigma_squared: An exact rational; 0 is the constant 0. The variance is at most this, and
            almost equal to it once it is above 1.

    Raises:
        ParameterError: It is negative or not a `Fraction`.
    """

    __slots__ = ("sigma_squared",)

    def __init__(self, sigma_squared: Fraction) -> None:
        if sigma_squared != 0:
            require_positive(sigma_squared, "sigma_squared")
        self.sigma_squared = sigma_squared

    def sample(self, count: int, entropy: Entropy) -> Draws:
        """Return `count` independent exact draws; at 0, zeros, and no entropy is drawn.

        Rejections make the total time vary. Their number is independent of the values kept, but no
        promise is made about the time of a single draw.
        """
        check_count(count)
        if self.sigma_squared == 0:
            return np.zeros(count, np.int64)
        proposal = _proposal(self.sigma_squared)
        stream = Keystream(entropy)
        rounds: list[Draws] = []
        missing = count
        while missing > 0:
            kept = proposal.draw(missing + missing // 2 + 16, stream)[:missing]
            rounds.append(kept)
            missing -= len(kept)
        if not rounds:
            return np.zeros(0, np.int64)
        if all(kept.dtype == np.int64 for kept in rounds):
            return np.concatenate([kept.astype(np.int64, copy=False) for kept in rounds])
        return as_array([int(value) for kept in rounds for value in kept])


class _Proposal:
    """Discrete Laplace draws, each kept with the probability that makes it Gaussian."""

    __slots__ = ("_decay", "_laplace", "_num_digits", "_peak", "_rows", "_unit")

    def __init__(self, sigma_squared: Fraction) -> None:
        # Any positive s is correct; these reject least.
        s = Fraction(math.isqrt(int(sigma_squared))) if sigma_squared >= 1 else sigma_squared
        self._peak, self._unit = s.numerator, s.denominator
        self._laplace = laplace_digits(sigma_squared / s)
        divisor = 2 * sigma_squared * self._unit**2
        self._num_digits = 0
        # 45 > 64 ln 2, so the overflow row succeeds with a probability below 2^-64.
        while 2**self._num_digits < 45 * divisor:
            self._num_digits += 1
        self._decay = decay(2**self._num_digits / divisor)
        digits = [decay(2**i / divisor) for i in range(self._num_digits)]
        self._rows = BernoulliRows([*digits, self._decay])

    def draw(self, count: int, stream: Keystream) -> Draws:
        """Return those of `count` proposals that are accepted."""
        values = self._laplace.draw(count, stream)
        outcomes = self._rows.draw(count, stream)
        if values.dtype == np.int64 and self._num_digits <= _MOST_DIGITS_IN_A_WORD:
            words = values.astype(np.int64, copy=False)
            farthest = int(np.abs(words).max(initial=0)) * self._unit + self._peak
            if farthest < _LARGEST_SQUARED_IN_A_WORD:
                return words[self._are_kept(words, outcomes, stream)]
        kept = [
            value
            for column, value in enumerate(map(int, values))
            if self._is_kept(value, outcomes[:, column], stream)
        ]
        return as_array(kept)

    def _are_kept(
        self, values: NDArray[np.int64], outcomes: NDArray[np.uint32], stream: Keystream
    ) -> NDArray[np.bool_]:
        """Return which values are kept, where all numbers fit in 64 bits."""
        exponents = (np.abs(values) * self._unit - self._peak) ** 2
        packed = outcomes[0].astype(np.int64)
        if len(outcomes) > 1:
            packed |= outcomes[1].astype(np.int64) << LIMB_BITS
        is_kept: NDArray[np.bool_] = (exponents & (2**self._num_digits - 1) & ~packed) == 0
        is_above = exponents >> self._num_digits > 0
        # Above the highest digit each value is kept with a probability below 2^-64.
        for column in np.flatnonzero(is_kept & is_above):
            is_kept[column] = self._is_kept(int(values[column]), outcomes[:, column], stream)
        return is_kept

    def _is_kept(self, value: int, outcomes: NDArray[np.uint32], stream: Keystream) -> bool:
        """Return whether one value is kept, whatever its size."""
        exponent = (abs(value) * self._unit - self._peak) ** 2
        packed = sum(int(limb) << index * LIMB_BITS for index, limb in enumerate(outcomes))
        above, digits = divmod(exponent, 2**self._num_digits)
        if digits & ~packed:
            return False
        if above == 0:
            return True
        if not packed >> self._num_digits & 1:
            return False
        return all(settle(self._decay, stream) for _ in range(above - 1))


@functools.lru_cache(maxsize=256)
def _proposal(sigma_squared: Fraction) -> _Proposal:
    """Return the rows for a variance: constants only, no randomness."""
    return _Proposal(sigma_squared)
