"""Field128 on lanes: every operation against Python integers, and no sum that could overflow."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pytest

from field import FIELD128, lanes128
from field._jit import LaneWidth, kernel, lane_width
from field.lanes import LaneArray, Table, Word, new_lane_array
from field.lanes128 import COLUMNS, LIMBS, MAX_PRODUCTS, RADIX, WORDS

P = FIELD128.modulus
LIMB = 2**26
EDGES = [0, 1, 2, LIMB - 1, 2**64 - 1, 2**64, P - 2**64, P - 2, P - 1]
ALL_ONES = 2**128 - 1
R_INVERSE = pow(RADIX, -1, P)


@pytest.fixture(params=[1, 4, 8], ids=lambda count: f"{count} lanes")
def width(request: pytest.FixtureRequest) -> LaneWidth:
    return lane_width(request.param)


def integers(seed: int, count: int, below: int = P) -> list[int]:
    """Return edge values, and random ones below a bound."""
    rng = np.random.default_rng(seed)
    edges = [value for value in (*EDGES, below - 1) if value < below]
    return [
        edges[rng.integers(len(edges))]
        if rng.integers(2)
        else int.from_bytes(rng.bytes(17), "little") % below
        for _ in range(count)
    ]


def in_limbs(width: LaneWidth, values: Sequence[Sequence[int]]) -> LaneArray:
    """Return residues as limbs: `values[i][lane]` in rows 5*i and on."""
    array = new_lane_array(LIMBS * len(values), len(width))
    for i, lane in itertools.product(range(len(values)), range(len(width))):
        array[LIMBS * i : LIMBS * (i + 1), lane] = lanes128.limbs(values[i][lane])
    return array


def encoded(width: LaneWidth, values: Sequence[Sequence[int]]) -> LaneArray:
    """Return residues as their encodings: `values[i][lane]` in rows 2*i and 2*i + 1."""
    array = new_lane_array(WORDS * len(values), len(width))
    for i, lane in itertools.product(range(len(values)), range(len(width))):
        low, high = values[i][lane] % 2**64, values[i][lane] >> 64
        array[WORDS * i : WORDS * (i + 1), lane] = low, high
    return array


def numbers(array: LaneArray, bits: int, row: int = 0, rows: int = LIMBS) -> list[int]:
    """Return the integer in each lane whose digits of `bits` bits are in the rows."""
    columns = array[row : row + rows].astype(object)
    return [
        sum(int(digit) << (bits * i) for i, digit in enumerate(columns[:, lane]))
        for lane in range(array.shape[1])
    ]


def limb_numbers(array: LaneArray, row: int = 0) -> list[int]:
    assert (array[row : row + LIMBS - 1] < LIMB).all()
    return numbers(array, 26, row)


def many(width: LaneWidth, seed: int, count: int, below: int = P) -> list[list[int]]:
    return [integers(1000 * seed + i, len(width), below) for i in range(count)]


@kernel
def _to_limbs_and_back(
    width: LaneWidth, out: LaneArray, limbs: LaneArray, words: LaneArray
) -> None:
    lanes128.to_limbs(width, limbs, 0, words, 0)
    lanes128.to_words(width, out, 0, limbs, 0)


def test_an_encoding_becomes_limbs_and_an_encoding_again(width: LaneWidth) -> None:
    for seed in range(20):
        [values] = many(width, seed, 1)
        limbs, out = new_lane_array(LIMBS, len(width)), new_lane_array(WORDS, len(width))
        _to_limbs_and_back(width, out, limbs, encoded(width, [values]))
        assert limb_numbers(limbs) == values
        assert numbers(out, 64, 0, WORDS) == values


@kernel
def _to_words(width: LaneWidth, out: LaneArray, x: LaneArray) -> None:
    lanes128.to_words(width, out, 0, x, 0)


def test_what_is_below_twice_the_modulus_is_encoded_below_the_modulus(width: LaneWidth) -> None:
    edges = [0, 1, P - 1, P, P + 1, 2 * P - 2, 2 * P - 1, ALL_ONES]
    for first in range(len(edges)):
        values = [edges[(first + lane) % len(edges)] for lane in range(len(width))]
        out = new_lane_array(WORDS, len(width))
        _to_words(width, out, in_limbs(width, [values]))
        assert numbers(out, 64, 0, WORDS) == [value % P for value in values]


@kernel
def _multiply(
    width: LaneWidth, out: LaneArray, x: LaneArray, y: LaneArray, constants: Table
) -> None:
    lanes128.multiply(width, out, 0, x, 0, y, 0)
    lanes128.multiply_constant(width, out, LIMBS, x, 0, constants, LIMBS)
    lanes128.add(width, out, 2 * LIMBS, x, 0, y, 0)
    lanes128.set_constant(width, out, 3 * LIMBS, constants, LIMBS)


@pytest.mark.parametrize(
    ("below_x", "below_y", "bound"), [(P, P, 1.25), (2 * P, 2 * P, 2), (4 * P, 3 * P, 4)]
)
def test_products_and_sums_are_those_of_integers_and_keep_their_bounds(
    width: LaneWidth, below_x: int, below_y: int, bound: float
) -> None:
    for seed in range(20):
        xs, ys = many(width, seed, 2, min(below_x, below_y))
        xs = [x + below_x - below_y if x + below_x - below_y < below_x else x for x in xs]
        [constant] = integers(seed, 1)
        out = new_lane_array(4 * LIMBS, len(width))
        table = lanes128.constant_table([0, constant])
        _multiply(width, out, in_limbs(width, [xs]), in_limbs(width, [ys]), table)
        products, scaled = limb_numbers(out), limb_numbers(out, LIMBS)
        assert [z % P for z in products] == [
            x * y * R_INVERSE % P for x, y in zip(xs, ys, strict=True)
        ]
        assert all(z <= bound * P for z in products)
        assert [z % P for z in scaled] == [x * constant * R_INVERSE % P for x in xs]
        sums = limb_numbers(out, 2 * LIMBS)
        assert [z % P for z in sums] == [(x + y) % P for x, y in zip(xs, ys, strict=True)]
        assert all(z < 2 * P for z in sums)
        assert limb_numbers(out, 3 * LIMBS) == [constant] * len(width)


@kernel
def _plus_and_minus(width: LaneWidth, out: LaneArray, constants: Table, y: LaneArray) -> None:
    lanes128.constant_plus_and_minus(width, out, 0, constants, 0, y, 0)


def test_a_constant_plus_and_minus_a_residue_stay_below_twice_the_modulus(
    width: LaneWidth,
) -> None:
    for constant in EDGES:
        [ys] = many(width, constant % 97, 1, 2 * P)
        out = new_lane_array(2 * LIMBS, len(width))
        _plus_and_minus(width, out, lanes128.constant_table([constant]), in_limbs(width, [ys]))
        plus, minus = limb_numbers(out), limb_numbers(out, LIMBS)
        assert [z % P for z in plus] == [(constant + y) % P for y in ys]
        assert [z % P for z in minus] == [(constant - y) % P for y in ys]
        assert all(0 <= z < 2 * P for z in (*plus, *minus))


@kernel
def _products(
    width: LaneWidth, out: LaneArray, factors: LaneArray, words: LaneArray, step: int, count: int
) -> None:
    lanes128.sum_of_products(width, out, 0, factors, 0, words, 0, step, count)


@kernel
def _constant_products(
    width: LaneWidth, out: LaneArray, constants: Table, words: LaneArray, count: int
) -> None:
    lanes128.sum_of_constant_products(width, out, 0, constants, LIMBS, words, 0, count)


@pytest.mark.parametrize("count", [0, 1, 7, MAX_PRODUCTS, MAX_PRODUCTS + 1, 2 * MAX_PRODUCTS + 3])
def test_a_sum_of_any_number_of_products_is_reduced(width: LaneWidth, count: int) -> None:
    factors = many(width, 1, count, 4 * P)
    shares = many(width, 2, 2 * count)
    out = new_lane_array(LIMBS + COLUMNS + 1, len(width))
    _products(width, out, in_limbs(width, factors), encoded(width, shares), 2 * WORDS, count)
    total = limb_numbers(out)
    for lane in range(len(width)):
        exact = sum(factors[k][lane] * shares[2 * k][lane] for k in range(count))
        assert total[lane] % P == exact * R_INVERSE % P
        assert total[lane] < 2 * P
    constants = integers(3, count)
    table = lanes128.constant_table([5, *constants])
    _constant_products(width, out, table, encoded(width, shares), count)
    total = limb_numbers(out)
    for lane in range(len(width)):
        exact = sum(constants[k] * shares[k][lane] for k in range(count))
        assert total[lane] % P == exact * R_INVERSE % P
        assert total[lane] < 2 * P


def test_the_most_products_of_the_largest_factors_do_not_overflow(width: LaneWidth) -> None:
    factors = [[RADIX - 1] * len(width)] * MAX_PRODUCTS
    shares = [[P - 1] * len(width)] * MAX_PRODUCTS
    out = new_lane_array(LIMBS + COLUMNS + 1, len(width))
    _products(width, out, in_limbs(width, factors), encoded(width, shares), WORDS, MAX_PRODUCTS)
    exact = MAX_PRODUCTS * (RADIX - 1) * (P - 1) * R_INVERSE % P
    assert [z % P for z in limb_numbers(out)] == [exact] * len(width)


@kernel
def _sums(
    width: LaneWidth,
    out: LaneArray,
    words: LaneArray,
    residues: LaneArray,
    weights: Table,
    count: int,
) -> None:
    out[:LIMBS] = 0
    lanes128.add_encoded(width, out, 0, words, 0, 2 * WORDS, count)
    lanes128.reduce_sum(width, out, 0, out, 0)
    out[LIMBS : 2 * LIMBS] = 0
    lanes128.add_weighted(width, out, LIMBS, weights, 0, words, 0, count)
    lanes128.reduce_sum(width, out, LIMBS, out, LIMBS)
    out[2 * LIMBS : 3 * LIMBS] = 0
    lanes128.add_residues(width, out, 2 * LIMBS, residues, 0, count)
    lanes128.reduce_sum(width, out, 2 * LIMBS, out, 2 * LIMBS)


@pytest.mark.parametrize("count", [1, 2, 30])
def test_sums_of_residues_are_reduced(width: LaneWidth, count: int) -> None:
    shares, residues = many(width, 4, 2 * count), many(width, 5, count, 4 * P)
    weights = np.array([2**i if i < 29 else 1 for i in range(count)], np.uint64)
    out = new_lane_array(3 * LIMBS, len(width))
    _sums(width, out, encoded(width, shares), in_limbs(width, residues), weights, count)
    for lane in range(len(width)):
        sums = [
            sum(shares[2 * k][lane] for k in range(count)),
            sum(int(weights[k]) * shares[k][lane] for k in range(count)),
            sum(residues[k][lane] for k in range(count)),
        ]
        for i, exact in enumerate(sums):
            total = limb_numbers(out, LIMBS * i)[lane]
            assert total % P == exact % P
            assert total < 2 * P


@kernel
def _add_to_words(width: LaneWidth, words: LaneArray, x: LaneArray) -> None:
    lanes128.add_to_words(width, words, 0, x, 0)


def test_a_residue_is_added_to_an_encoding(width: LaneWidth) -> None:
    for seed in range(20):
        [shares], [xs] = many(width, seed, 1), many(width, 100 + seed, 1, 2 * P)
        words = encoded(width, [shares])
        _add_to_words(width, words, in_limbs(width, [xs]))
        assert numbers(words, 64, 0, WORDS) == [
            (share + x) % P for share, x in zip(shares, xs, strict=True)
        ]


@kernel
def _flags(
    width: LaneWidth, flags: LaneArray, words: LaneArray, constant: Table, count: int
) -> None:
    lanes128.flag_not_residues(width, flags, 0, words, 0, count, 1)
    lanes128.flag_equal(width, flags, 0, words, 0, constant, 0, 4)


def test_lanes_with_an_encoding_that_is_no_residue_are_flagged(width: LaneWidth) -> None:
    constant = np.array([7, 9], np.uint64)
    for bad in (P, P + 1, ALL_ONES, P + 2**64 - 28, 2**128 - 2**64):
        for lane, place in itertools.product(range(len(width)), range(3)):
            # P - 1 has the same high word as P: the low word decides.
            shares = [[P - 1, 0, 2**64 - 1][i : i + 1] * len(width) for i in range(3)]
            shares[place][lane] = bad
            flags = new_lane_array(1, len(width))
            flags[:] = 2
            _flags(width, flags, encoded(width, shares), constant, 3)
            assert flags[0].tolist() == [3 if i == lane else 2 for i in range(len(width))]


def test_lanes_with_one_encoding_are_flagged(width: LaneWidth) -> None:
    constant = np.array([7, 9], np.uint64)
    for other in (7, 9 << 64, 7 + (9 << 64), 8 + (9 << 64)):
        shares = [[7 + (9 << 64), *[other] * (len(width) - 1)]]
        flags = new_lane_array(1, len(width))
        flags[:] = 0
        _flags(width, flags, encoded(width, shares), constant, 1)
        assert flags[0].tolist() == [4 if share == shares[0][0] else 0 for share in shares[0]]


@dataclasses.dataclass(frozen=True)
class Range:
    """Stands for a word of which only bounds are known; what could leave 64 bits is an error."""

    low: int
    high: int

    def __post_init__(self) -> None:
        assert -(2**63) <= self.low <= self.high < 2**63

    def __add__(self, other: "Range | int") -> "Range":
        other = _range(other)
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Range | int") -> "Range":
        other = _range(other)
        return Range(self.low - other.high, self.high - other.low)

    def __and__(self, mask: int) -> "Range":
        return self if self.low >= 0 and self.high <= mask else Range(0, mask)

    def __rshift__(self, bits: int) -> "Range":
        return Range(self.low >> bits, self.high >> bits)

    def __lshift__(self, bits: int) -> "Range":
        return Range(self.low << bits, self.high << bits)

    def logical_right(self, bits: int) -> "Range":
        assert self.low >= 0
        return self >> bits

    def times32(self, other: "Range | int") -> "Range":
        other = _range(other)
        assert min(self.low, other.low) >= 0
        assert max(self.high, other.high) < 2**32
        return Range(self.low * other.low, self.high * other.high)

    def plus_product(self, x: "Range", y: "Range") -> "Range":
        assert max(x.high, y.high) < LIMB
        return self + x.times32(y)


def _range(value: Range | int) -> Range:
    return value if isinstance(value, Range) else Range(value, value)


def _on_ranges(function: Callable[..., Sequence[Word]], *arguments: Sequence[Range]) -> list[Range]:
    return cast("list[Range]", function(*arguments))


ANY_LIMBS = [Range(0, LIMB - 1)] * LIMBS
"""Any integer below 2^130, which is above 4p."""

LIMBS_BELOW_2P = [*ANY_LIMBS[:-1], Range(0, (2 * P - 1) >> (26 * (LIMBS - 1)))]
"""Any integer below 2p, and a few above."""


def test_no_column_overflows_while_the_most_products_are_added_and_reduced() -> None:
    columns = [Range(0, 0)] * COLUMNS
    for _ in range(MAX_PRODUCTS):
        columns = _on_ranges(lanes128.added_product, columns, ANY_LIMBS, ANY_LIMBS)
    reduced = _on_ranges(lanes128.montgomery_reduced, columns)
    assert all(limb.high < LIMB for limb in reduced[:-1])


def test_no_limb_overflows_while_the_heaviest_sum_is_reduced() -> None:
    columns = [limb.times32(lanes128.MAX_WEIGHT) for limb in ANY_LIMBS]
    carried = _on_ranges(lanes128.carried, columns)
    assert carried[-1].high < 2**56
    # What is folded may have a last limb of 56 bits: an integer below 2^160.
    _on_ranges(lanes128.folded, carried)


def test_limbs_of_the_difference_of_residues_do_not_overflow() -> None:
    plus_and_minus = cast("Callable[..., Sequence[Sequence[Range]]]", lanes128.plus_and_minus)
    for limbs in plus_and_minus(LIMBS_BELOW_2P, LIMBS_BELOW_2P):
        assert all(limb.low >= 0 and limb.high < LIMB for limb in limbs[:-1])
