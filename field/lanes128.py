"""Field128 on lanes: the operations of kernels on residues, sums of products, and encodings.

In a lane array a residue in limbs takes `RESIDUE` rows, a sum of products `COLUMNS` rows, a sum of
residues `QUARTERS`, and a residue in its encoding `WORDS`, low word first. There are two layouts in
limbs (see `field.limbs128`, where the arithmetic and its bounds are); the rows that the smaller one
needs less are not touched. R is the layout's Montgomery radix: `multiply` gives x*y/R mod p.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from field._jit import LaneWidth, kernel
from field.lane_arrays import LaneArray, Table
from field.lanes import Code, Integer, Place, Scalars, Variables, Word, operation
from field.limbs128 import MAX_PRODUCTS, MODULUS, Limbs, limbs_in, limbs_of

RESIDUE = 5
"""Rows of a lane array that a residue in limbs takes."""

COLUMNS = 9
"""Rows that a sum of products takes."""

QUARTERS = 4
"""Rows that a sum of residues takes: column i counts 2^(32*i)."""

WORDS = 2
"""Rows that an encoded residue takes."""

MAX_WEIGHT = 2**30
"""How many residues, each counted with its weight, a sum may have before `reduce_sum`."""

_QUARTER_MASK = 2**32 - 1


def load_residue(place: Place) -> list[Word]:
    """Emit the loads of a residue's limbs."""
    return place.load_many(limbs_in(place.code).count)


def load_columns(place: Place) -> list[Word]:
    """Emit the loads of a sum of products."""
    return place.load_many(limbs_in(place.code).columns)


def load_constant(constant: Scalars) -> list[Word]:
    """Emit the loads of a constant's limbs, in every lane."""
    return constant.load_many(limbs_in(constant.code).count)


def load_encoded(words: Place) -> list[Word]:
    """Emit the loads of an encoded residue, and what takes it apart into limbs."""
    return limbs_in(words.code).split(words.load(0), words.load(1))


def residue_at(residues: Place, index: Integer) -> Place:
    """Return the place of a residue in limbs, `index` after the first."""
    return residues.advanced(residues.code.scaled(index, RESIDUE))


def constant_at(constants: Scalars, index: Integer) -> Scalars:
    """Return the place of a constant, `index` after the first."""
    return constants.advanced(constants.code.scaled(index, RESIDUE))


def encoded_at(words: Place, index: Integer) -> Place:
    """Return the place of an encoded residue, `index` after the first."""
    return words.advanced(words.code.scaled(index, WORDS))


@operation
def to_limbs(_code: Code, out: Place, words: Place) -> None:
    """Set `out` to an encoded residue."""
    out.store_many(load_encoded(words))


@operation
def to_words(code: Code, words: Place, x: Place) -> None:
    """Set `words` to the encoding of x < 2p."""
    words.store_many(limbs_in(code).encoded(load_residue(x)))


@operation
def multiply(code: Code, out: Place, x: Place, y: Place) -> None:
    """Set `out` to x*y/R mod p, below 2p, for x and y < 2p."""
    out.store_many(limbs_in(code).product(load_residue(x), load_residue(y)))


@operation
def multiply_constant(code: Code, out: Place, x: Place, constant: Scalars) -> None:
    """Set `out` to x*constant/R mod p, below 2p, for x < 2p."""
    out.store_many(limbs_in(code).product(load_residue(x), load_constant(constant)))


@operation
def add(code: Code, out: Place, x: Place, y: Place) -> None:
    """Set `out` to x + y, below 2p, for x and y < 4p."""
    limbs = limbs_in(code)
    out.store_many(limbs.folded(limbs.plus(load_residue(x), load_residue(y))))


@operation
def add_constant(code: Code, out: Place, x: Place, constant: Scalars) -> None:
    """Set `out` to x + constant, below 2p, for x < 4p."""
    limbs = limbs_in(code)
    out.store_many(limbs.folded(limbs.plus(load_residue(x), load_constant(constant))))


@operation
def to_montgomery(
    code: Code, out: Place, words: Place, radix_squared: Scalars, count: Integer
) -> None:
    """Bring `count` encoded residues into Montgomery form, below 2p."""
    with code.repeat(count) as index:
        share = load_encoded(encoded_at(words, index))
        product = limbs_in(code).product(share, load_constant(radix_squared))
        residue_at(out, index).store_many(product)


@operation
def add_constant_products(
    code: Code, total: Place, constants: Scalars, words: Place, count: Integer
) -> None:
    """Add `count` products of a constant and an encoded residue into a sum of products."""
    sums = code.variables(load_columns(total))
    with code.repeat(count) as index:
        factor = load_constant(constant_at(constants, index))
        share = load_encoded(encoded_at(words, index))
        sums.store_many(limbs_in(code).added_product(sums.load_many(), factor, share))
    total.store_many(sums.load_many())


@operation
def set_product(code: Code, total: Place, x: Place, constant: Scalars) -> None:
    """Set a sum of products to one product, x times a constant."""
    product = limbs_in(code).columns_of_product(load_residue(x), load_constant(constant))
    total.store_many(product)


@operation
def reduce_products(code: Code, out: Place, total: Place) -> None:
    """Set `out` to a sum of at most `MAX_PRODUCTS` products, over R, below 2p."""
    out.store_many(limbs_in(code).reduced_sum(load_columns(total)))


def load_quarters(words: Place) -> list[Word]:
    """Emit the loads of an encoded residue, in numbers of 32 bits."""
    low, high = words.load(0), words.load(1)
    return [
        low & _QUARTER_MASK,
        low.logical_right(32),
        high & _QUARTER_MASK,
        high.logical_right(32),
    ]


def _add_quarters(sums: Variables, quarters: Sequence[Word]) -> None:
    sums.store_many([a + b for a, b in zip(sums.load_many(), quarters, strict=True)])


@operation
def add_encoded(code: Code, total: Place, words: Place, step: Integer, count: Integer) -> None:
    """Add `count` encoded residues, `step` rows apart, into a sum of residues."""
    sums = code.variables(total.load_many(QUARTERS))
    with code.repeat(count) as index:
        _add_quarters(sums, load_quarters(words.advanced(code.product(index, step))))
    total.store_many(sums.load_many())


@operation
def reduce_sum(code: Code, out: Place, total: Place) -> None:
    """Set `out` to a sum of residues whose weights add up to at most `MAX_WEIGHT`, below 2p."""
    limbs = limbs_in(code)
    out.store_many(limbs.folded(from_quarters(limbs, total.load_many(QUARTERS))))


def from_quarters(limbs: Limbs, quarters: Sequence[Word]) -> list[Word]:
    """Return limbs, to be folded, of a sum of at most `MAX_WEIGHT` residues.

    Quarters are below 2^30 * 2^32, so that none overflows while it is carried into the next; what
    the last has above its 32 bits, less than 2^31, counts 2^128, and goes into the last limb.
    """
    q = list(quarters)
    for i in range(QUARTERS - 1):
        q[i + 1] = q[i + 1] + q[i].logical_right(32)
        q[i] = q[i] & _QUARTER_MASK
    above = q[3].logical_right(32)
    x = limbs.split(q[0] | (q[1] << 32), q[2] | (q[3] << 32))
    x[-1] = x[-1] + (above << limbs.last_bits)
    return x


@operation
def sum_residues(code: Code, out: Place, residues: Place, count: Integer) -> None:
    """Set `out` to the sum of `count` residues below 4p, below 2p; up to 2^30 of them."""
    limbs = limbs_in(code)
    sums = code.variables([code.constant(0)] * limbs.count)
    with code.repeat(count) as index:
        total = limbs.plus(sums.load_many(), load_residue(residue_at(residues, index)))
        sums.store_many(limbs.carried(total))
    out.store_many(limbs.folded(sums.load_many()))


def is_no_residue(low: Word, high: Word) -> Word:
    """Return all ones in the lanes where an encoding is p or more, zero elsewhere.

    p = (2^64 - 28) * 2^64 + 1: the high word alone decides, or the low word is not 0.
    """
    top = MODULUS >> 64
    return high.at_least(top + 1) | (high.at_least(top) & low.at_least(1))


@operation
def flag_not_residues(
    code: Code, flags: Place, words: Place, count: Integer, flag: Integer
) -> None:
    """Set the bits `flag` in the lanes where one of `count` encodings is p or more."""
    found = code.variables([code.constant(0)])
    with code.repeat(count) as index:
        place = encoded_at(words, index)
        is_found = is_no_residue(place.load(0), place.load(1))
        found.store_many([found.load_many()[0] | is_found])
    flags.store(flags.load() | (found.load_many()[0] & code.in_every_lane(flag)))


@operation
def flag_equal(code: Code, flags: Place, words: Place, constant: Scalars, flag: Integer) -> None:
    """Set the bits `flag` in the lanes where an encoded residue is `constant`, encoded."""
    difference = (words.load(0) ^ constant.load(0)) | (words.load(1) ^ constant.load(1))
    flags.store(flags.load() | (~difference.at_least(1) & code.in_every_lane(flag)))


def constant_table(lanes: int, values: Iterable[int]) -> Table:
    """Return integers as a table of constants, `RESIDUE` words each."""
    rows = [limbs_of(lanes).of(value % MODULUS) for value in values]
    return np.array([[*row, *[0] * (RESIDUE - len(row))] for row in rows], np.uint64).reshape(-1)


def montgomery_table(lanes: int, values: Iterable[int]) -> Table:
    """Return integers in Montgomery form as a table of constants."""
    radix = limbs_of(lanes).radix
    return constant_table(lanes, (value * radix for value in values))


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

    `out` has `RESIDUE + COLUMNS` rows: the result, below 2p, and scratch. Any `count` will do: what
    `MAX_PRODUCTS` products add up to is reduced before the next.
    """
    out[out_row : out_row + RESIDUE] = 0
    for start in range(0, count, MAX_PRODUCTS):
        out[out_row + RESIDUE : out_row + RESIDUE + COLUMNS] = 0
        add_constant_products(
            width,
            out,
            out_row + RESIDUE,
            constants,
            constant + RESIDUE * start,
            words,
            word_row + WORDS * start,
            min(MAX_PRODUCTS, count - start),
        )
        reduce_products(width, out, out_row + RESIDUE, out, out_row + RESIDUE)
        add(width, out, out_row, out, out_row, out, out_row + RESIDUE)
