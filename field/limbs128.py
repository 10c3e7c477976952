"""Field128 in limbs: two ways to lay a residue out, and the arithmetic of each.

A residue is cut into *limbs*, least significant first: x = x0 + x1*B + x2*B^2 + ... A product of
two residues, or a sum of many, is kept as *columns*, one a power of B, and nothing is carried
before the sum is complete; that slack is what makes the code fast. The modulus is
p = 2^128 - 28*2^64 + 1.

Residues are not kept below p. "x < 3p" in a comment bounds the integer that the limbs make up; what
is below 4p < 2^130 fits the limbs, the last of which then has 26 bits at most. R, a power of B, is
the Montgomery radix, and `reduced` divides by it: the product of x and y comes out as x*y/R mod p.
A residue times R mod p is in *Montgomery form*; the product of one in Montgomery form and one that
is *plain* is plain. Shares stay plain, only coefficients are converted.

What is only going to be multiplied may be a *factor*: limbs in which the bits that a multiplication
does not look at may be any. In `Limbs52` that saves the masks; in `Limbs26` factors are carried
limbs. Carried limbs are a factor in both.

A share may hold a number that is no residue. It is below 2^128 < 2p, so that the bounds hold for it
too; what is computed from it means nothing, and its lane is flagged.

Which layout: processors that multiply and add 52-bit numbers in one instruction take `Limbs52`, all
others `Limbs26`. R differs, and with it what is computed on the way, but not what is encoded in the
end.

Source: Montgomery, "Modular Multiplication Without Trial Division".
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from field._jit import has_multiply_add
from field.fields import FIELD128
from field.lanes import Code, Word

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

_QUARTER_MASK = 2**32 - 1


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

    def factor(self, low: Word, high: Word) -> list[Word]:
        """Return a factor, a residue in its encoding, of which the last limb is exact."""
        return self.split(low, high)

    @abstractmethod
    def joined(self, x: Sequence[Word]) -> tuple[Word, Word]:
        """Return the two words of what `split` takes apart."""

    @abstractmethod
    def added_product(
        self, columns: Sequence[Word], x: Sequence[Word], y: Sequence[Word]
    ) -> list[Word]:
        """Return the columns of a sum with x*y added, for factors x and y below 4p."""

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
        """Return carried limbs of x*y/R mod p, for factors below 4p.

        Factors below 2p have a product below 2p: in `Limbs26` p < R/4, so that x*y/R + p is. Of
        larger ones it may there be as much as 5p, which is no factor.
        """
        return self.reduced(self.columns_of_product(x, y))

    def product_factor(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x*y/R mod p as `product` does, but as a factor; its last limb is exact."""
        return self.product(x, y)

    def plus_factor(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return limbs of x + y, not carried, for a factor y from `factor`."""
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
        return self.added_product([x[0] & 0] * self.columns, x, y)

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
        """Return c/R mod p, of columns that make up c >= 0.

        One step makes the lowest column divisible by B and drops it, five steps divide by B^5 = R.
        Let q be the low 26 bits of the lowest column. Because p = 1 (mod B), subtracting q*p clears
        exactly these bits, whatever q is: no inverse of p is needed. By (1), subtracting q*p

        - takes q from the lowest column, which leaves c0 - q = (c0 >> 26) * B: a carry into the
          next, right for a negative column too, for `>>` rounds down and q is not negative;
        - adds q * 28*2^12 two columns up, less than 2^43;
        - takes q * 2^24 four columns up, less than 2^50.

        All steps together subtract Q*p with 0 <= Q < R, so that (c - Q*p)/R is between c/R - p and
        c/R. Adding p in the columns that remain makes it positive, and at most c/R + p.
        """
        c = [*columns, columns[0] & 0]
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
        """Add quarters, of 32 bits, which are fewer than limbs: column i counts 2^(32*i)."""
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

        Columns are below 2^28 * 2^32, so that none overflows while it is carried into the next;
        what the last has above its 32 bits, less than 2^29, counts 2^128, and goes into the last
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


_FOLD52 = 28 << 12
"""What 2^128 adds to the middle of three limbs: 28*2^64 is 28*2^12 * 2^52."""


class Limbs52(Limbs):
    """Three limbs of 52 bits, for processors that multiply and add such numbers in one instruction.

    A product of two limbs has 104 bits; one instruction adds its low 52 bits to a column, another
    its high 52 bits to the next. Both look at the low 52 bits of their factors only. The last limbs
    of factors below 4p have 26 bits, so that their product has no high part: five columns will do.

    In base B = 2^52 the modulus is, in limbs that are positive,

        p = 1 + (B - 28*2^12) * B + (2^24 - 1) * B^2                                            (1)
    """

    bits = 52
    count = 3
    columns = 5
    steps = 2
    weighted_columns = 3

    @override
    def split(self, low: Word, high: Word) -> list[Word]:
        return self._masked(self.factor(low, high))

    @override
    def factor(self, low: Word, high: Word) -> list[Word]:
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
        """Return c/R mod p, of columns that make up c >= 0 and none of which is negative.

        `_divided` leaves three columns, x2 the last, below 2^63 each (see `MAX_PRODUCTS`): they
        make up less than 2^168. A third step would bring that below 2p; so does a fold, which is
        less work. As in `folded`, 2^128 = 28*2^64 - 1 (mod p) and h = x2 >> 24, below 2^39, but
        here h * (28*2^12) may have a high part, which counts B^2. Without h they make up less than
        2^128 + 2^63 * (1 + B) < 2^128 + 2^116, and what h adds is less than 2^39 * 28*2^64 < 2^108:
        the result is below 2p. x0 - h may be negative, the result is not, for each of h adds
        28*2^64 - 1.
        """
        x0, x1, x2 = self._divided([c + self.mask for c in columns[:2]] + [*columns[2:]])
        h, x2, fold = self._fold_of(x2)
        x1, x2 = x1.plus_low_product(h, fold), x2.plus_high_product(h, fold)
        return self.carried([x0 - h, x1, x2])

    @override
    def reduced_sum(self, columns: Sequence[Word]) -> list[Word]:
        return self.reduced(columns)  # It is folded already.

    @override
    def product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        return self._masked(self.product_factor(x, y))

    @override
    def product_factor(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x*y/R mod p as a factor; its last limb is exact, for all carries have reached it.

        As `reduced`, but the columns begin with the B - 1 that `_divided` wants in them, limbs are
        not masked after they were carried, and h times 28*2^12 has no high part: one product is
        below 16p^2 < 2^260, which over R with a multiple of p, R*p at most, is less than
        2^156 + 2^128. So x2 is below 2^52 + 2^24 and h at most 2^28, and 28*2^12 < 2^17.
        """
        zero, start = x[0] & 0, (x[0] & 0) + self.mask
        x0, x1, x2 = self._divided(self.added_product([start, start, zero, zero, zero], x, y))
        h, x2, fold = self._fold_of(x2)
        x0, x1 = x0 - h, x1.plus_low_product(h, fold)
        x1 = x1 + (x0 >> self.bits)
        return [x0, x1, x2 + (x1 >> self.bits)]

    def _divided(self, columns: Sequence[Word]) -> list[Word]:
        """Return the three columns that are left of c when it is divided by R, modulo p.

        One step makes the lowest column c0 divisible by B and drops it, two steps divide by
        B^2 = R. What a step adds is a multiple of p, which changes nothing mod p: q*p for
        q = -c0 mod B. Because p = 1 (mod B), that makes c0 divisible; no inverse of p is needed.
        Both steps add Q*p with a Q below R, so that (c + Q*p)/R is left.

        Two of c's columns are dropped, and both come with B - 1 added: the code has c0 + B - 1,
        below 2^63, where this says c0. With that

        - the carry is a shift. The lowest limb of p is 1, so the lowest column becomes c0 + q, the
          next multiple of B from c0 on. Over B it is c0/B rounded up, (c0 + B - 1) >> 52, which
          goes to the next column. The column itself is not looked at again.
        - q is an inversion of bits. The other limbs of p, by (1), are multiplied by q and added as
          in any product. Only the low 52 bits of a factor count, and those of
          ~(c0 + B - 1) = -(c0 + B - 1) - 1 = -c0 - B are those of -c0.
        """
        _, middle, last = self.of(MODULUS)
        zero = columns[0] & 0
        p1, p2 = zero + middle, zero + last
        c = list(columns)
        for i in range(self.steps):
            q = ~c[i]
            c[i + 1] = c[i + 1] + c[i].logical_right(self.bits)
            c[i + 1] = c[i + 1].plus_low_product(q, p1)
            c[i + 2] = c[i + 2].plus_high_product(q, p1).plus_low_product(q, p2)
            c[i + 3] = c[i + 3].plus_high_product(q, p2)
        return c[self.steps :]

    def _fold_of(self, last: Word) -> tuple[Word, Word, Word]:
        """Return what the last limb has above its part of 128 bits, that part, and 28*2^12."""
        rest = last & ((1 << self.last_bits) - 1)
        return last.logical_right(self.last_bits), rest, (last & 0) + _FOLD52

    @override
    def plus_factor(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        # A product by 1 is cheaper than a mask and an addition.
        one = (x[0] & 0) + 1
        return [a.plus_low_product(b, one) for a, b in zip(x, y, strict=True)]

    @override
    def added_weighted(
        self, columns: Sequence[Word], low: Word, high: Word, weight: Word
    ) -> list[Word]:
        """Add the product with a weight, which is one limb.

        The last limb of an encoding is below 2^24, so that its product with a weight up to 2^28 is
        below 2^52 and has no high part.
        """
        x0, x1, x2 = self.factor(low, high)
        c0, c1, c2 = columns
        return [
            c0.plus_low_product(x0, weight),
            c1.plus_high_product(x0, weight).plus_low_product(x1, weight),
            c2.plus_high_product(x1, weight).plus_low_product(x2, weight),
        ]

    @override
    def weighted_sum(self, columns: Sequence[Word]) -> list[Word]:
        """Return limbs below 2p.

        The sum is below 2^28 * 2^128. To the first column each product has added one number below
        2^52, to the second two: of `MAX_PRODUCTS` products they are below 2^61 and 2^62, and make
        up less than 2^115.
        """
        return self.folded(columns)

    @override
    def plus_folded(self, x: Sequence[Word], h: Word) -> list[Word]:
        return [x[0] - h, x[1].plus_low_product(h, (h & 0) + _FOLD52), x[2]]

    def _masked(self, x: Sequence[Word]) -> list[Word]:
        """Return carried limbs of a factor whose last limb is exact."""
        return [limb & self.mask for limb in x[:-1]] + [x[-1]]


_LIMBS26, _LIMBS52 = Limbs26(), Limbs52()


def limbs_of(lanes: int) -> Limbs:
    """Return the layout for so many lanes on this processor."""
    return _LIMBS52 if has_multiply_add(lanes) else _LIMBS26


def limbs_in(code: Code) -> Limbs:
    """Return the layout for an operation's code."""
    return limbs_of(code.lanes)
