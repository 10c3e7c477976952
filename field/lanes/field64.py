"""Field64 on lanes: one word per residue, and one reduction per sum of products.

The modulus is p = 2^64 - 2^32 + 1, so that with E = 2^32 - 1

    2^64 = E    and    2^96 = -1    (mod p).                                                     (1)

A word stands for its residue even if it is p or more: "any word" below. *Canonical* words, below p,
are what is encoded; `plus` and `minus` need one canonical operand.

How products are computed depends on the processor's instructions. Every vector unit multiplies
halves of words, 32 bits by 32 bits. Some multiply 52 bits by 52 bits, and add the low or the high
52 bits of the product to a word in the same instruction. Then a word x is x0 + x1 * 2^52 with x1
below 2^12, and a product, or a sum of products, has three columns:

    c0 + c1 * 2^52 + c2 * 2^104.                                                                 (2)
"""

import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from field.fields import FIELD64
from field.lanes.operations import operation
from field.lanes.residues import Residues
from field.lanes.words import Code, Integer, Place, Scalars, Word

MODULUS = FIELD64.modulus
"""p."""

_E = 2**32 - 1
_HALF = 32

_LIMB = 52

_COLUMNS = 4
"""Words of a sum of products of halves, one for each power of 2^32."""

_LIMB_TERMS = 7
"""Words of a sum of products of limbs: the terms of the columns of (2), which are 1, 3 and 3."""

MAX_PRODUCTS = 2**10
"""The most products in a sum: the fullest column of (2) stays below 3 * 2^10 * 2^52 < 2^64."""


def reduced(low: Word, high: Word) -> Word:
    """Return a word that is low + high * 2^64 modulo p.

    Write high = h0 + h1 * 2^32. By (1) the number is low - h1 + h0 * E.

    - low - h1 may wrap, which makes it 2^64 = E too much. It is then at least 2^64 - 2^32, so E can
      be subtracted.
    - h0 * E is at most 2^64 - 2^33 + 1. Adding it may wrap, which leaves E too little in a word of
      at most 2^64 - 2^33, so E can be added.
    """
    h0, h1 = high & _E, high.logical_right(_HALF)
    difference = low - h1
    difference = difference - (_below(low, h1) & _E)
    addend = (h0 << _HALF) - h0
    total = difference + addend
    return total + (_below(total, addend) & _E)


def product(x: Word, y: Word) -> Word:
    """Return a word that is x*y modulo p, for any words."""
    if x.code.has_multiply_add:
        zero = x.code.constant(0)
        c0, c1, c2 = (_plus_parts(zero, parts) for parts in _parts(x, y))
        return _reduced_limbs(c0, c1, c2, is_one_product=True)
    x1, y1 = x.logical_right(_HALF), y.logical_right(_HALF)
    # `middle` and `other` are at most (2^32 - 1)^2 + (2^32 - 1) < 2^64, and `high` is the high word
    # of a product of 128 bits.
    lowest = x.times32(y)
    middle = x1.times32(y) + lowest.logical_right(_HALF)
    other = x.times32(y1) + (middle & _E)
    low = (other << _HALF) | (lowest & _E)
    high = x1.times32(y1) + middle.logical_right(_HALF) + other.logical_right(_HALF)
    return reduced(low, high)


def canonical(x: Word) -> Word:
    """Return the residue of any word, which is below 2p: p is subtracted at most once."""
    return x - (x.at_least(MODULUS) & MODULUS)


def plus(x: Word, y: Word) -> Word:
    """Return a word that is x + y modulo p, for any x and y < p.

    A sum that wraps leaves E too little in a word of at most p - 2.
    """
    total = x + y
    return total + (_below(total, y) & _E)


def minus(x: Word, y: Word) -> Word:
    """Return a word that is x - y modulo p, for any x and y < p.

    A difference that wraps leaves E too much in a word of at least 2^64 - p + 1 > E.
    """
    return x - y - (_below(x, y) & _E)


def _below(x: Word, y: Word) -> Word:
    """Return all ones in lanes where x < y, zero elsewhere."""
    return ~x.at_least(y)


_Part: TypeAlias = tuple[Callable[[Word, Word, Word], Word], Word, Word]
"""How the low or the high 52 bits of a product are added to a word, and the product's factors."""


def _parts(x: Word, y: Word) -> tuple[list[_Part], list[_Part], list[_Part]]:
    """Return what x*y adds to each of the columns of (2).

    x*y is x0*y0 + (x0*y1 + x1*y0) * 2^52 + x1*y1 * 2^104. The first product has 104 bits, of which
    the high 52 go to the next column. Those in parentheses have 64 bits, of which 12 go to the
    next. The last has 24. So a product adds less than 2^52, 3 * 2^52 and 2^25 to the columns.
    """
    x1, y1 = x.logical_right(_LIMB), y.logical_right(_LIMB)
    low, high = Word.plus_low_product, Word.plus_high_product
    return (
        [(low, x, y)],
        [(high, x, y), (low, x, y1), (low, x1, y)],
        [(high, x, y1), (high, x1, y), (low, x1, y1)],
    )


def _plus_parts(total: Word, parts: Sequence[_Part]) -> Word:
    """Return a word plus some parts of a product."""
    for add, a, b in parts:
        total = add(total, a, b)
    return total


def _with_product_of_limbs(terms: Sequence[Word], x: Word, y: Word) -> list[Word]:
    """Return a sum of products with x*y added, as the terms of the columns of (2).

    Each part has a term of its own, because an addition waits for the one before it.
    """
    parts = itertools.chain.from_iterable(_parts(x, y))
    return [add(term, a, b) for term, (add, a, b) in zip(terms, parts, strict=True)]


def _columns_of_terms(terms: Sequence[Word]) -> tuple[Word, Word, Word]:
    """Return the columns of (2) of a sum of products."""
    return terms[0], terms[1] + terms[2] + terms[3], terms[4] + terms[5] + terms[6]


def _reduced_limbs(c0: Word, c1: Word, c2: Word, *, is_one_product: bool = False) -> Word:
    """Return a word that is (2) modulo p, for `MAX_PRODUCTS` products at most.

    By (1), 2^104 = -2^8. Write c1 = l + h * 2^12, so that c1 * 2^52 = l * 2^52 + h * 2^64, and then
    h = h0 + h1 * 2^32: h * 2^64 = h0 * 2^32 - h0 - h1. Together

        c0 + l * 2^52 + h0 * 2^32 - (h0 + h1 + c2 * 2^8).

    - c0 is below 2^62, or below 2^52 for one product, when the first sum cannot wrap. If it wraps,
      it leaves E too little in a word below 2^62, so E can be added.
    - A wrap in the second sum likewise leaves E too little, in a word of at most 2^64 - 2^32 - 1.
    - The parentheses hold less than 2^32 + 2^20 + 2^43. If the difference wraps, it is E too much,
      in a word above 2^63, so E can be subtracted.
    """
    total = c0 + (c1 << _LIMB)
    if not is_one_product:
        total = total + (_below(total, c0) & _E)
    h = c1.logical_right(64 - _LIMB)
    shifted = h << _HALF
    total = total + shifted
    total = total + (_below(total, shifted) & _E)
    negative = (h & _E) + h.logical_right(_HALF) + (c2 << 8)
    return total - negative - (_below(total, negative) & _E)


def empty_sum(code: Code) -> list[Word]:
    """Return the columns of an empty sum of products."""
    return [code.constant(0)] * (_LIMB_TERMS if code.has_multiply_add else _COLUMNS)


def with_product(columns: Sequence[Word], x: Word, y: Word) -> list[Word]:
    """Return a sum of products with x*y added, in columns."""
    if len(columns) == _LIMB_TERMS:
        return _with_product_of_limbs(columns, x, y)
    return _with_product_of_halves(columns, x, y)


def reduced_sum(columns: Sequence[Word]) -> Word:
    """Return the canonical residue of a sum of at most `MAX_PRODUCTS` products."""
    if len(columns) == _LIMB_TERMS:
        return canonical(_reduced_limbs(*_columns_of_terms(columns)))
    return _reduced_columns(*columns)


def _reduced_columns(c0: Word, c1: Word, c2: Word, c3: Word) -> Word:
    """Return the residue of a sum in columns below 3 * 2^60, more than `MAX_PRODUCTS` needs.

    By (1) the sum is c0 - c2 - c3 + (c1 + c2) * 2^32. To keep both terms positive, 2^31 * p is
    added, which is 2^63 + 2^31 + (2^63 - 2^32) * 2^32.
    """
    low = c0 + (2**63 + 2**31) - c2 - c3
    high = c1 + c2 + (2**63 - 2**32)
    shifted = high << _HALF
    total = low + shifted
    carry = _below(total, shifted) & 1
    return canonical(reduced(total, high.logical_right(_HALF) + carry))


class _OneWord:
    """`field.lanes.residues.Arithmetic` on any words.

    Results are canonical where `sum`, `minus` or an encoding needs them to be.
    """

    count = 1

    def __init__(self, columns: int) -> None:
        self.columns = columns

    def split(self, word: Word) -> list[Word]:
        return [word]

    def encoded(self, x: Sequence[Word]) -> Sequence[Word]:
        return x

    def product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        return [product(x[0], y[0])]

    def sum(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        return [plus(x[0], y[0])]

    def minus(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        return [minus(x[0], y[0])]

    def plus_and_minus(self, x: Sequence[Word], y: Sequence[Word]) -> tuple[list[Word], list[Word]]:
        term = canonical(y[0])
        return [plus(x[0], term)], [minus(x[0], term)]

    def added_product(
        self, columns: Sequence[Word], x: Sequence[Word], y: Sequence[Word]
    ) -> list[Word]:
        return with_product(columns, x[0], y[0])

    def reduced_sum(self, columns: Sequence[Word]) -> list[Word]:
        return [reduced_sum(columns)]


def residues(code: Code) -> Residues:
    """Return Field64 as operations over either field take it."""
    return Residues(code, _OneWord(len(empty_sum(code))), 1, 1)


@operation
def multiply_constant(_code: Code, out: Place, x: Place, constant: Scalars) -> None:
    """Set `out` to x*constant, canonical."""
    out.store(canonical(product(x.load(), constant.load())))


@operation
def subtract(_code: Code, out: Place, x: Place, y: Place) -> None:
    """Set `out` to x - y, canonical, for canonical y."""
    out.store(canonical(minus(x.load(), y.load())))


@operation
def dot(
    code: Code, out: Place, x: Place, x_step: Integer, y: Place, y_step: Integer, count: Integer
) -> None:
    """Set `out` to the sum of `count` products of words `x_step` and `y_step` rows apart.

    `count` may be up to `MAX_PRODUCTS`.
    """
    columns = code.variables(empty_sum(code))
    for index in code.repeat(count):
        a = x.moved(index * x_step).load()
        b = y.moved(index * y_step).load()
        columns.store_many(with_product(columns.load_many(), a, b))
    out.store(reduced_sum(columns.load_many()))


@operation
def dot_constants(code: Code, out: Place, constants: Scalars, words: Place, count: Integer) -> None:
    """Set `out` to the sum of `count` products of a constant and a word; see `dot`."""
    columns = code.variables(empty_sum(code))
    for index in code.repeat(count):
        a, b = words.moved(index).load(), constants.moved(index).load()
        columns.store_many(with_product(columns.load_many(), a, b))
    out.store(reduced_sum(columns.load_many()))


def _with_product_of_halves(columns: Sequence[Word], x: Word, y: Word) -> list[Word]:
    """Return a sum of products with x*y added, in one column for each power of 2^32.

    A product adds less than 3 * 2^32 to a column.
    """
    x1, y1 = x.logical_right(_HALF), y.logical_right(_HALF)
    low, high = x.times32(y), x1.times32(y1)
    cross, other = x1.times32(y), x.times32(y1)
    c0, c1, c2, c3 = columns
    return [
        c0 + (low & _E),
        c1 + low.logical_right(_HALF) + (cross & _E) + (other & _E),
        c2 + cross.logical_right(_HALF) + other.logical_right(_HALF) + (high & _E),
        c3 + high.logical_right(_HALF),
    ]


@operation
def flag_not_residues(
    code: Code, flags: Place, words: Place, count: Integer, flag: Integer
) -> None:
    """Set the bits `flag` in the lanes where one of `count` words is p or more."""
    found = code.variables([code.constant(0)])
    for index in code.repeat(count):
        is_large = words.moved(index).load().at_least(MODULUS)
        found.store_many([found.load_many()[0] | is_large])
    flags.store(flags.load() | (found.load_many()[0] & code.in_every_lane(flag)))


@operation
def flag_equal(code: Code, flags: Place, word: Place, constant: Integer, flag: Integer) -> None:
    """Set the bits `flag` in the lanes where the residue of a word is `constant`."""
    difference = canonical(word.load()) ^ code.in_every_lane(constant)
    flags.store(flags.load() | (~difference.at_least(1) & code.in_every_lane(flag)))
