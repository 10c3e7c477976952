"""Field128 in limbs: the layouts, their bounds, and the arithmetic they share.

A residue is cut into *limbs*, least significant first: x = x0 + x1*B + x2*B^2 + ... A product of
two residues, or a sum of many, is kept as *columns*, one for each power of B, and nothing is
carried before the sum is complete; that slack makes the code fast. The modulus is
p = 2^128 - 28*2^64 + 1.

Residues are not kept below p. "x < 3p" in a comment bounds the integer that the limbs make up. One
below 4p < 2^130 fits the limbs, the last of which then has at most 26 bits. R, a power of B, is the
Montgomery radix, and `reduced` divides by it: the product of x and y comes out as x*y/R mod p. A
residue times R mod p is in *Montgomery form*; its product with a *plain* residue is plain. Shares
stay plain, only coefficients are converted.

Factors may be *unmasked*: the bits of a limb that a multiplication ignores may be anything. In
`Limbs52`, whose multiplication reads only the low 52 bits of a word, that saves the masks; in
`Limbs26` unmasked limbs are carried limbs. In both, carried limbs can be used as unmasked ones.

A share may hold a number that is not a residue. It is below 2^128 < 2p, so the bounds hold for it
too; what is computed from it is meaningless, and its lane is flagged.

Processors that multiply and add 52-bit numbers in one instruction use `field.lanes.limbs52`, all
others `field.lanes.limbs26`. R and the intermediate values differ, but the final encodings do not.

Source: Montgomery, "Modular Multiplication Without Trial Division".
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from field.fields import FIELD128
from field.lanes.words import Word

MODULUS = FIELD128.modulus
"""p."""

MODULUS_GAP = 2**128 - MODULUS
"""2^128 mod p = 28*2^64 - 1; its high word is 27, its low word all ones."""

MAX_PRODUCTS = 400
"""How many products a sum may have before it is reduced.

In both layouts a column of one product is the sum of at most five numbers below 2^52. 400 products
make less than 400 * 5 * 2^52 < 2^62.97, to which a reduction adds less than 2^55, so all columns
stay below 2^63. `Limbs26` subtracts less than 2^51 from a column.
"""


MAX_TERMS = 2**10
"""How many residues below 4p a sum may have before it is folded.

Limbs are below 2^52, so those of a sum are below 2^62. All but the last make up at most 2^104 per
residue, less in all than the 2^119 that `Limbs.folded` requires.
"""

MAX_WEIGHT = 2**28
"""The largest sum of the weights of encodings."""


def high_without_modulus(low: Word, high: Word) -> tuple[Word, Word]:
    """Return the high word of x - p modulo 2^128, and a word whose highest bit is set if x >= p.

    x has the two words given. Modulo 2^128, subtracting p is adding 28*2^64 - 1. So x - p has the
    low word `low` - 1, which borrows if `low` is 0, and the high word

        other = high + 27 + (1 if low is not 0, else 0).

    x >= p if and only if this sum carries. It adds less than 2^63 to `high`, so it carries if and
    only if the highest bit of `high` was 1 and that of `other` is 0.
    """
    other = high + ((low.at_least(1) & 1) + (MODULUS_GAP >> 64))
    return other, high & ~other


class Limbs(ABC):
    """One layout of limbs, with the arithmetic that all layouts share."""

    bits: ClassVar[int]
    """B is two to the power of this."""
    count: ClassVar[int]
    """The number of limbs of a residue."""
    columns: ClassVar[int]
    """The number of columns of a product."""
    steps: ClassVar[int]
    """How many times a reduction divides by B."""
    weighted_columns: ClassVar[int]
    """The number of columns of a weighted sum of encodings."""

    @property
    def radix(self) -> int:
        """R, the Montgomery radix."""
        return 1 << (self.bits * self.steps)

    @property
    def mask(self) -> int:
        """B - 1."""
        return (1 << self.bits) - 1

    @property
    def last_bits(self) -> int:
        """The bits of the last limb of a residue below 2^128."""
        return 128 - self.bits * (self.count - 1)

    def of(self, value: int) -> list[int]:
        """Return the limbs of an integer below 2^130."""
        return [(value >> (self.bits * i)) & self.mask for i in range(self.count)]

    @abstractmethod
    def split(self, low: Word, high: Word) -> list[Word]:
        """Return the limbs of a residue encoded in two words."""

    def unmasked(self, low: Word, high: Word) -> list[Word]:
        """Return unmasked limbs of an encoded residue, the last of which is exact."""
        return self.split(low, high)

    @abstractmethod
    def joined(self, x: Sequence[Word]) -> tuple[Word, Word]:
        """Return the two words that `split` takes apart."""

    @abstractmethod
    def added_product(
        self, columns: Sequence[Word], x: Sequence[Word], y: Sequence[Word]
    ) -> list[Word]:
        """Return the columns of a sum with x*y added, for unmasked x and y below 4p."""

    @abstractmethod
    def reduced(self, columns: Sequence[Word]) -> list[Word]:
        """Return limbs of c/R mod p, for columns that make up c >= 0.

        Columns are sums of at most `MAX_PRODUCTS` products. The result is at most c/R + p in
        `Limbs26`, and below 2p in `Limbs52`.
        """

    def reduced_sum(self, columns: Sequence[Word]) -> list[Word]:
        """Return limbs, below 2p, of c/R mod p for the sum c of at most `MAX_PRODUCTS` products."""
        return self.folded(self.reduced(columns))

    @abstractmethod
    def plus_folded(self, x: Sequence[Word], h: Word) -> list[Word]:
        """Return x + h * (28*2^64 - 1), not carried, for h < 2^32; its last limb is that of x."""

    def product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return carried limbs of x*y/R mod p, for unmasked x and y below 4p.

        Factors below 2p have a product below 2p: in `Limbs26` p < R/4, so x*y/R + p < 2p. Larger
        factors may there have a product of up to 5p, which must not be multiplied.
        """
        return self.reduced(self.columns_of_product(x, y))

    def unmasked_product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x*y/R mod p as `product` does, but unmasked; its last limb is exact."""
        return self.product(x, y)

    def plus_unmasked(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return limbs of x + y, not carried, for limbs y from `unmasked`."""
        return self.plus(x, y)

    @abstractmethod
    def added_weighted(
        self, columns: Sequence[Word], low: Word, high: Word, weight: Word
    ) -> list[Word]:
        """Return the `weighted_columns` of a sum with weight * (an encoded residue) added."""

    @abstractmethod
    def weighted_sum(self, columns: Sequence[Word]) -> list[Word]:
        """Return limbs below 2p of a weighted sum of up to `MAX_PRODUCTS` encodings.

        The weights add up to at most `MAX_WEIGHT`.
        """

    def columns_of_product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return the columns of x*y."""
        return self.added_product([x[0].filled(0)] * self.columns, x, y)

    def carried(self, columns: Sequence[Word]) -> list[Word]:
        """Return the same integer with all limbs but the last below B.

        Columns may be negative, down to -2^63: `>>` copies the sign, so the carry rounds down and
        what stays is not negative. If the integer is not negative, neither is the last limb.
        """
        c = list(columns)
        for i in range(self.count - 1):
            c[i + 1] = c[i + 1] + (c[i] >> self.bits)
            c[i] = c[i] & self.mask
        return c

    def folded(self, x: Sequence[Word]) -> list[Word]:
        """Return limbs below 2p of a residue below 2^160 whose limbs are not negative.

        The limbs need not be carried, but all but the last must make up less than 2^119.

        Write x = h * 2^128 + l, where h is the last limb's part above 128 bits. Because
        2^128 = 28*2^64 - 1 (mod p), x = l + h * (28*2^64 - 1). l is below 2^128 + 2^119 and
        h < 2^32, so the sum is below 2^128 + 2^120 < 2p. It is not negative either: if h > 0, it is
        at least h * 2^64.
        """
        h = x[-1].logical_right(self.last_bits)
        last = x[-1] & ((1 << self.last_bits) - 1)
        return self.carried(self.plus_folded([*x[:-1], last], h))

    def plus(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return limbs of x + y, neither carried nor folded."""
        return [a + b for a, b in zip(x, y, strict=True)]

    def sum(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return carried limbs of x + y, below 4p, for x and y < 2p."""
        return self.carried(self.plus(x, y))

    def minus(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return carried limbs of x - y modulo p, below 4p, for x and y < 2p."""
        two_p = [2 * limb for limb in self.of(MODULUS)]
        return self.carried([a - b + c for a, b, c in zip(x, y, two_p, strict=True)])

    def plus_and_minus(self, x: Sequence[Word], y: Sequence[Word]) -> tuple[list[Word], list[Word]]:
        """Return limbs of x + y and of x - y, both below 2p, for x and y < 2p.

        4p is added to the difference in limbs that are larger than the carried limbs of y, so that
        no limb of the difference is negative. The last limb of 4p stays larger even after it has
        lent to the others.
        """
        four_p = [4 * limb for limb in self.of(MODULUS)]
        for i in range(self.count - 1):
            while four_p[i] < 1 << self.bits:
                four_p[i] += 1 << self.bits
                four_p[i + 1] -= 1
        difference = [a - b + c for a, b, c in zip(x, y, four_p, strict=True)]
        return self.folded(self.plus(x, y)), self.folded(difference)

    def encoded(self, x: Sequence[Word]) -> tuple[Word, Word]:
        """Return the encoding, below p, of a residue x below 2p whose limbs are carried.

        The part of x above its two words is 0 or 1; if it is 1, x >= p.
        """
        low, high = self.joined(x)
        other, carry = high_without_modulus(low, high)
        past = x[-1] << (63 - self.last_bits)
        # All ones if x >= p; no branch, because x is secret.
        is_past = (past | carry) >> 63
        return low + is_past, high ^ ((high ^ other) & is_past)
