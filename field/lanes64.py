"""Field64 on lanes: one word a residue, and sums of products reduced once, not once a product.

The modulus is p = 2^64 - 2^32 + 1, so that with E = 2^32 - 1

    2^64 = E    and    2^96 = -1    (mod p).                                                     (1)

A word stands for its residue even where it is p or more: "any word" below. Canonical words, below
p, are what is encoded; `plus` and `minus` want one operand to be canonical.
"""

from collections.abc import Sequence

from field.fields import FIELD64
from field.lanes import Code, Integer, Place, Scalars, Word, operation

MODULUS = FIELD64.modulus
"""p."""

_E = 2**32 - 1
_HALF = 32

_COLUMNS = 4
"""Words of a sum of products, one a power of 2^32."""


def reduced(low: Word, high: Word) -> Word:
    """Return a word that is low + high * 2^64 modulo p.

    Write high = h0 + h1 * 2^32. By (1) the number is low - h1 + h0 * E.

    - low - h1 may wrap, which makes it 2^64 = E too much. It is then 2^64 - 2^32 at least, so that
      E can be taken away.
    - h0 * E is at most 2^64 - 2^33 + 1. Adding it may wrap, which leaves E too little in a word
      that is at most 2^64 - 2^33, so that E can be added.
    """
    h0, h1 = high & _E, high.logical_right(_HALF)
    difference = low - h1
    difference = difference - (_below(low, h1) & _E)
    addend = (h0 << _HALF) - h0
    total = difference + addend
    return total + (_below(total, addend) & _E)


def product(x: Word, y: Word) -> Word:
    """Return a word that is x*y modulo p, for any words, from four products of halves."""
    x1, y1 = x.logical_right(_HALF), y.logical_right(_HALF)
    # Each sum is at most (2^32 - 1)^2 + (2^32 - 1) < 2^64.
    lowest = x.times32(y)
    middle = x1.times32(y) + lowest.logical_right(_HALF)
    other = x.times32(y1) + (middle & _E)
    low = (other << _HALF) | (lowest & _E)
    high = x1.times32(y1) + middle.logical_right(_HALF) + other.logical_right(_HALF)
    return reduced(low, high)


def canonical(x: Word) -> Word:
    """Return the residue of any word: it is below 2p, so p is taken away at most once."""
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


def _reduced_columns(c0: Word, c1: Word, c2: Word, c3: Word) -> Word:
    """Return the residue of a sum in columns below 3 * 2^60.

    By (1) the sum is c0 - c2 - c3 + (c1 + c2) * 2^32. To keep both terms positive, 2^31 * p is
    added, which is 2^63 + 2^31 + (2^63 - 2^32) * 2^32.
    """
    low = c0 + (2**63 + 2**31) - c2 - c3
    high = c1 + c2 + (2**63 - 2**32)
    shifted = high << _HALF
    total = low + shifted
    carry = _below(total, shifted) & 1
    return canonical(reduced(total, high.logical_right(_HALF) + carry))


@operation
def multiply(_code: Code, out: Place, x: Place, y: Place) -> None:
    """Set `out` to x*y, canonical."""
    out.store(canonical(product(x.load(), y.load())))


@operation
def multiply_constant(_code: Code, out: Place, x: Place, constant: Scalars) -> None:
    """Set `out` to x*constant, canonical."""
    out.store(canonical(product(x.load(), constant.load())))


@operation
def subtract(_code: Code, out: Place, x: Place, y: Place) -> None:
    """Set `out` to x - y, canonical, for canonical y."""
    out.store(canonical(minus(x.load(), y.load())))


@operation
def sum_with_product(_code: Code, out: Place, x: Place, y: Place, z: Place) -> None:
    """Set `out` to x*y + z, canonical, for canonical z."""
    out.store(canonical(plus(product(x.load(), y.load()), z.load())))


@operation
def butterfly(_code: Code, out: Place, x: Place, y: Place, constant: Scalars) -> None:
    """Set `out` to constant * (x + y) and the next word to constant * (x - y), for canonical y."""
    a, b, factor = x.load(), y.load(), constant.load()
    out.store(canonical(product(plus(a, b), factor)))
    out.store(canonical(product(minus(a, b), factor)), 1)


@operation
def dot(
    code: Code, out: Place, x: Place, x_step: Integer, y: Place, y_step: Integer, count: Integer
) -> None:
    """Set `out` to the sum of `count` products of words `x_step` and `y_step` rows apart.

    `count` may be up to 2^28.
    """
    columns = code.variables([code.constant(0)] * _COLUMNS)
    with code.repeat(count) as index:
        a = x.advanced(code.builder.mul(index, x_step)).load()
        b = y.advanced(code.builder.mul(index, y_step)).load()
        columns.store_many(_with_product(columns.load_many(), a, b))
    out.store(_reduced_columns(*columns.load_many()))


@operation
def dot_constants(code: Code, out: Place, constants: Scalars, words: Place, count: Integer) -> None:
    """Set `out` to the sum of `count` products, up to 2^28, of a constant and a word."""
    columns = code.variables([code.constant(0)] * _COLUMNS)
    with code.repeat(count) as index:
        a, b = words.advanced(index).load(), constants.advanced(index).load()
        columns.store_many(_with_product(columns.load_many(), a, b))
    out.store(_reduced_columns(*columns.load_many()))


def _with_product(columns: Sequence[Word], x: Word, y: Word) -> list[Word]:
    """Return a sum of products with x*y added, in columns: one a power of 2^32.

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
def double_basis(
    code: Code, low: Place, high: Place, power: Place, roots: Scalars, size: Integer
) -> None:
    """Multiply `size` words by 1 + power*root into `low` and by 1 - power*root into `high`."""
    with code.repeat(size) as index:
        y = product(power.load(), roots.advanced(index).load())
        word = low.advanced(index).load()
        term = canonical(product(word, y))
        low.advanced(index).store(plus(word, term))
        high.advanced(index).store(minus(word, term))


@operation
def flag_not_residues(
    code: Code, flags: Place, words: Place, count: Integer, flag: Integer
) -> None:
    """Set the bits `flag` in the lanes where one of `count` words is p or more."""
    found = code.variables([code.constant(0)])
    with code.repeat(count) as index:
        word = words.advanced(index).load()
        found.store_many([found.load_many()[0] | word.at_least(MODULUS)])
    flags.store(flags.load() | (found.load_many()[0] & code.in_every_lane(flag)))


@operation
def flag_equal(code: Code, flags: Place, word: Place, constant: Integer, flag: Integer) -> None:
    """Set the bits `flag` in the lanes where a word is `constant`."""
    difference = word.load() ^ code.in_every_lane(constant)
    flags.store(flags.load() | (~difference.at_least(1) & code.in_every_lane(flag)))
