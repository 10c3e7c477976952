"""How likely noise of any weights stays within a width, from below, by a trigonometric polynomial.

On a circle of length L, where the noise S is read modulo L, a polynomial of degree K that lies
nowhere above the indicator of -h to h has the expectation

    2h/L - 1/(K+1) + sum over n = 1 to K of phi(2 pi n / L) c(n)
    c(n) = 2 sin(2 pi n h / L) / (pi n) J(n / (K+1)) - 2 / (K+1) (1 - n / (K+1)) cos(2 pi n h / L)

with phi the characteristic function of S and J(t) = pi t (1 - t) cot(pi t) + t. It needs phi at K
points and nothing else, and no integral is approximated. It loses as much as if h were L / (2K)
less. What comes round the circle, |S| >= L - h, is for the caller to bound.

Source: [Vaa85], Theorem 18.
"""

import math

import numpy as np

from aggregator.dp.spectrum import UNIT_ROUNDOFF, Floats


class Minorant:
    """A lower bound of P(|S| <= h) on a circle of a length, for every h.

    `values` of the characteristic function of S are at 2 pi n / `length` for n = 1 to K, each off
    by its error.
    """

    __slots__ = ("_degree", "_error", "_factors", "_large", "_length", "_small")

    def __init__(self, values: Floats, errors: Floats, length: float) -> None:
        self._degree = degree = len(values)
        self._length = length
        n = np.arange(1, degree + 1)
        t = n / (degree + 1)
        # A common factor of each n's sine, and of its cosine; as the real part of one product.
        smooth = math.pi * t * (1 - t) / np.tan(math.pi * t) + t
        sides = values * smooth * 2 / (math.pi * n)
        edges = values * 2 / (degree + 1) * (1 - t)
        # n = row * columns + column + 1 has its angle's power from those of its row and column.
        columns = math.isqrt(degree - 1) + 1
        rows = -(-degree // columns)
        factors = np.zeros(rows * columns, np.complex128)
        factors[:degree] = -edges - 1j * sides
        self._factors = factors.reshape(rows, columns)
        self._large = 2j * math.pi * columns * np.arange(rows)
        self._small = 2j * math.pi * np.arange(1, columns + 1)
        # c(n) is at most 2 / (pi n) + 2 / (K + 1), and each term, its angle n h / L included, is
        # rounded by less than 32 units.
        largest = 2 / (math.pi * n) + 2 / (degree + 1)
        self._error = float(errors @ largest) + 32 * degree * UNIT_ROUNDOFF

    def within(self, width: float) -> float:
        """Return at most P(|S mod L| <= width), for a width from 0 to L / 2."""
        part = width / self._length
        rows = np.sum(self._factors * np.exp(self._small * part), axis=1)
        total = float(np.sum(rows * np.exp(self._large * part)).real)
        return 2 * width / self._length - 1 / (self._degree + 1) + total - self._error
