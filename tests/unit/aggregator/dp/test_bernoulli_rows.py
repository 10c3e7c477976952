"""Ties, second pass and last resort of the Bernoulli rows, with keystreams written for them."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from aggregator.dp.certified import Enclosed, binary_digits, exp
from aggregator.dp.samplers.bernoulli import BernoulliRows, settle
from tests.support.sampling import SLOTS, ScriptedBits, block

RATES = [Fraction(1, 3), Fraction(5, 2), Fraction(40)]
FIRST, SECOND, RARE = range(3)


def probability(rate: Fraction) -> Enclosed:
    return lambda digits: exp(-rate, digits)


@pytest.fixture(name="rows")
def fixture_rows() -> BernoulliRows:
    return BernoulliRows([probability(rate) for rate in RATES])


def bound(row: int, bits: int) -> int:
    return binary_digits(probability(RATES[row]), bits)


def outcomes_of(packed: np.ndarray) -> list[list[bool]]:
    return [[bool(limbs >> row & 1) for row in range(3)] for limbs in packed[0].tolist()]


def test_a_word_below_the_bound_succeeds_and_one_above_fails(rows: BernoulliRows) -> None:
    high = [bound(row, 32) for row in range(3)]
    words = [
        [high[FIRST] - 1, high[FIRST] + 1, 0],
        [high[SECOND] + 1, high[SECOND] - 1, 0],
        [high[RARE] + 1, 2**32 - 1, 0],
    ]
    assert high[RARE] == 0
    stream = ScriptedBits(block(words))
    assert outcomes_of(rows.draw(2, stream)) == [[True, False, False], [False, True, False]]


def test_a_tie_is_decided_by_64_more_bits_of_the_second_pass(rows: BernoulliRows) -> None:
    low = [bound(row, 96) % 2**64 for row in range(3)]
    tied = [[bound(row, 32)] * 2 + [2**32 - 1] for row in range(3)]
    extensions = [
        [low[FIRST] - 1, low[SECOND] + 1, low[RARE] + 1],
        [low[FIRST] + 1, low[SECOND] - 1, low[RARE] - 1],
    ]
    stream = ScriptedBits(block(tied, extensions))
    assert outcomes_of(rows.draw(2, stream)) == [[True, False, False], [False, True, True]]
    assert stream.offset == len(stream.data)


def test_a_tie_of_all_96_bits_is_decided_by_as_many_more_as_it_takes(rows: BernoulliRows) -> None:
    words = [[bound(FIRST, 32), 2**32 - 1], [2**32 - 1] * 2, [2**32 - 1] * 2]
    extension = [bound(FIRST, 96) % 2**64, 0, 0]
    next_bits = bound(FIRST, 160) % 2**64
    last_bits = bound(FIRST, 224) % 2**64
    for more, outcome in (
        ([next_bits - 1], True),
        ([next_bits + 1], False),
        ([next_bits, last_bits - 1], True),
        ([next_bits, last_bits + 1], False),
    ):
        script = block(words, [extension]) + b"".join(bits.to_bytes(8, "little") for bits in more)
        stream = ScriptedBits(script)
        assert outcomes_of(rows.draw(1, stream)) == [[outcome, False, False]]
        assert stream.offset == len(script)


def test_more_ties_than_the_second_pass_has_room_for_are_all_settled(rows: BernoulliRows) -> None:
    count = SLOTS + 3
    words = [[bound(FIRST, 32)] * count + [0], [2**32 - 1] * (count + 1), [2**32 - 1] * (count + 1)]
    low = bound(FIRST, 96) % 2**64
    extensions = [[low - 1 if slot % 2 else low + 1, 0, 0] for slot in range(SLOTS)]
    # The three that found no room go on from their 32 bits.
    more = [low - 1, low + 1, low - 1]
    script = block(words, extensions) + b"".join(bits.to_bytes(8, "little") for bits in more)
    found = [column[FIRST] for column in outcomes_of(rows.draw(count, ScriptedBits(script)))]
    assert found == [bool(slot % 2) for slot in range(SLOTS)] + [True, False, True]


def test_every_block_takes_as_many_bytes_whether_or_not_it_ties(rows: BernoulliRows) -> None:
    calm = ScriptedBits(block([[2**32 - 1] * 4] * 3))
    tied = ScriptedBits(block([[bound(row, 32)] * 3 + [0] for row in range(3)], [[1, 1, 1]] * 3))
    rows.draw(3, calm)
    rows.draw(3, tied)
    assert calm.offset == tied.offset


def test_rows_beyond_one_limb_are_packed_in_the_next() -> None:
    rows = BernoulliRows([probability(Fraction(1, 2))] * 70)
    words = np.full((70, 2), 2**32 - 1, np.uint32)
    words[[0, 31, 32, 69], 0] = 0
    packed = rows.draw(1, ScriptedBits(block(words.tolist())))
    assert packed.tolist() == [[1 | 1 << 31], [1], [1 << 5]]


def test_blocks_follow_each_other_without_a_gap(rows: BernoulliRows) -> None:
    first = block([[0] * 4097, [2**32 - 1] * 4097, [2**32 - 1] * 4097])
    second = block([[2**32 - 1] * 3, [0] * 3, [2**32 - 1] * 3])
    stream = ScriptedBits(first + second)
    found = outcomes_of(rows.draw(4098, stream))
    assert found == [[True, False, False]] * 4096 + [[False, True, False]] * 2
    assert stream.offset == len(stream.data)


def test_settle_needs_no_given_bits() -> None:
    half = probability(Fraction(2))
    with mpmath.workdps(40):
        first_bits = int(mpmath.exp(-2) * 2**64)
    assert settle(half, ScriptedBits((first_bits - 1).to_bytes(8, "little")))
    assert not settle(half, ScriptedBits((first_bits + 1).to_bytes(8, "little")))
