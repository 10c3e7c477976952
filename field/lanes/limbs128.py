"""Field128 in limbs: what a layout of limbs is, its bounds, and the arithmetic that all share.

A residue is cut into *limbs*, least significant first: x = x0 + x1*B + x2*B^2 + ... A product of
two residues, or a sum of many, is kept as *columns*, one a power of B, and nothing is carried
before the sum is complete; that slack is what makes the code fast. The modulus is
p = 2^128 - 28*2^64 + 1.

Residues are not kept below p. "x < 3p" in a comment bounds the integer that the limbs make up; what
is below 4p < 2^130 fits the limbs, the last of which then has 26 bits at most. R, a power of B, is
the Montgomery radix, and `reduced` divides by it: the product of x and y comes out as x*y/R mod p.
A residue times R mod p is in *Montgomery form*; the product of one in Montgomery form and one that
is *plain* is plain. Shares stay plain, only coefficients are converted.

What is only going to be multiplied may be *unmasked*: all bits of a limb but those that a
multiplication looks at may be anything. In `Limbs52`, whose multiplication looks at the low 52 bits
of a word, that saves the masks; in `Limbs26` unmasked limbs are carried limbs. Carried limbs will
do for unmasked ones in both.

A share may hold a number that is no residue. It is below 2^128 < 2p, so that the bounds hold for it
too; what is computed from it means nothing, and its lane is flagged.

Which layout: processors that multiply and add 52-bit numbers in one instruction take `Limbs52`, of
`field.lanes.limbs52`, all others `Limbs26`, of `field.lanes.limbs26`. R differs, and with it what
is computed on the way, but not what is encoded in the end.

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
"""28*2^64 - 1, which 2^128 is mod p; its high word is 27, its low word all ones."""

MAX_PRODUCTS = 400
"""How many products a sum may have before it is reduced.

In both layouts a column of one product is at most five numbers below 2^52: 400 of them make less
than 400 * 5 * 2^52 < 2^62.97, to which a reduction adds less than 2^55: all stay below 2^63. What
`Limbs26` subtracts from a column is less than 2^51.
"""


MAX_TERMS = 2**10
"""How many residues below 4p a sum may have before it is folded.

Limbs are below 2^52, so that those of a sum are below 2^62. All but the last make up 2^104 at most
for each residue, less than the 2^119 that `Limbs.folded` asks for.
"""

MAX_WEIGHT = 2**28
"""What weights of encodings may add up to."""


def high_without_modulus(low: Word, high: Word) -> tuple[Word, Word]:
    """Return the high word of x - p modulo 2^128, and a word whose highest bit says if x >= p.

    x has the two words given. Taking p away is, modulo 2^128, adding 28*2^64 - 1. So x - p has the
    low word `low` - 1, which borrows if `low` is 0, and the high word

        other = high + 27 + (1 if low is not 0, else 0).

    x is p or more if and only if this sum has a carry. What is added is below 2^63, so there is a
    carry if and only if the highest bit of `high` was 1 and that of `other` is 0.
    """
    other = high + ((low.at_least(1) & 1) + (MODULUS_GAP >> 64))
    return other, high & ~other


class Limbs(ABC):
    """One layout, and what is the same in all."""

    bits: ClassVar[int]
    """B is two to the power of this."""
    count: ClassVar[int]
    """Limbs of a residue."""
    columns: ClassVar[int]
    """Columns of a product."""
    steps: ClassVar[int]
    """How many times a reduction divides by B."""
    weighted_columns: ClassVar[int]
    """Columns of a sum of encodings with weights."""

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
        """Bits of the last limb of a residue below 2^128."""
        return 128 - self.bits * (self.count - 1)

    def of(self, value: int) -> list[int]:
        """Return the limbs of an integer below 2^130."""
        return [(value >> (self.bits * i)) & self.mask for i in range(self.count)]

    @abstractmethod
    def split(self, low: Word, high: Word) -> list[Word]:
        """Return the limbs of a residue in its encoding, two words."""

    def unmasked(self, low: Word, high: Word) -> list[Word]:
        """Return unmasked limbs of a residue in its encoding, the last of which is exact."""
        return self.split(low, high)

    @abstractmethod
    def joined(self, x: Sequence[Word]) -> tuple[Word, Word]:
        """Return the two words of what `split` takes apart."""

    @abstractmethod
    def added_product(
        self, columns: Sequence[Word], x: Sequence[Word], y: Sequence[Word]
    ) -> list[Word]:
        """Return the columns of a sum with x*y added, for unmasked x and y below 4p."""

    @abstractmethod
    def reduced(self, columns: Sequence[Word]) -> list[Word]:
        """Return limbs of c/R mod p, of columns that make up c >= 0.

        A column is that of at most `MAX_PRODUCTS` products. The result is at most c/R + p in
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

        Those below 2p have a product below 2p: in `Limbs26` p < R/4, so that x*y/R + p is. Of
        larger ones it may there be as much as 5p, which must not be multiplied.
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
        """Return the `weighted_columns` of a sum with weight times an encoded residue added."""

    @abstractmethod
    def weighted_sum(self, columns: Sequence[Word]) -> list[Word]:
        """Return limbs below 2p of a sum of up to `MAX_PRODUCTS` encodings with weights.

        Weights add up to `MAX_WEIGHT` at most.
        """

    def columns_of_product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return the columns of x*y."""
        return self.added_product([x[0].filled(0)] * self.columns, x, y)

    def carried(self, columns: Sequence[Word]) -> list[Word]:
        """Return the same integer with all limbs but the last below B.

        Columns may be negative, down to -2^63: `>>` copies the sign, so the carry rounds down and
        what stays is not negative. If the integer is not, neither is the last limb.
        """
        c = list(columns)
        for i in range(self.count - 1):
            c[i + 1] = c[i + 1] + (c[i] >> self.bits)
            c[i] = c[i] & self.mask
        return c

    def folded(self, x: Sequence[Word]) -> list[Word]:
        """Return limbs below 2p of a residue below 2^160 whose limbs are not negative.

        The limbs need not be carried, but without the last they make up less than 2^119.

        Write x = h * 2^128 + l, where h is what the last limb has above its part of 128 bits. As
        2^128 = 28*2^64 - 1 (mod p), x = l + h * (28*2^64 - 1). l is below 2^128 + 2^119, so that
        with h < 2^32 the sum is below 2^128 + 2^120 < 2p; and not negative, for if h > 0 it is at
        least h * 2^64.
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

        4p is added to the difference, in limbs that are larger than those of y, which are carried,
        so that none of the difference's is negative: the last of 4p's stays the larger one when it
        has lent to the others.
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

        What x has above its two words is 0 or 1; if it is 1, x is p or more.
        """
        low, high = self.joined(x)
        other, carry = high_without_modulus(low, high)
        past = x[-1] << (63 - self.last_bits)
        # All ones if x is p or more; no branch, for x is secret.
        is_past = (past | carry) >> 63
        return low + is_past, high ^ ((high ^ other) & is_past)
