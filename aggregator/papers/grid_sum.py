"""The privacy curve of a sum of many equal losses on a grid, and a bound on its errors in doubles.

With y the transform of the law of one loss over N points and W that of the weights
max(0, 1 - e^(epsilon - loss)), which has a closed form, the curve is the mean of y^n W (Parseval).
Each y is a sum over paths of log2 N steps of radix two, or half as many of radix four, from the
probabilities, which add up to 1; each step multiplies by 1 and a few units of the last place. So y
errs by at most e = `_ERROR_OF_STEP` log2 N, and y^n by n e (|y| + e)^(n-1) and the units of its n
multiplications. The mean of these errors times |W|, and the errors of W and of the sum, are
computed beside the curve. This assumes that numpy's transform consists of such steps, with
roots of unity right to four units, as its source says; the constants are generous.

Source: [Hig02], Theorem 24.2, whose proof this is, for single values instead of norms.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

# A unit is half of the last place.
_UNIT = 2.0**-53
_ERROR_OF_STEP = 8 * _UNIT  # a root of unity, a product, a sum
_ERROR_OF_PRODUCT = 3 * _UNIT
_ERROR_OF_WEIGHT = 32 * _UNIT
_ERROR_OF_SUM = 64 * _UNIT  # numpy adds in pairs, from blocks of 128 on
_UNDERFLOW = 1e-300

_BLOCK = 2**14


@dataclass(frozen=True, slots=True)
class GridSum:
    """The law of the sum of `count` equal losses on a grid, as its transform.

    `single` has the absolute values of the transform of one loss, N/2 + 1 of N, and loss 0 has the
    index `middle` among the N points.
    """

    single: NDArray[np.float64]
    power: NDArray[np.complex128]
    count: int
    middle: int
    step: float

    @classmethod
    def of(cls, masses: NDArray[np.float64], count: int, step: float) -> "GridSum":
        """Add up `count` losses, given the probabilities of -m, ..., m steps for some m."""
        size = (masses.size - 1) * count + 1
        transform = np.fft.rfft(masses, 1 << (size - 1).bit_length())
        power = _to_the_power(transform, count)
        return cls(np.abs(transform), power, count, (masses.size - 1) // 2 * count, step)

    def above(self, epsilon: Fraction) -> tuple[float, float]:
        """Return E[max(0, 1 - e^(epsilon - L))], and a bound on its error.

        epsilon is from 0 to less than the largest loss.
        """
        first = math.floor(epsilon / Fraction(self.step)) + 1
        # e^(epsilon - loss) begins just below 1.
        begin = math.exp(epsilon - first * Fraction(self.step))
        error = _ERROR_OF_STEP * math.log2(2 * (self.single.size - 1))
        found, missing = [], []
        # In blocks that stay in the processor's cache, which takes a third of the time.
        for start in range(0, self.single.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            single, power = self.single[block], self.power[block]
            times, weights, size_of_terms = self._weights(start, single.size, first, begin)
            found.append(float(np.sum(times * (power * weights).real)))
            of_transform = self.count * error * (single + error) ** (self.count - 1) + _UNDERFLOW
            of_products = _ERROR_OF_PRODUCT * self.count + _ERROR_OF_SUM
            size_of_power = np.abs(power)
            heavy = times * np.abs(weights)
            missing.append(
                np.sum(heavy * (of_transform + of_products * size_of_power))
                + _ERROR_OF_WEIGHT * np.sum(times * size_of_power * size_of_terms)
            )
        return math.fsum(found), 1.01 * math.fsum(missing)

    def _weights(
        self, start: int, number: int, first: int, begin: float
    ) -> tuple[NDArray[np.float64], NDArray[np.complex128], NDArray[np.float64]]:
        """Return for how many values some stand, their weights, and the size of what is in those.

        They are the values from `start` on. The weights are those of all losses from `first` steps
        on, where e^(epsilon - loss) is `begin`.
        """
        size = 2 * (self.single.size - 1)
        k = np.arange(start, start + number)
        count = self.middle - first + 1
        once, counted = _Turn.by(k, 1, size), _Turn.by(k, count, size)
        with np.errstate(invalid="ignore"):
            ones = counted.one_less(0.0) / once.one_less(0.0)
        if start == 0:
            ones[0] = count  # of zero by zero
        falling = begin * (counted.one_less(count * self.step) / once.one_less(self.step))
        angle = _angle(k, first + self.middle, size)
        weights = (np.cos(angle) + 1j * np.sin(angle)) * (ones - falling)
        # All but the first and the last value stand for two.
        times = np.where((k == 0) | (k == size // 2), 1 / size, 2 / size)
        return times, weights, np.abs(ones) + np.abs(falling)


@dataclass(frozen=True, slots=True)
class _Turn:
    """The powers e^(i angle), as 1 - cos(angle) without cancellation and sin(angle)."""

    versine: NDArray[np.float64]
    sine: NDArray[np.float64]

    @classmethod
    def by(cls, k: NDArray[np.int64], steps: int, size: int) -> "_Turn":
        """Turn k times by `steps` of `size` parts of a circle."""
        angle = _angle(k, steps, size)
        return cls(2 * np.sin(angle / 2) ** 2, np.sin(angle))

    def one_less(self, fall: float) -> NDArray[np.complex128]:
        """Return 1 - e^(-`fall` + i angle), without cancellation."""
        left = math.exp(-fall)
        return -math.expm1(-fall) + left * self.versine - 1j * left * self.sine


def _angle(k: NDArray[np.int64], steps: int, size: int) -> NDArray[np.float64]:
    """Return 2 pi k steps / size less whole turns, which are taken off exactly.

    The size is a power of two.
    """
    place = (k * steps) & (size - 1)
    return np.where(place > size // 2, place - size, place) * (2 * math.pi / size)


def _to_the_power(values: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return the power by squares and products; its error is that of `exponent` products."""
    result = np.ones_like(values)
    while exponent:
        if exponent & 1:
            result = result * values
        exponent >>= 1
        if exponent:
            values = values * values
    return result
