"""Words side by side, at 1, 4 and 8 lanes, against Python integers and numpy."""

import numpy as np
import pytest

from field.lanes import (
    CACHE_LINE_SIZE,
    Bytes,
    Code,
    Integer,
    LaneArray,
    LaneWidth,
    Place,
    copy_rows,
    copy_words,
    kernel,
    lane_width,
    new_lane_array,
    operation,
    rows_to_words,
    words_to_rows,
    xor_words,
)
from field.lanes import lanes as processor_lanes
from tests.support.lane_widths import COMPILED, INTERPRETED, width_of

WORD = 2**64
EDGES = [0, 1, 2**26 - 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, WORD - 2, WORD - 1]


width = width_of(*INTERPRETED, *COMPILED)


def edge_words(width: LaneWidth, count: int, seed: int) -> LaneArray:
    words = new_lane_array(count, len(width))
    words[:] = np.random.default_rng(seed).choice(np.array(EDGES, np.uint64), words.shape)
    return words


@operation
def _all_arithmetic(code: Code, out: Place, x: Place, y: Place, scalar: Integer) -> None:
    a, b = x.load(), y.load()
    results = [
        a + b,
        a - b,
        a & b,
        a | b,
        a ^ b,
        ~a,
        a << 12,
        a >> 26,
        a.logical_right(26),
        a.times32(b),
        a.times32(5),
        a.rotate_left(17),
        a.rotate_left(0),
        a.at_least(2**32),
        a + code.in_every_lane(scalar),
        a - 1,
        code.constant(2**64 - 1) & a,
        a.at_least(b),
        a.shifted_left_with(b, 12),
        a.shifted_left_with(b, b & 63),
        a.shifted_left_with(b, b & 0),
    ]
    for row, word in enumerate(results):
        out.moved(row).store(word)


def _expected(a: int, b: int, scalar: int) -> list[int]:
    signed = a - WORD if a >= WORD // 2 else a
    low = 2**32 - 1
    return [
        value % WORD
        for value in (
            a + b,
            a - b,
            a & b,
            a | b,
            a ^ b,
            ~a,
            a << 12,
            signed >> 26,
            a >> 26,
            (a & low) * (b & low),
            (a & low) * 5,
            a << 17 | a >> 47,
            a,
            -1 if a >= 2**32 else 0,
            a + scalar,
            a - 1,
            a,
            -1 if a >= b else 0,
            a << 12 | b >> 52,
            a << (b % 64) | b >> (64 - b % 64),
            a,
        )
    ]


@kernel
def _run_arithmetic(
    width: LaneWidth, out: LaneArray, x: LaneArray, y: LaneArray, scalar: int
) -> None:
    _all_arithmetic(width, out, x, y, scalar)


def test_arithmetic_on_words_is_modulo_2_to_the_64_in_every_lane(
    width: LaneWidth,
) -> None:
    for seed in range(40):
        x, y = edge_words(width, 1, 2 * seed), edge_words(width, 1, 2 * seed + 1)
        out = new_lane_array(21, len(width))
        _run_arithmetic(width, out, x, y, 12345)
        for lane in range(len(width)):
            assert out[:, lane].tolist() == _expected(int(x[0, lane]), int(y[0, lane]), 12345)


@operation
def _multiply_add(_code: Code, out: Place, x: Place, y: Place) -> None:
    a, b = x.load(), y.load()
    out.store(a.plus_low_product(b, a))
    out.moved(1).store(a.plus_high_product(b, a))


@kernel
def _run_multiply_add(width: LaneWidth, out: LaneArray, x: LaneArray, y: LaneArray) -> None:
    _multiply_add(width, out, x, y)


def test_both_halves_of_a_52_bit_product_are_added(
    width: LaneWidth,
) -> None:
    if not width.has_multiply_add:
        return  # No code asks for it then.
    for seed in range(40):
        x, y = edge_words(width, 1, 2 * seed), edge_words(width, 1, 2 * seed + 1)
        out = new_lane_array(2, len(width))
        _run_multiply_add(width, out, x, y)
        for lane in range(len(width)):
            a, b = int(x[0, lane]), int(y[0, lane])
            product = (a % 2**52) * (b % 2**52)
            assert out[:, lane].tolist() == [
                (a + product % 2**52) % WORD,
                (a + (product >> 52)) % WORD,
            ]


@kernel
def _gather(
    width: LaneWidth, out: LaneArray, rows: Bytes, first_byte: int, stride: int, count: int
) -> None:
    rows_to_words(width, out, 0, rows, first_byte, stride, count)


@kernel
def _scatter(
    width: LaneWidth, rows: Bytes, first_byte: int, source: LaneArray, size: int, block: Bytes
) -> None:
    words_to_rows(width, rows, first_byte, rows.shape[1], source, 0, size, block)


@pytest.mark.parametrize("count", [8, 9, 15, 16, 21])
def test_rows_of_bytes_become_columns_of_words(width: LaneWidth, count: int) -> None:
    # Rows begin at odd addresses, and the bytes around them must not matter.
    rows = np.random.default_rng(count).integers(0, 256, (len(width), 8 * count + 3), np.uint8)
    out = new_lane_array(count, len(width))
    _gather(width, out, rows, 3, rows.shape[1], count)
    expected = np.ascontiguousarray(rows[:, 3:]).view(np.uint64).T
    assert (out == expected).all()


@pytest.mark.parametrize("size", [1, 7, 8, 31, 32, 64, 65, 168])
def test_columns_of_words_become_rows_of_bytes_and_nothing_else_changes(
    width: LaneWidth, size: int
) -> None:
    source = edge_words(width, 21 + len(width), size)
    rows = np.full((len(width), size + 5), 0xAA, np.uint8)
    block = np.zeros((len(width), 8 * len(width)), np.uint8)
    _scatter(width, rows, 2, source, size, block)
    expected = np.ascontiguousarray(source.T).view(np.uint8)[:, :size]
    assert (rows[:, 2 : size + 2] == expected).all()
    assert (rows[:, :2] == 0xAA).all()
    assert (rows[:, size + 2 :] == 0xAA).all()


@kernel
def _copy(width: LaneWidth, out: Bytes, source: Bytes, source_stride: int, size: int) -> None:
    copy_rows(width, (out, 1), out.shape[1], (source, 2), source_stride, size)


def test_copied_rows_go_to_their_lanes_and_a_stride_of_zero_repeats_one(width: LaneWidth) -> None:
    source = np.random.default_rng(1).integers(0, 256, (len(width), 9), np.uint8)
    out = np.zeros((len(width), 12), np.uint8)
    _copy(width, out, source, 9, 5)
    assert (out[:, 1:6] == source[:, 2:7]).all()
    assert not out[:, 6:].any()
    _copy(width, out, source, 0, 5)
    assert (out[:, 1:6] == source[0, 2:7]).all()


@kernel
def _copy_and_xor(width: LaneWidth, out: LaneArray, source: LaneArray, count: int) -> None:
    copy_words(width, (out, 1), (source, 2), count)
    xor_words(width, (out, 1), source, count)


def test_many_words_are_copied_and_xored(width: LaneWidth) -> None:
    source, out = edge_words(width, 6, 3), new_lane_array(6, len(width))
    out[:] = 0
    _copy_and_xor(width, out, source, 3)
    assert (out[1:4] == source[2:5] ^ source[:3]).all()
    assert not out[[0, 4, 5]].any()


def test_a_lane_array_starts_a_cache_line() -> None:
    for count in range(1, 6):
        assert new_lane_array(count, 8).ctypes.data % CACHE_LINE_SIZE == 0


def test_the_processor_has_a_supported_number_of_lanes() -> None:
    assert processor_lanes() in {4, 8}
    assert len(lane_width()) == processor_lanes()
