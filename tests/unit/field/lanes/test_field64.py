"""Field64 on lanes: every operation against Python integers, at 1, 4 and 8 lanes."""

import itertools

import numpy as np
import pytest

from field import FIELD64
from field.lanes import (
    Code,
    Integer,
    LaneArray,
    LaneWidth,
    Place,
    Table,
    field64,
    kernel,
    new_lane_array,
    operation,
)
from tests.support.lane_widths import COMPILED, INTERPRETED, width_of

P = FIELD64.modulus
E = 2**32 - 1
ANY_WORDS = [0, 1, 2, E - 1, E, E + 1, 2**33, 2**63, P - 2**32, P - 1, P, P + 1, 2**64 - 1]
RESIDUES = [word for word in ANY_WORDS if word < P]


width = width_of(*INTERPRETED, *COMPILED)


def pairs(width: LaneWidth, second: list[int]) -> list[tuple[list[int], list[int]]]:
    """Return all pairs of edge values and random ones, one pair per lane at a time."""
    rng = np.random.default_rng(7)
    every = list(itertools.product(ANY_WORDS, second))
    for _ in range(200):
        x, y = (int.from_bytes(rng.bytes(8), "little") for _ in range(2))
        every.append((x, y % P))
    every += every[: -len(every) % len(width)]
    groups = [every[i : i + len(width)] for i in range(0, len(every), len(width))]
    return [([x for x, _ in group], [y for _, y in group]) for group in groups]


def lane_rows(width: LaneWidth, rows: list[list[int]]) -> LaneArray:
    array = new_lane_array(len(rows), len(width))
    array[:] = np.array(rows, np.uint64)
    return array


@operation
def _steps(code: Code, out: Place, x: Place, y: Place, _unused: Integer) -> None:
    a, b = x.load(), y.load()
    results = (
        field64.reduced(a, b),
        field64.reduced(b, a),
        field64.product(a, b),
        field64.product(a, a),
        field64.plus(a, b),
        field64.minus(a, b),
        field64.canonical(a),
        field64.canonical(field64.product(b, code.constant(P - 1))),
    )
    for row, word in enumerate(results):
        out.moved(row).store(word)


@kernel
def _run_steps(width: LaneWidth, out: LaneArray, x: LaneArray, y: LaneArray) -> None:
    _steps(width, out, x, y, 0)


def test_steps_are_correct_modulo_p_for_any_words(width: LaneWidth) -> None:
    out = new_lane_array(8, len(width))
    for xs, ys in pairs(width, RESIDUES):
        _run_steps(width, out, lane_rows(width, [xs]), lane_rows(width, [ys]))
        for lane, (x, y) in enumerate(zip(xs, ys, strict=True)):
            expected = [x + y * 2**64, y + x * 2**64, x * y, x * x, x + y, x - y, x, -y]
            found = [int(word) for word in out[:, lane]]
            assert [word % P for word in found] == [value % P for value in expected]
            assert max(found[6:]) < P


@kernel
def _run_operations(
    width: LaneWidth, out: LaneArray, x: LaneArray, y: LaneArray, constants: Table
) -> None:
    field64.multiply_constant(width, out, x, (constants, 1))
    field64.subtract(width, (out, 1), x, y)


def test_operations_give_canonical_words(width: LaneWidth) -> None:
    out = new_lane_array(2, len(width))
    for constant in (0, 1, 12345, P - 1):
        table = np.array([3, constant], np.uint64)
        for xs, ys in pairs(width, RESIDUES):
            _run_operations(width, out, lane_rows(width, [xs]), lane_rows(width, [ys]), table)
            for lane, (x, y) in enumerate(zip(xs, ys, strict=True)):
                expected = [x * constant, x - y]
                found = [int(word) for word in out[:, lane]]
                assert [word % P for word in found] == [value % P for value in expected]
                assert max(found) < P


@kernel
def _run_dots(
    width: LaneWidth, out: LaneArray, x: LaneArray, y: LaneArray, constants: Table, count: int
) -> None:
    field64.dot(width, out=out, x=(x, 1), x_step=1, y=y, y_step=2, count=count)
    field64.dot_constants(width, (out, 1), (constants, 1), y, count)


@pytest.mark.parametrize("count", [0, 1, 7, field64.MAX_PRODUCTS])
@pytest.mark.parametrize("largest", [False, True])
def test_sums_of_products_are_those_of_integers(
    width: LaneWidth, count: int, *, largest: bool
) -> None:
    rng = np.random.default_rng(count)
    xs = rng.integers(0, 2**64, (count + 1, len(width)), np.uint64)
    ys = rng.integers(0, 2**64, (2 * count + 1, len(width)), np.uint64)
    constants = rng.integers(0, P, count + 1, np.uint64)
    if largest:
        xs[:], ys[:], constants[:] = 2**64 - 1, 2**64 - 1, P - 1
    out = new_lane_array(2, len(width))
    _run_dots(width, out, xs, ys, constants, count)
    for lane in range(len(width)):
        x, y = xs[:, lane].tolist(), ys[:, lane].tolist()
        dot = sum(x[1 + k] * y[2 * k] for k in range(count))
        weighted = sum(int(constants[1 + k]) * y[k] for k in range(count))
        assert out[:, lane].tolist() == [dot % P, weighted % P]


@kernel
def _run_flags(width: LaneWidth, flags: LaneArray, words: LaneArray, count: int) -> None:
    field64.flag_not_residues(width, flags, words, count, 1)
    field64.flag_equal(width, flags, words, 5, 4)


def test_lanes_with_a_non_residue_or_a_given_word_are_flagged(
    width: LaneWidth,
) -> None:
    for bad, lane, place in itertools.product((P, P + 1, 2**64 - 1), range(len(width)), range(3)):
        words = lane_rows(width, [[P - 1] * len(width), [5] * len(width), [0] * len(width)])
        words[place, lane] = bad
        flags = lane_rows(width, [[2] * len(width)])
        _run_flags(width, flags, words, 3)
        assert flags[0].tolist() == [3 if i == lane else 2 for i in range(len(width))]
    flags, words = lane_rows(width, [[0] * len(width)]), lane_rows(width, [[4] * len(width)])
    words[0, -1] = 5
    _run_flags(width, flags, words, 1)
    assert flags[0].tolist() == [0] * (len(width) - 1) + [4]
