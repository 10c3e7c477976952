"""Field128 in five limbs of 26 bits: products of 32-bit numbers, which every vector unit has.

`field.lanes.limbs128` says what limbs and columns are, and when limbs are unmasked.

Source: Montgomery, "Modular Multiplication Without Trial Division".
"""

import itertools
from collections.abc import Sequence

from typing_extensions import override

from field.lanes.limbs128 import MODULUS, Limbs
from field.lanes.words import Word

_QUARTER_MASK = 2**32 - 1


class Limbs26(Limbs):
    """Five limbs of 26 bits: 25 multiplications of 32-bit numbers make the columns of a product.

    In base B = 2^26 the modulus is

        p = 1 - 28*2^12 * B^2 + 2^24 * B^4                                                      (1)
    """

    bits = 26
    count = 5
    columns = 9
    steps = 5
    weighted_columns = 4

    @override
    def split(self, low: Word, high: Word) -> list[Word]:
        return [
            low & self.mask,
            low.logical_right(26) & self.mask,
            (low.logical_right(52) | (high << 12)) & self.mask,
            high.logical_right(14) & self.mask,
            high.logical_right(40),
        ]

    @override
    def joined(self, x: Sequence[Word]) -> tuple[Word, Word]:
        low = x[0] | (x[1] << 26) | (x[2] << 52)
        high = x[2].logical_right(12) | (x[3] << 14) | (x[4] << 40)
        return low, high

    @override
    def added_product(
        self, columns: Sequence[Word], x: Sequence[Word], y: Sequence[Word]
    ) -> list[Word]:
        c = list(columns)
        for i, j in itertools.product(range(self.count), repeat=2):
            c[i + j] = c[i + j] + x[i].times32(y[j])
        return c

    @override
    def reduced(self, columns: Sequence[Word]) -> list[Word]:
        """Return c/R mod p, for columns that make up c >= 0.

        One step makes the lowest column divisible by B and drops it; five steps divide by B^5 = R:

            column    c0         c1            c2                c3    c4
            - q*p     - q                      + q * 28*2^12           - q * 2^24
            carry     - (c0-q)   + (c0 >> 26)
            left      0          c1 + ...      c2 + ...          c3    c4 - ...

        Let q be the low 26 bits of the lowest column. Because p = 1 (mod B), subtracting q*p clears
        exactly these bits, whatever q is: no inverse of p is needed. By (1), subtracting q*p

        - takes q from the lowest column, which leaves c0 - q = (c0 >> 26) * B: a carry into the
          next, correct for a negative column too, because `>>` rounds down and q is not negative;
        - adds q * 28*2^12 two columns up, less than 2^43;
        - takes q * 2^24 four columns up, less than 2^50.

        All steps together subtract Q*p with 0 <= Q < R, so (c - Q*p)/R is between c/R - p and c/R.
        Adding p in the columns that remain makes it positive, and at most c/R + p.
        """
        c = [*columns, columns[0].filled(0)]
        for i, limb in enumerate(self.of(MODULUS)):
            c[self.steps + i] = c[self.steps + i] + limb
        for i in range(self.steps):
            q = c[i] & self.mask
            c[i + 1] = c[i + 1] + (c[i] >> self.bits)
            c[i + 2] = c[i + 2] + q.times32(28 << 12)
            c[i + 4] = c[i + 4] - (q << 24)
        return self.carried(c[self.steps :])

    @override
    def added_weighted(
        self, columns: Sequence[Word], low: Word, high: Word, weight: Word
    ) -> list[Word]:
        """Add 32-bit quarters, which are fewer than limbs: column i has the weight 2^(32*i)."""
        quarters = (
            low & _QUARTER_MASK,
            low.logical_right(32),
            high & _QUARTER_MASK,
            high.logical_right(32),
        )
        return [c + quarter.times32(weight) for c, quarter in zip(columns, quarters, strict=True)]

    @override
    def weighted_sum(self, columns: Sequence[Word]) -> list[Word]:
        """Return limbs below 2p.

        Columns are below 2^28 * 2^32, so none overflows when the one before is carried into it. The
        last column's part above 32 bits, below 2^29, has the weight 2^128 and goes into the last
        limb.
        """
        q = list(columns)
        for i in range(self.weighted_columns - 1):
            q[i + 1] = q[i + 1] + q[i].logical_right(32)
            q[i] = q[i] & _QUARTER_MASK
        above = q[3].logical_right(32)
        x = self.split(q[0] | (q[1] << 32), q[2] | (q[3] << 32))
        return self.folded([*x[:-1], x[-1] + (above << self.last_bits)])

    @override
    def plus_folded(self, x: Sequence[Word], h: Word) -> list[Word]:
        return [x[0] - h, x[1], x[2] + h.times32(28 << 12), x[3], x[4]]
