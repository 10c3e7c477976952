"""Exact draws of the keep decision: what is a tie, what is certain, what is refused."""

import pytest

from aggregator.errors import ParameterError
from aggregator.papers.partition_selection import OptimalSelection
from aggregator.papers.selection_draws import draw_kept
from tests.support.entropy import ScriptedEntropy, SeededEntropy


def draw(selection: OptimalSelection, count: int, *words: int) -> bool:
    script = b"".join(word.to_bytes(8, "little") for word in words)
    (kept,) = draw_kept(selection, [count], ScriptedEntropy(script))
    return kept


def test_the_first_64_bits_decide_unless_all_agree() -> None:
    selection = OptimalSelection.of(1, "1e-5")
    word = selection.threshold_word(12, 64)
    assert draw(selection, 12, word - 1)
    assert not draw(selection, 12, word + 1)


def test_a_tie_is_settled_by_further_bits() -> None:
    selection = OptimalSelection.of(1, "1e-5")
    first = selection.threshold_word(12, 64)
    second = selection.threshold_word(12, 128) - (first << 64)
    third = selection.threshold_word(12, 192) - (selection.threshold_word(12, 128) << 64)
    assert draw(selection, 12, first, second - 1)
    assert not draw(selection, 12, first, second + 1)
    assert draw(selection, 12, first, second, third - 1)
    assert not draw(selection, 12, first, second, third + 1)


def test_a_probability_of_one_quarter_keeps_exactly_below_a_quarter() -> None:
    selection = OptimalSelection.of(0, "1/4")
    assert draw(selection, 1, 2**62 - 1)
    assert not draw(selection, 1, 2**62, 0, 1)


def test_large_buckets_are_always_kept_and_empty_ones_never() -> None:
    selection = OptimalSelection.of(1, "1e-5")
    kept = draw_kept(selection, [0, 23, 10**18] * 1000, SeededEntropy(1))
    assert kept == [False, True, True] * 1000


def test_nothing_is_kept_where_delta_is_zero() -> None:
    assert not any(draw_kept(OptimalSelection.of(1, 0), [0, 5, 10**9], SeededEntropy(2)))


def test_huge_counts_are_decided_under_a_tiny_epsilon_and_delta() -> None:
    selection = OptimalSelection.of("1e-9", "1e-300")
    middle = 669359114882
    counts = [5, middle - 10**11, middle + 10**11]
    assert draw_kept(selection, counts, SeededEntropy(3)) == [False, False, True]


def test_no_counts_make_no_decisions() -> None:
    assert draw_kept(OptimalSelection.of(1, "1e-5"), [], SeededEntropy(4)) == []


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"each count must be .*, not -3"):
        draw_kept(OptimalSelection.of(1, "1e-5"), [4, -3], SeededEntropy(5))
