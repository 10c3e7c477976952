"""Field128 on lanes: limbs, Montgomery's reduction, and sums of products reduced once.

A residue is five *limbs* of 26 bits, least significant first: x = x0 + x1*B + ... + x4*B^4 with
B = 2^26. A product of two limbs has 52 bits, so that hundreds of them add up in a 64-bit word
before anything must be carried; that slack is what makes the code here fast. In a lane array a
residue takes five rows, a sum of products nine (one a power of B: a *column*), and a residue in its
encoding two (low word first).

The modulus is p = 2^128 - 28*2^64 + 1. In base B:

    p = 1 - 28*2^12 * B^2 + 2^24 * B^4                                                          (1)

Residues are not kept below p. "x < 3p" in a comment bounds the integer that the limbs make up; what
is below 4p < 2^130 fits five limbs, the last included. R = B^5 = 2^130 is the Montgomery radix:
`multiply` gives x*y/R mod p. A residue times R mod p is in *Montgomery form*; the product of one in
Montgomery form and one that is *plain* is plain. Shares stay plain, only coefficients are
converted.

Bounds. `multiply` of x < a*p and y < b*p gives less than (a*b/4 + 1)*p, for the reduction returns
at most x*y/R + p, and p < R/4. So products of factors below 2p stay below 2p.

Source: Montgomery, "Modular Multiplication Without Trial Division".
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from field._jit import LaneWidth, kernel
from field.fields import FIELD128
from field.lanes import Code, Integer, LaneArray, Place, Scalars, Table, Word, operation

MODULUS = FIELD128.modulus
"""p."""

LIMB_BITS = 26
LIMBS = 5
COLUMNS = 2 * LIMBS - 1
WORDS = 2
"""Rows of a lane array that a residue takes as limbs, as a sum of products, and encoded."""

RADIX = 2 ** (LIMB_BITS * LIMBS)
"""R, the Montgomery radix."""

MAX_PRODUCTS = 400
"""How many products a sum may have before `reduce_products`.

A column of one product is at most five products of limbs below 2^26, so 400 of them make at most
400 * 5 * 2^52 < 2^62.97, and the reduction adds less than 2^45 to a column: all stay below 2^63.
"""

MAX_WEIGHT = 2**30
"""How many residues, each counted with its weight, a sum may have before `reduce_sum`."""

_LIMB_MASK = 2**LIMB_BITS - 1
_TOP_BITS = 128 - LIMB_BITS * (LIMBS - 1)
_MIDDLE = 28 << 12


def limbs(value: int) -> list[int]:
    """Return the five limbs of an integer below 2^130."""
    return [(value >> (LIMB_BITS * i)) & _LIMB_MASK for i in range(LIMBS)]


def split(low: Word, high: Word) -> list[Word]:
    """Return the limbs of a residue in its encoding; its last limb has 24 bits."""
    return [
        low & _LIMB_MASK,
        low.logical_right(26) & _LIMB_MASK,
        (low.logical_right(52) | (high << 12)) & _LIMB_MASK,
        high.logical_right(14) & _LIMB_MASK,
        high.logical_right(40),
    ]


def columns_of_product(x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
    """Return the nine columns of x*y: column k is the sum of all x_i * y_(k-i)."""
    return added_product([None] * COLUMNS, x, y)


def added_product(
    columns: Sequence[Word | None], x: Sequence[Word], y: Sequence[Word]
) -> list[Word]:
    """Return the columns of a sum with x*y added; None stands for nothing yet."""
    total = list(columns)
    for i, j in itertools.product(range(LIMBS), repeat=2):
        so_far = total[i + j]
        total[i + j] = x[i].times32(y[j]) if so_far is None else so_far.plus_product(x[i], y[j])
    return [column for column in total if column is not None]


def montgomery_reduced(columns: Sequence[Word]) -> list[Word]:
    """Return limbs of c/R mod p, below c/R + p, of columns that make up c >= 0.

    One step makes the lowest column divisible by B and drops it, five steps divide by B^5 = R.
    Let q be the low 26 bits of the lowest column. Because p = 1 (mod B), subtracting q*p clears
    exactly these bits, whatever q is: no inverse of p is needed. By (1), subtracting q*p

    - takes q from the lowest column, which leaves c0 - q = (c0 >> 26) * B: a carry into the next;
    - adds q * 28*2^12 two columns up, less than 2^43;
    - takes q * 2^24 four columns up, less than 2^50.

    All steps together subtract Q*p with 0 <= Q < R, so that (c - Q*p)/R is between c/R - p and
    c/R. Adding p in the columns that remain makes it positive, and at most c/R + p.
    """
    zero = columns[0] & 0
    c = [*columns, zero]
    for i, limb in enumerate(limbs(MODULUS)):
        c[LIMBS + i] = c[LIMBS + i] + limb
    for i in range(LIMBS):
        q = c[i] & _LIMB_MASK
        c[i + 1] = c[i + 1] + (c[i] >> LIMB_BITS)
        c[i + 2] = c[i + 2] + q.times32(_MIDDLE)
        c[i + 4] = c[i + 4] - (q << 24)
    return carried(c[LIMBS:])


def carried(columns: Sequence[Word]) -> list[Word]:
    """Return the same integer with all limbs but the last in 26 bits.

    Columns may be negative, down to -2^63: `>>` copies the sign, so the carry rounds down and what
    stays is positive. If the integer is positive, so is the last limb.
    """
    c = list(columns)
    for i in range(LIMBS - 1):
        c[i + 1] = c[i + 1] + (c[i] >> LIMB_BITS)
        c[i] = c[i] & _LIMB_MASK
    return c


def folded(x: Sequence[Word]) -> list[Word]:
    """Return limbs below 2p of a residue of limbs below 2^40, the last below 2^56; none negative.

    Write x = h * 2^128 + l, where h is what the last limb has above its 24 bits. As
    2^128 = 28*2^64 - 1 (mod p), x = l + h * (28*2^64 - 1). The other limbs need not be carried: l
    is below 2^128 + 2^119, so that with h < 2^32 the sum is below 2^128 + 2^120 < 2p; and positive,
    for if h > 0 it is at least h * 2^64.
    """
    h = x[4].logical_right(_TOP_BITS)
    return carried([x[0] - h, x[1], x[2] + h.times32(_MIDDLE), x[3], x[4] & (2**_TOP_BITS - 1)])


def canonical_words(x: Sequence[Word]) -> tuple[Word, Word]:
    """Return the encoding, below p, of a residue below 2p."""
    difference = carried([limb - part for limb, part in zip(x, limbs(MODULUS), strict=True)])
    # All ones if x < p, and then x itself is the result; no branch, for x is secret.
    is_below = difference[4] >> 63
    z = [((a ^ b) & is_below) ^ b for a, b in zip(x, difference, strict=True)]
    low = z[0] | (z[1] << 26) | (z[2] << 52)
    high = z[2].logical_right(12) | (z[3] << 14) | (z[4] << 40)
    return low, high


def _load_split(words: Place) -> list[Word]:
    return split(words.load(0), words.load(1))


def plus_and_minus(x: Sequence[Word], y: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """Return limbs of x + y and of x - y, both below 2p, for x and y < 2p.

    4p is added to the difference, in limbs that are larger than those of y, so that none of the
    difference's is negative.
    """
    four_p = [4 * limb for limb in limbs(MODULUS)]
    for i in range(LIMBS - 1):
        while four_p[i] < 2**LIMB_BITS:
            four_p[i] += 2**LIMB_BITS
            four_p[i + 1] -= 1
    difference = [a - b + c for a, b, c in zip(x, y, four_p, strict=True)]
    return folded(_added(x, y)), folded(difference)


def _added(x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
    return [a + b for a, b in zip(x, y, strict=True)]


@operation
def to_limbs(_code: Code, out: Place, words: Place) -> None:
    """Set `out` to an encoded residue."""
    out.store_many(_load_split(words))


@operation
def to_words(_code: Code, words: Place, x: Place) -> None:
    """Set `words` to the encoding of x < 2p."""
    words.store_many(canonical_words(x.load_many(LIMBS)))


@operation
def add_to_words(_code: Code, words: Place, x: Place) -> None:
    """Add x < 2p to an encoded residue."""
    total = _added(_load_split(words), x.load_many(LIMBS))
    words.store_many(canonical_words(folded(total)))


@operation
def set_constant(_code: Code, out: Place, constant: Scalars) -> None:
    """Set `out` to a constant's limbs in every lane."""
    out.store_many(constant.load_many(LIMBS))


@operation
def multiply(_code: Code, out: Place, x: Place, y: Place) -> None:
    """Set `out` to x*y/R mod p."""
    product = columns_of_product(x.load_many(LIMBS), y.load_many(LIMBS))
    out.store_many(montgomery_reduced(product))


@operation
def multiply_constant(_code: Code, out: Place, x: Place, constant: Scalars) -> None:
    """Set `out` to x*constant/R mod p."""
    product = columns_of_product(x.load_many(LIMBS), constant.load_many(LIMBS))
    out.store_many(montgomery_reduced(product))


@operation
def add(_code: Code, out: Place, x: Place, y: Place) -> None:
    """Set `out` to x + y, below 2p."""
    out.store_many(folded(_added(x.load_many(LIMBS), y.load_many(LIMBS))))


@operation
def constant_plus_and_minus(_code: Code, out: Place, constant: Scalars, y: Place) -> None:
    """Set `out` to constant + y and the next residue to constant - y, both below 2p, for y < 2p."""
    plus, minus = plus_and_minus(constant.load_many(LIMBS), y.load_many(LIMBS))
    out.store_many(plus + minus)


@operation
def add_products(
    code: Code, total: Place, factors: Place, words: Place, step: Integer, count: Integer
) -> None:
    """Add `count` products to a sum: residue k of `factors` by the encoding at `words + k*step`."""
    sums = code.variables(total.load_many(COLUMNS))
    with code.repeat(count) as index:
        factor = factors.advanced(code.scaled(index, LIMBS)).load_many(LIMBS)
        share = _load_split(words.advanced(code.builder.mul(index, step)))
        sums.store_many(added_product(sums.load_many(), factor, share))
    total.store_many(sums.load_many())


@operation
def add_constant_products(
    code: Code, total: Place, constants: Scalars, words: Place, count: Integer
) -> None:
    """Add `count` products of a constant and an encoded residue into a sum of products."""
    sums = code.variables(total.load_many(COLUMNS))
    with code.repeat(count) as index:
        factor = constants.advanced(code.scaled(index, LIMBS)).load_many(LIMBS)
        share = _load_split(words.advanced(code.scaled(index, WORDS)))
        sums.store_many(added_product(sums.load_many(), factor, share))
    total.store_many(sums.load_many())


@operation
def set_product(_code: Code, total: Place, x: Place, constant: Scalars) -> None:
    """Set a sum of products to one product, x times a constant."""
    total.store_many(columns_of_product(x.load_many(LIMBS), constant.load_many(LIMBS)))


@operation
def reduce_products(_code: Code, out: Place, total: Place) -> None:
    """Set `out` to a sum of at most `MAX_PRODUCTS` products, over R, below 2p.

    Each product is below 2^130 * 2^128, so the sum over R is below 400 * 2^128 and can be folded.
    """
    out.store_many(folded(montgomery_reduced(total.load_many(COLUMNS))))


@operation
def add_encoded(code: Code, total: Place, words: Place, step: Integer, count: Integer) -> None:
    """Add `count` encoded residues, `step` rows apart, into a sum of residues."""
    sums = code.variables(total.load_many(LIMBS))
    with code.repeat(count) as index:
        residue = _load_split(words.advanced(code.builder.mul(index, step)))
        sums.store_many(_added(sums.load_many(), residue))
    total.store_many(sums.load_many())


@operation
def add_weighted(code: Code, total: Place, weights: Scalars, words: Place, count: Integer) -> None:
    """Add `count` encoded residues, each as often as its weight says, into a sum of residues."""
    sums = code.variables(total.load_many(LIMBS))
    with code.repeat(count) as index:
        weight = weights.advanced(index).load()
        residue = _load_split(words.advanced(code.scaled(index, WORDS)))
        sums.store_many(_added(sums.load_many(), [limb.times32(weight) for limb in residue]))
    total.store_many(sums.load_many())


@operation
def add_residues(code: Code, total: Place, residues: Place, count: Integer) -> None:
    """Add `count` residues below 4p, given as limbs, into a sum of residues."""
    sums = code.variables(total.load_many(LIMBS))
    with code.repeat(count) as index:
        residue = residues.advanced(code.scaled(index, LIMBS)).load_many(LIMBS)
        sums.store_many(_added(sums.load_many(), residue))
    total.store_many(sums.load_many())


@operation
def reduce_sum(_code: Code, out: Place, total: Place) -> None:
    """Set `out` to a sum of residues whose weights add up to at most `MAX_WEIGHT`, below 2p.

    Limbs are below 2^26, so columns are below 2^56; residues are below 2^130 and the sum below
    2^160, as it must be to be folded.
    """
    out.store_many(folded(carried(total.load_many(LIMBS))))


@operation
def flag_not_residues(
    code: Code, flags: Place, words: Place, count: Integer, flag: Integer
) -> None:
    """Set the bits `flag` in the lanes where one of `count` encodings is p or more."""
    found = code.variables([code.constant(0)])
    # p = (2^64 - 28) * 2^64 + 1: the high word alone decides, or the low word is not 0.
    top = MODULUS >> 64
    with code.repeat(count) as index:
        element = words.advanced(code.scaled(index, WORDS))
        low, high = element.load(0), element.load(1)
        is_not_below = high.at_least(top + 1) | (high.at_least(top) & low.at_least(1))
        found.store_many([found.load_many()[0] | is_not_below])
    flags.store(flags.load() | (found.load_many()[0] & code.in_every_lane(flag)))


@operation
def flag_equal(code: Code, flags: Place, words: Place, constant: Scalars, flag: Integer) -> None:
    """Set the bits `flag` in the lanes where an encoded residue is `constant`, encoded."""
    difference = (words.load(0) ^ constant.load(0)) | (words.load(1) ^ constant.load(1))
    flags.store(flags.load() | (~difference.at_least(1) & code.in_every_lane(flag)))


def constant_table(values: Iterable[int]) -> Table:
    """Return integers as a table of constants, `uint64[count * 5]`; number i begins at 5*i."""
    return np.array([limb for value in values for limb in limbs(value % MODULUS)], np.uint64)


def montgomery_table(values: Iterable[int]) -> Table:
    """Return integers in Montgomery form as a table of constants."""
    return constant_table(value * RADIX for value in values)


@kernel
def sum_of_products(
    width: LaneWidth,
    out: LaneArray,
    out_row: int,
    factors: LaneArray,
    factor_row: int,
    words: LaneArray,
    word_row: int,
    step: int,
    count: int,
) -> None:
    """Set `out` to the sum over k of factor k by the encoding at `word_row + k*step`, over R.

    `out` has fifteen rows: the result, below 2p, and scratch. Any `count` will do: what
    `MAX_PRODUCTS` products add up to is reduced before the next.
    """
    out[out_row : out_row + LIMBS] = 0
    for start in range(0, count, MAX_PRODUCTS):
        out[out_row + LIMBS : out_row + LIMBS + COLUMNS] = 0
        add_products(
            width,
            out,
            out_row + LIMBS,
            factors,
            factor_row + LIMBS * start,
            words,
            word_row + step * start,
            step,
            min(MAX_PRODUCTS, count - start),
        )
        reduce_products(width, out, out_row + LIMBS, out, out_row + LIMBS)
        add(width, out, out_row, out, out_row, out, out_row + LIMBS)


@kernel
def sum_of_constant_products(
    width: LaneWidth,
    out: LaneArray,
    out_row: int,
    constants: Table,
    constant: int,
    words: LaneArray,
    word_row: int,
    count: int,
) -> None:
    """Set `out` to the sum of `count` encodings, each by a constant from the table, over R.

    `out` is as for `sum_of_products`.
    """
    out[out_row : out_row + LIMBS] = 0
    for start in range(0, count, MAX_PRODUCTS):
        out[out_row + LIMBS : out_row + LIMBS + COLUMNS] = 0
        add_constant_products(
            width,
            out,
            out_row + LIMBS,
            constants,
            constant + LIMBS * start,
            words,
            word_row + WORDS * start,
            min(MAX_PRODUCTS, count - start),
        )
        reduce_products(width, out, out_row + LIMBS, out, out_row + LIMBS)
        add(width, out, out_row, out, out_row, out, out_row + LIMBS)
