"""Field128 on lanes: every operation against Python integers, and no sum that could overflow."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pytest

from field import FIELD128
from field.lanes import (
    Code,
    Integer,
    LaneArray,
    LaneWidth,
    Limbs26,
    Limbs52,
    Place,
    Scalars,
    Table,
    Word,
    field128,
    has_multiply_add,
    kernel,
    lane_width,
    limbs128,
    new_lane_array,
    operation,
)
from tests.support.lane_widths import COMPILED, INTERPRETED, width_of

P = FIELD128.modulus
EDGES = [0, 1, 2, 2**26 - 1, 2**52 - 1, 2**52, 2**64 - 1, 2**64, P - 2**64, P - 2, P - 1]
ALL_ONES = 2**128 - 1


width = width_of(*INTERPRETED, *COMPILED)


def layout(width: LaneWidth) -> limbs128.Limbs:
    return field128.limbs_of(width)


def r_inverse(width: LaneWidth) -> int:
    return pow(layout(width).radix, -1, P)


def test_the_layout_is_the_fastest_for_the_processor(width: LaneWidth) -> None:
    quickest = lane_width(len(width))
    assert isinstance(layout(quickest), Limbs52 if has_multiply_add(len(width)) else Limbs26)
    for limbs in (Limbs26(), Limbs52()):
        assert limbs.count <= field128.RESIDUE
        assert limbs.columns <= field128.COLUMNS
        for value in (*EDGES, ALL_ONES, 4 * P - 1):
            assert sum(limb << (limbs.bits * i) for i, limb in enumerate(limbs.of(value))) == value


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
    """Return residues as limbs: `values[i][lane]` in rows `field128.RESIDUE * i` and on."""
    array = new_lane_array(field128.RESIDUE * len(values), len(width))
    for i, lane in itertools.product(range(len(values)), range(len(width))):
        limbs = layout(width).of(values[i][lane])
        array[field128.RESIDUE * i : field128.RESIDUE * i + len(limbs), lane] = limbs
    return array


def encoded(width: LaneWidth, values: Sequence[Sequence[int]]) -> LaneArray:
    """Return residues as their encodings: `values[i][lane]` in rows 2*i and 2*i + 1."""
    array = new_lane_array(field128.WORDS * len(values), len(width))
    for i, lane in itertools.product(range(len(values)), range(len(width))):
        low, high = values[i][lane] % 2**64, values[i][lane] >> 64
        array[field128.WORDS * i : field128.WORDS * (i + 1), lane] = low, high
    return array


def numbers(array: LaneArray, bits: int, row: int, rows: int) -> list[int]:
    """Return the integer in each lane whose digits of `bits` bits are in the rows."""
    columns = array[row : row + rows].astype(object)
    return [
        sum(int(digit) << (bits * i) for i, digit in enumerate(columns[:, lane]))
        for lane in range(array.shape[1])
    ]


def limb_numbers(width: LaneWidth, array: LaneArray, row: int = 0) -> list[int]:
    limbs = layout(width)
    assert (array[row : row + limbs.count - 1] <= limbs.mask).all()
    return numbers(array, limbs.bits, row, limbs.count)


def many(width: LaneWidth, seed: int, count: int, below: int = P) -> list[list[int]]:
    return [integers(1000 * seed + i, len(width), below) for i in range(count)]


@kernel
def _to_limbs_and_back(
    width: LaneWidth, out: LaneArray, limbs: LaneArray, words: LaneArray
) -> None:
    field128.to_limbs(width, limbs, words)
    field128.to_words(width, out, limbs)


def test_an_encoding_survives_conversion_to_limbs_and_back(width: LaneWidth) -> None:
    for seed in range(20):
        [values] = many(width, seed, 1)
        limbs, out = (
            new_lane_array(field128.RESIDUE, len(width)),
            new_lane_array(field128.WORDS, len(width)),
        )
        _to_limbs_and_back(width, out, limbs, encoded(width, [values]))
        assert limb_numbers(width, limbs) == values
        assert numbers(out, 64, 0, field128.WORDS) == values


@kernel
def _to_words(width: LaneWidth, out: LaneArray, x: LaneArray) -> None:
    field128.to_words(width, out, x)


def test_residues_below_twice_the_modulus_are_encoded_below_the_modulus(width: LaneWidth) -> None:
    edges = [0, 1, P - 1, P, P + 1, 2 * P - 2, 2 * P - 1, ALL_ONES]
    for first in range(len(edges)):
        values = [edges[(first + lane) % len(edges)] for lane in range(len(width))]
        out = new_lane_array(field128.WORDS, len(width))
        _to_words(width, out, in_limbs(width, [values]))
        assert numbers(out, 64, 0, field128.WORDS) == [value % P for value in values]


@operation
def _product(code: Code, out: Place, x: Place, y: Place) -> None:
    out.store_many(
        field128.limbs_of(code).product(field128.load_residue(x), field128.load_residue(y))
    )


@kernel
def _multiply(
    width: LaneWidth, out: LaneArray, x: LaneArray, y: LaneArray, constants: Table
) -> None:
    _product(width, out, x, y)
    field128.multiply_constant(width, (out, field128.RESIDUE), x, (constants, field128.RESIDUE))
    field128.add(width, (out, 2 * field128.RESIDUE), x, y)
    field128.add_constant(width, (out, 3 * field128.RESIDUE), x, (constants, field128.RESIDUE))


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
        out = new_lane_array(4 * field128.RESIDUE, len(width))
        table = field128.constant_table(width, [0, constant])
        _multiply(width, out, in_limbs(width, [xs]), in_limbs(width, [ys]), table)
        products, scaled = limb_numbers(width, out), limb_numbers(width, out, field128.RESIDUE)
        assert [z % P for z in products] == [
            x * y * r_inverse(width) % P for x, y in zip(xs, ys, strict=True)
        ]
        assert all(z <= bound * P for z in products)
        assert [z % P for z in scaled] == [x * constant * r_inverse(width) % P for x in xs]
        sums = limb_numbers(width, out, 2 * field128.RESIDUE)
        assert [z % P for z in sums] == [(x + y) % P for x, y in zip(xs, ys, strict=True)]
        assert all(z < 2 * P for z in sums)
        moved = limb_numbers(width, out, 3 * field128.RESIDUE)
        assert [z % P for z in moved] == [(x + constant) % P for x in xs]
        assert all(z < 2 * P for z in moved)


@operation
def _sums_and_differences(code: Code, out: Place, x: Place, y: Place) -> None:
    limbs = field128.limbs_of(code)
    a, b = field128.load_residue(x), field128.load_residue(y)
    found = [*limbs.plus_and_minus(a, b), limbs.sum(a, b), limbs.minus(a, b)]
    for place, residue in enumerate(found):
        out.moved(field128.RESIDUE * place).store_many(residue)


@kernel
def _run_sums(width: LaneWidth, out: LaneArray, x: LaneArray, y: LaneArray) -> None:
    _sums_and_differences(width, out, x, y)


def test_sums_and_differences_are_correct_and_keep_their_bounds(width: LaneWidth) -> None:
    for seed in range(40):
        xs, ys = many(width, seed, 2, 2 * P)
        out = new_lane_array(4 * field128.RESIDUE, len(width))
        _run_sums(width, out, in_limbs(width, [xs]), in_limbs(width, [ys]))
        for place, sign, bound in ((0, 1, 2 * P), (1, -1, 2 * P), (2, 1, 4 * P), (3, -1, 4 * P)):
            found = limb_numbers(width, out, field128.RESIDUE * place)
            assert [z % P for z in found] == [
                (x + sign * y) % P for x, y in zip(xs, ys, strict=True)
            ]
            assert all(0 <= z < bound for z in found)


@operation
def _sum_of_products(code: Code, out: Place, x: Place, words: Place, count: Integer) -> None:
    limbs = field128.limbs_of(code)
    sums = code.variables([code.constant(0)] * limbs.columns)
    for index in code.repeat(count):
        share = field128.residues(code).load_encoded(words, index)
        sums.store_many(limbs.added_product(sums.load_many(), field128.load_residue(x), share))
    out.store_many(limbs.reduced_sum(sums.load_many()))


@kernel
def _products(width: LaneWidth, out: LaneArray, x: LaneArray, words: LaneArray, count: int) -> None:
    _sum_of_products(width, out, x, words, count)


@kernel
def _constant_products(
    width: LaneWidth, out: LaneArray, constants: Table, words: LaneArray, count: int
) -> None:
    field128.sum_of_constant_products(width, out, 0, constants, field128.RESIDUE, words, 0, count)


@pytest.mark.parametrize(
    "count",
    [0, 7, limbs128.MAX_PRODUCTS, limbs128.MAX_PRODUCTS + 1],
)
def test_a_sum_of_any_number_of_products_is_reduced(width: LaneWidth, count: int) -> None:
    shares = many(width, 2, count)
    out = new_lane_array(field128.RESIDUE + field128.COLUMNS + 1, len(width))
    constants = integers(3, count)
    table = field128.constant_table(width, [5, *constants])
    _constant_products(width, out, table, encoded(width, shares), count)
    total = limb_numbers(width, out)
    for lane in range(len(width)):
        exact = sum(constants[k] * shares[k][lane] for k in range(count))
        assert total[lane] % P == exact * r_inverse(width) % P
        assert total[lane] < 2 * P


def test_the_most_products_of_the_largest_factors_do_not_overflow(width: LaneWidth) -> None:
    factor = in_limbs(width, [[4 * P - 1] * len(width)])
    shares = [[P - 1] * len(width)] * limbs128.MAX_PRODUCTS
    out = new_lane_array(field128.RESIDUE, len(width))
    _products(width, out, factor, encoded(width, shares), limbs128.MAX_PRODUCTS)
    exact = limbs128.MAX_PRODUCTS * (4 * P - 1) * (P - 1) * r_inverse(width) % P
    assert [z % P for z in limb_numbers(width, out)] == [exact] * len(width)


@kernel
def _sums(
    width: LaneWidth, out: LaneArray, words: LaneArray, residues: LaneArray, count: int
) -> None:
    field128.sum_encoded(width, out, words, 2 * field128.WORDS, count)
    field128.sum_residues(width, (out, field128.RESIDUE), residues, count)


@pytest.mark.parametrize("count", [0, 1, 30, limbs128.MAX_TERMS - 1, limbs128.MAX_TERMS])
def test_sums_of_residues_are_reduced(width: LaneWidth, count: int) -> None:
    shares, residues = many(width, 4, 2 * count), many(width, 5, count, 4 * P)
    out = new_lane_array(2 * field128.RESIDUE, len(width))
    _sums(width, out, encoded(width, shares), in_limbs(width, residues), count)
    found = [limb_numbers(width, out, field128.RESIDUE * i) for i in range(2)]
    for lane in range(len(width)):
        sums = [
            sum(shares[2 * k][lane] for k in range(count)),
            sum(residues[k][lane] for k in range(count)),
        ]
        for numbers, exact in zip(found, sums, strict=True):
            total = numbers[lane]
            assert total % P == exact % P
            assert total < 2 * P


def test_sums_of_the_largest_residues_do_not_overflow(width: LaneWidth) -> None:
    count = 2 * limbs128.MAX_TERMS
    shares = [[ALL_ONES] * len(width)] * (2 * count)
    residues = [[4 * P - 1] * len(width)] * count
    out = new_lane_array(2 * field128.RESIDUE, len(width))
    _sums(width, out, encoded(width, shares), in_limbs(width, residues), count)
    assert [z % P for z in limb_numbers(width, out)] == [count * ALL_ONES % P] * len(width)
    assert [z % P for z in limb_numbers(width, out, field128.RESIDUE)] == [
        count * (4 * P - 1) % P
    ] * len(width)


@operation
def weighted_sum(code: Code, out: Place, words: Place, weights: Scalars, count: Integer) -> None:
    limbs = field128.limbs_of(code)
    sums = code.variables([code.constant(0)] * limbs.weighted_columns)
    for index in code.repeat(count):
        low, high = field128.encoded_at(words, index).load_many(field128.WORDS)
        weight = weights.moved(index).load()
        sums.store_many(limbs.added_weighted(sums.load_many(), low, high, weight))
    out.store_many(limbs.weighted_sum(sums.load_many()))


@kernel
def _weighted_sum(
    width: LaneWidth, out: LaneArray, words: LaneArray, weights: Table, count: int
) -> None:
    weighted_sum(width, out, words, weights, count)


@pytest.mark.parametrize(
    "weights",
    [
        [],
        [1],
        [limbs128.MAX_WEIGHT],
        [limbs128.MAX_WEIGHT - 1, 1],
        [*(2**place for place in range(28)), 1],
        [limbs128.MAX_WEIGHT // limbs128.MAX_PRODUCTS] * limbs128.MAX_PRODUCTS,
    ],
    ids=["none", "one", "the largest", "two", "powers of two", "the most"],
)
def test_a_weighted_sum_is_reduced(width: LaneWidth, weights: list[int]) -> None:
    assert sum(weights) <= limbs128.MAX_WEIGHT
    count, table = len(weights), np.array(weights, np.uint64)
    same = [[share] * len(width) for share in (ALL_ONES, P - 1, 2**128 - 2**65, 2**104 - 1)]
    for shares in (*([share] * count for share in same), many(width, 7, count)):
        out = new_lane_array(field128.RESIDUE, len(width))
        _weighted_sum(width, out, encoded(width, shares), table, count)
        found = limb_numbers(width, out)
        for lane in range(len(width)):
            exact = sum(w * share[lane] for w, share in zip(weights, shares, strict=True))
            assert found[lane] % P == exact % P
            assert found[lane] < 2 * P


@kernel
def _to_montgomery(
    width: LaneWidth, out: LaneArray, words: LaneArray, constants: Table, count: int
) -> None:
    field128.to_montgomery(width, out, words, constants, count)


def test_encodings_are_converted_to_montgomery_form(width: LaneWidth) -> None:
    shares, radix = many(width, 6, 20), layout(width).radix
    out = new_lane_array(field128.RESIDUE * len(shares), len(width))
    table = field128.constant_table(width, [radix * radix])
    _to_montgomery(width, out, encoded(width, shares), table, len(shares))
    for i, share in enumerate(shares):
        assert [z % P for z in limb_numbers(width, out, field128.RESIDUE * i)] == [
            x * radix % P for x in share
        ]
    table = field128.montgomery_table(width, [3, P - 1])
    assert table.size == 2 * field128.RESIDUE
    limbs = layout(width).of((P - 1) * radix % P)
    assert table[field128.RESIDUE : field128.RESIDUE + len(limbs)].tolist() == limbs


@kernel
def _flags(
    width: LaneWidth, flags: LaneArray, words: LaneArray, constant: Table, count: int
) -> None:
    field128.flag_not_residues(width, flags, words, count, 1)
    field128.flag_equal(width, flags, words, constant, 4)


def test_lanes_with_the_encoding_of_a_non_residue_are_flagged(width: LaneWidth) -> None:
    constant = np.array([7, 9], np.uint64)
    # P - 1 is the one residue with the high word of P.
    for bad in (P - 1, P, P + 1, ALL_ONES, P + 2**64 - 28, 2**128 - 2**64):
        for lane, place in itertools.product(range(len(width)), range(3)):
            shares = [[P - 2, 0, 2**64 - 1][i : i + 1] * len(width) for i in range(3)]
            shares[place][lane] = bad
            flags = new_lane_array(1, len(width))
            flags[:] = 2
            _flags(width, flags, encoded(width, shares), constant, 3)
            found = 2 if bad == P - 1 else 3
            assert flags[0].tolist() == [found if i == lane else 2 for i in range(len(width))]


def test_lanes_with_a_given_encoding_are_flagged(width: LaneWidth) -> None:
    constant = np.array([7, 9], np.uint64)
    for other in (7, 9 << 64, 7 + (9 << 64), 8 + (9 << 64)):
        shares = [[7 + (9 << 64), *[other] * (len(width) - 1)]]
        flags = new_lane_array(1, len(width))
        flags[:] = 0
        _flags(width, flags, encoded(width, shares), constant, 1)
        assert flags[0].tolist() == [4 if share == shares[0][0] else 0 for share in shares[0]]


@dataclasses.dataclass(frozen=True)
class Range:
    """A word of which only bounds are known; a result that could exceed 64 bits is an error."""

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

    def __invert__(self) -> "Range":
        return Range(-1 - self.high, -1 - self.low)

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

    def filled(self, value: int) -> "Range":
        return Range(value, value)

    def plus_low_product(self, _x: "Range", _y: "Range") -> "Range":
        return self + Range(0, 2**52 - 1)

    def plus_high_product(self, x: "Range", y: "Range") -> "Range":
        """Bound the low 52 bits: any value, unless the word is known to fit them."""
        most = [z.high if z.low >= 0 and z.high < 2**52 else 2**52 - 1 for z in (x, y)]
        return self + Range(0, (most[0] * most[1]) >> 52)

    def shifted_left_with(self, low: "Range", bits: int) -> "Range":
        assert min(self.low, low.low) >= 0
        return Range(0, min(2**63 - 1, ((self.high + 1) << bits) - 1))


def _range(value: Range | int) -> Range:
    return value if isinstance(value, Range) else Range(value, value)


def _on_ranges(
    function: Callable[..., Sequence[Word]], *arguments: Range | Sequence[Range]
) -> list[Range]:
    return cast("list[Range]", function(*arguments))


LAYOUTS = pytest.mark.parametrize("limbs", [Limbs26(), Limbs52()], ids=["26 bits", "52 bits"])


def ranges(limbs: limbs128.Limbs, below: int) -> list[Range]:
    """Return bounds of the limbs of any integer below a bound."""
    last = (below - 1) >> (limbs.bits * (limbs.count - 1))
    return [*[Range(0, limbs.mask)] * (limbs.count - 1), Range(0, last)]


def all_carried(limbs: limbs128.Limbs, found: list[Range]) -> bool:
    return all(limb.low >= 0 and limb.high <= limbs.mask for limb in found[:-1])


@LAYOUTS
def test_no_column_overflows_when_the_most_products_are_added_and_reduced(
    limbs: limbs128.Limbs,
) -> None:
    factor = ranges(limbs, 4 * P)
    columns = [Range(0, 0)] * limbs.columns
    for _ in range(limbs128.MAX_PRODUCTS):
        columns = _on_ranges(limbs.added_product, columns, factor, factor)
    assert all_carried(limbs, _on_ranges(limbs.reduced, columns))


def test_products_of_last_limbs_have_no_high_part() -> None:
    last = ranges(Limbs52(), 4 * P)[-1]
    assert last.high**2 < 2**52


@LAYOUTS
def test_a_sum_of_the_most_residues_can_be_folded(limbs: limbs128.Limbs) -> None:
    found = [Range(0, limbs128.MAX_TERMS * limb.high) for limb in ranges(limbs, 4 * P)]
    without_last = sum(limb.high << (limbs.bits * i) for i, limb in enumerate(found[:-1]))
    assert without_last < 2**119
    assert limbs128.MAX_TERMS * 4 * P < 2**160
    assert all_carried(limbs, _on_ranges(limbs.folded, found))


def test_columns_of_the_heaviest_weighted_sum_do_not_overflow_and_can_be_folded() -> None:
    low = high = Range(0, 2**63 - 1)
    columns = [Range(0, 0)] * 3
    for _ in range(limbs128.MAX_PRODUCTS):
        columns = _on_ranges(
            Limbs52().added_weighted, columns, low, high, Range(0, limbs128.MAX_WEIGHT)
        )
    assert columns[0].high + (columns[1].high << 52) < 2**119
    last = 2**24 - 1
    assert last * limbs128.MAX_WEIGHT < 2**52


@LAYOUTS
def test_limbs_of_a_product_of_the_largest_factors_are_carried(limbs: limbs128.Limbs) -> None:
    factor = ranges(limbs, 4 * P)
    assert all_carried(limbs, _on_ranges(limbs.product, factor, factor))


def test_a_fold_in_a_product_has_no_high_part() -> None:
    most = 16 * P**2 // Limbs52().radix + P
    h = most >> 128
    assert h <= 2**28
    assert h * (28 << 12) < 2**52


@LAYOUTS
def test_limbs_of_the_difference_of_residues_do_not_overflow(limbs: limbs128.Limbs) -> None:
    plus_and_minus = cast("Callable[..., Sequence[list[Range]]]", limbs.plus_and_minus)
    for found in plus_and_minus(ranges(limbs, 2 * P), ranges(limbs, 2 * P)):
        assert all_carried(limbs, found)


@LAYOUTS
def test_limbs_of_sums_and_differences_to_be_multiplied_are_carried(
    limbs: limbs128.Limbs,
) -> None:
    for function in (limbs.sum, limbs.minus):
        found = _on_ranges(function, ranges(limbs, 2 * P), ranges(limbs, 2 * P))
        assert all_carried(limbs, found)
