"""Field128 on lanes: operations on residues, sums of products, and encodings.

In a lane array a residue in limbs takes `RESIDUE` rows, a sum of products `COLUMNS` rows, and an
encoded residue `WORDS` rows, low word first. `field.lanes.limbs128` has the two layouts of limbs,
their arithmetic and its bounds; the smaller layout leaves the rows it does not need untouched. R is
the layout's Montgomery radix: a product comes out as x*y/R mod p.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from field.lanes.arrays import LaneArray, Table
from field.lanes.jit import LaneWidth, kernel
from field.lanes.limbs26 import Limbs26
from field.lanes.limbs52 import Limbs52
from field.lanes.limbs128 import MAX_PRODUCTS, MAX_TERMS, MODULUS, Limbs, high_without_modulus
from field.lanes.operations import operation
from field.lanes.residues import Residues
from field.lanes.words import Code, Integer, Place, Scalars, Word

RESIDUE = 5
"""Rows of a lane array that a residue in limbs takes."""

COLUMNS = 9
"""Rows that a sum of products takes."""

WORDS = 2
"""Rows that an encoded residue takes."""


_LIMBS26, _LIMBS52 = Limbs26(), Limbs52()


def limbs_of(width: LaneWidth | Code) -> Limbs:
    """Return the layout of limbs for a width or a code."""
    return _LIMBS52 if width.has_multiply_add else _LIMBS26


def residues(code: Code) -> Residues:
    """Return Field128 as operations over either field take it; products are divided by R."""
    return Residues(code, limbs_of(code), RESIDUE, WORDS)


def load_residue(place: Place) -> list[Word]:
    """Return a residue's limbs."""
    return place.load_many(limbs_of(place.code).count)


def load_columns(place: Place) -> list[Word]:
    """Return the columns of a sum of products."""
    return place.load_many(limbs_of(place.code).columns)


def load_constant(constant: Scalars) -> list[Word]:
    """Return a constant's limbs, in every lane."""
    return constant.load_many(limbs_of(constant.code).count)


def load_unmasked(words: Place) -> list[Word]:
    """Return unmasked limbs of an encoded residue."""
    return limbs_of(words.code).unmasked(words.load(0), words.load(1))


def encoded_at(words: Place, index: Integer | int) -> Place:
    """Return the place of the encoded residue with this index."""
    return words.moved(index * WORDS)


@operation
def to_limbs(code: Code, out: Place, words: Place) -> None:
    """Set `out` to the limbs of an encoded residue."""
    out.store_many(residues(code).load_encoded(words))


@operation
def to_words(code: Code, words: Place, x: Place) -> None:
    """Set `words` to the encoding of x < 2p."""
    words.store_many(limbs_of(code).encoded(load_residue(x)))


@operation
def multiply_constant(code: Code, out: Place, x: Place, constant: Scalars) -> None:
    """Set `out` to x*constant/R mod p, below 2p, for x < 2p."""
    out.store_many(limbs_of(code).product(load_residue(x), load_constant(constant)))


@operation
def add(code: Code, out: Place, x: Place, y: Place) -> None:
    """Set `out` to x + y, below 2p, for x and y < 4p."""
    limbs = limbs_of(code)
    out.store_many(limbs.folded(limbs.plus(load_residue(x), load_residue(y))))


@operation
def add_constant(code: Code, out: Place, x: Place, constant: Scalars) -> None:
    """Set `out` to x + constant, below 2p, for x < 4p."""
    limbs = limbs_of(code)
    out.store_many(limbs.folded(limbs.plus(load_residue(x), load_constant(constant))))


@operation
def to_montgomery(
    code: Code, out: Place, words: Place, radix_squared: Scalars, count: Integer
) -> None:
    """Bring `count` encoded residues into Montgomery form, below 2p."""
    for index in code.repeat(count):
        share = load_unmasked(encoded_at(words, index))
        product = limbs_of(code).product(share, load_constant(radix_squared))
        residues(code).at(out, index).store_many(product)


@operation
def add_constant_products(
    code: Code, total: Place, constants: Scalars, words: Place, count: Integer
) -> None:
    """Add `count` products of a constant and an encoded residue into a sum of products."""
    sums = code.variables(load_columns(total))
    for index in code.repeat(count):
        factor = residues(code).load_constant(constants, index)
        share = load_unmasked(encoded_at(words, index))
        sums.store_many(limbs_of(code).added_product(sums.load_many(), factor, share))
    total.store_many(sums.load_many())


@operation
def set_product(code: Code, total: Place, x: Place, constant: Scalars) -> None:
    """Set a sum of products to one product, x times a constant."""
    product = limbs_of(code).columns_of_product(load_residue(x), load_constant(constant))
    total.store_many(product)


@operation
def reduce_products(code: Code, out: Place, total: Place) -> None:
    """Set `out` to a sum of at most `MAX_PRODUCTS` products, divided by R, below 2p."""
    out.store_many(limbs_of(code).reduced_sum(load_columns(total)))


@operation
def sum_encoded(code: Code, out: Place, words: Place, step: Integer, count: Integer) -> None:
    """Set `out` to the sum of `count` encoded residues, `step` rows apart, below 2p."""
    limbs = limbs_of(code)

    def plus(total: Sequence[Word], index: Integer) -> list[Word]:
        return limbs.plus_unmasked(total, load_unmasked(words.moved(index * step)))

    out.store_many(_sum(code, count, plus))


@operation
def sum_residues(code: Code, out: Place, terms: Place, count: Integer) -> None:
    """Set `out` to the sum, below 2p, of `count` residues below 4p."""
    limbs = limbs_of(code)

    def plus(total: Sequence[Word], index: Integer) -> list[Word]:
        return limbs.plus(total, residues(code).load(terms, index))

    out.store_many(_sum(code, count, plus))


def _sum(
    code: Code, count: Integer, plus: Callable[[Sequence[Word], Integer], list[Word]]
) -> list[Word]:
    """Return the sum of any number of residues; `plus` adds one."""
    limbs = limbs_of(code)
    total = code.variables([code.constant(0)] * limbs.count)
    # The folded total is one more term.
    for first, part in code.parts(count, MAX_TERMS - 1):
        for index in code.repeat(part):
            total.store_many(plus(total.load_many(), first + index))
        total.store_many(limbs.folded(total.load_many()))
    return total.load_many()


def is_not_a_residue(low: Word, high: Word) -> Word:
    """Return all ones in the lanes where an encoding is p or more, zero elsewhere."""
    _, carry = high_without_modulus(low, high)
    return carry >> 63


@operation
def flag_not_residues(
    code: Code, flags: Place, words: Place, count: Integer, flag: Integer
) -> None:
    """Set the bits `flag` in the lanes where one of `count` encodings is p or more.

    Flags are below 2^63, so `found` can begin with them: only its highest bit counts.
    """
    found = code.variables([flags.load()])
    for index in code.repeat(count):
        place = encoded_at(words, index)
        _, carry = high_without_modulus(place.load(0), place.load(1))
        found.store_many([found.load_many()[0] | carry])
    is_found = found.load_many()[0] >> 63
    flags.store(flags.load() | (is_found & code.in_every_lane(flag)))


@operation
def flag_equal(code: Code, flags: Place, words: Place, constant: Scalars, flag: Integer) -> None:
    """Set the bits `flag` in the lanes where an encoded residue equals an encoded `constant`."""
    difference = (words.load(0) ^ constant.load(0)) | (words.load(1) ^ constant.load(1))
    flags.store(flags.load() | (~difference.at_least(1) & code.in_every_lane(flag)))


def constant_table(width: LaneWidth, values: Iterable[int]) -> Table:
    """Return integers as a table of constants, `RESIDUE` words each."""
    rows = [limbs_of(width).of(value % MODULUS) for value in values]
    return np.array([[*row, *[0] * (RESIDUE - len(row))] for row in rows], np.uint64).reshape(-1)


def montgomery_table(width: LaneWidth, values: Iterable[int]) -> Table:
    """Return integers in Montgomery form as a table of constants."""
    radix = limbs_of(width).radix
    return constant_table(width, (value * radix for value in values))


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
    """Set `out` to the sum of `count` products of a constant and an encoding, divided by R.

    `out` has `RESIDUE + COLUMNS` rows: the result, below 2p, and scratch. Any `count` will do: the
    sum is reduced after every `MAX_PRODUCTS` products.
    """
    out[out_row : out_row + RESIDUE] = 0
    for start in range(0, count, MAX_PRODUCTS):
        out[out_row + RESIDUE : out_row + RESIDUE + COLUMNS] = 0
        add_constant_products(
            width,
            (out, out_row + RESIDUE),
            (constants, constant + RESIDUE * start),
            (words, word_row + WORDS * start),
            min(MAX_PRODUCTS, count - start),
        )
        reduce_products(width, (out, out_row + RESIDUE), (out, out_row + RESIDUE))
        add(width, (out, out_row), (out, out_row), (out, out_row + RESIDUE))
