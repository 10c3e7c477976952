"""Field128 in three limbs of 52 bits: one instruction multiplies and adds numbers of 52 bits.

`field.lanes.limbs128` says what limbs and columns are, and when limbs are unmasked.

Source: Montgomery, "Modular Multiplication Without Trial Division".
"""

import itertools
from collections.abc import Sequence

from typing_extensions import override

from field.lanes.limbs128 import MODULUS, Limbs
from field.lanes.words import Word

_FOLD52 = 28 << 12
"""What 2^128 mod p adds to the middle limb: 28*2^64 = 28*2^12 * 2^52."""


class Limbs52(Limbs):
    """Three limbs of 52 bits, for processors that multiply and add such numbers in one instruction.

    A product of two limbs has 104 bits; one instruction adds its low 52 bits to a column, another
    its high 52 bits to the next. Both read only the low 52 bits of the factors. The last limbs of
    residues below 4p have 26 bits, so their product has no high part and five columns are enough.

    In base B = 2^52 the modulus is, in positive limbs,

        p = 1 + (B - 28*2^12) * B + (2^24 - 1) * B^2                                            (1)
    """

    bits = 52
    count = 3
    columns = 5
    steps = 2
    weighted_columns = 3

    @override
    def split(self, low: Word, high: Word) -> list[Word]:
        return self._masked(self.unmasked(low, high))

    @override
    def unmasked(self, low: Word, high: Word) -> list[Word]:
        return [low, high.shifted_left_with(low, 12), high.logical_right(40)]

    @override
    def joined(self, x: Sequence[Word]) -> tuple[Word, Word]:
        return x[0] | (x[1] << 52), x[2].shifted_left_with(x[1] << 12, 40)

    @override
    def added_product(
        self, columns: Sequence[Word], x: Sequence[Word], y: Sequence[Word]
    ) -> list[Word]:
        c = list(columns)
        for i, j in itertools.product(range(self.count), repeat=2):
            c[i + j] = c[i + j].plus_low_product(x[i], y[j])
            if i + j + 1 < self.columns:
                c[i + j + 1] = c[i + j + 1].plus_high_product(x[i], y[j])
        return c

    @override
    def reduced(self, columns: Sequence[Word]) -> list[Word]:
        """Return c/R mod p, for columns that are not negative and make up c.

        `_divided` leaves three columns x0, x1, x2, each below 2^63 (see `MAX_PRODUCTS`): they make
        up less than 2^168. A third step would bring that below 2p; a fold does so with less work.
        As in `folded`, 2^128 = 28*2^64 - 1 (mod p) and h = x2 >> 24, below 2^39, but here
        h * (28*2^12) may have a high part, of weight B^2. Without h the columns make up less than
        2^128 + 2^63 * (1 + B) < 2^128 + 2^116, and h adds less than 2^39 * 28*2^64 < 2^108, so the
        result is below 2p. x0 - h may be negative, but the result is not: h adds
        h * (28*2^64 - 1).
        """
        x0, x1, x2 = self._divided([c + self.mask for c in columns[:2]] + [*columns[2:]])
        h, x2, fold = self._fold_of(x2)
        x1, x2 = x1.plus_low_product(h, fold), x2.plus_high_product(h, fold)
        return self.carried([x0 - h, x1, x2])

    @override
    def reduced_sum(self, columns: Sequence[Word]) -> list[Word]:
        return self.reduced(columns)  # Already folded.

    @override
    def product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        return self._masked(self.unmasked_product(x, y))

    @override
    def unmasked_product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x*y/R mod p, unmasked; its last limb is exact, as all carries have reached it.

        As `reduced`, but the first columns begin with the B - 1 that `_divided` needs, limbs are
        not masked after carrying, and h * (28*2^12) has no high part: one product is below
        16p^2 < 2^260; after adding at most R*p and dividing by R it is below 2^156 + 2^128. So x2
        is below 2^52 + 2^24, h is at most 2^28, and 28*2^12 < 2^17.
        """
        zero, start = x[0].filled(0), x[0].filled(self.mask)
        x0, x1, x2 = self._divided(self.added_product([start, start, zero, zero, zero], x, y))
        h, x2, fold = self._fold_of(x2)
        x0, x1 = x0 - h, x1.plus_low_product(h, fold)
        x1 = x1 + (x0 >> self.bits)
        return [x0, x1, x2 + (x1 >> self.bits)]

    def _divided(self, raised: Sequence[Word]) -> list[Word]:
        """Return the three columns of c/R mod p.

        `raised` are the columns of c, with B - 1 added to the first two.

        One step makes the lowest column c0 divisible by B and drops it; two steps divide by
        B^2 = R. lo and hi are the halves of a product of limbs, p1 and p2 the limbs of p:

            column    c0         c1                       c2                         c3
            + q*p     + q        + lo(q*p1)               + hi(q*p1) + lo(q*p2)      + hi(q*p2)
            carry     - (c0+q)   + (c0 + B - 1 >> 52)
            left      0          c1 + ...                 c2 + ...                   c3 + ...

        A step adds q*p for q = -c0 mod B, which changes nothing mod p. Because p = 1 (mod B), that
        makes c0 divisible; no inverse of p is needed. Both steps together add Q*p with Q < R, so
        (c + Q*p)/R is left.

        The two columns that are dropped come with B - 1 added: the code has c0 + B - 1, below 2^63,
        where the table has c0. With that

        - the carry is a shift. The lowest limb of p is 1, so the lowest column becomes c0 + q, the
          next multiple of B from c0 on. Divided by B it is c0/B rounded up, (c0 + B - 1) >> 52,
          which goes to the next column. The column itself is not read again.
        - q is an inversion of bits. The other limbs of p, by (1), are multiplied by q and added as
          in any product. Only the low 52 bits of q count, and those of
          ~(c0 + B - 1) = -(c0 + B - 1) - 1 = -c0 - B are those of -c0.
        """
        _, middle, last = self.of(MODULUS)
        p1, p2 = raised[0].filled(middle), raised[0].filled(last)
        c = list(raised)
        for i in range(self.steps):
            q = ~c[i]
            c[i + 1] = c[i + 1] + c[i].logical_right(self.bits)
            c[i + 1] = c[i + 1].plus_low_product(q, p1)
            c[i + 2] = c[i + 2].plus_high_product(q, p1).plus_low_product(q, p2)
            c[i + 3] = c[i + 3].plus_high_product(q, p2)
        return c[self.steps :]

    def _fold_of(self, last: Word) -> tuple[Word, Word, Word]:
        """Return the last limb's part above 128 bits, its part below, and 28*2^12."""
        rest = last & ((1 << self.last_bits) - 1)
        return last.logical_right(self.last_bits), rest, last.filled(_FOLD52)

    @override
    def plus_unmasked(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        # A product by 1 is cheaper than a mask and an addition.
        one = x[0].filled(1)
        return [a.plus_low_product(b, one) for a, b in zip(x, y, strict=True)]

    @override
    def added_weighted(
        self, columns: Sequence[Word], low: Word, high: Word, weight: Word
    ) -> list[Word]:
        """Add the product with a weight, which is one limb.

        The last limb of an encoding is below 2^24, so its product with a weight up to 2^28 is below
        2^52 and has no high part.
        """
        x0, x1, x2 = self.unmasked(low, high)
        c0, c1, c2 = columns
        return [
            c0.plus_low_product(x0, weight),
            c1.plus_high_product(x0, weight).plus_low_product(x1, weight),
            c2.plus_high_product(x1, weight).plus_low_product(x2, weight),
        ]

    @override
    def weighted_sum(self, columns: Sequence[Word]) -> list[Word]:
        """Return limbs below 2p.

        The sum is below 2^28 * 2^128. Each product has added one number below 2^52 to the first
        column and two to the second. After `MAX_PRODUCTS` products these columns are below 2^61 and
        2^62, and make up less than 2^115.
        """
        return self.folded(columns)

    @override
    def plus_folded(self, x: Sequence[Word], h: Word) -> list[Word]:
        return [x[0] - h, x[1].plus_low_product(h, h.filled(_FOLD52)), x[2]]

    def _masked(self, x: Sequence[Word]) -> list[Word]:
        """Return unmasked limbs, the last of which is exact, as carried limbs."""
        return [limb & self.mask for limb in x[:-1]] + [x[-1]]
