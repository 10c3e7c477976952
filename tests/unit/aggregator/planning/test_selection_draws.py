"""Exact draws of the keep decision: what is a tie, what is certain, what is refused."""

import numpy as np
import pytest
from typing_extensions import override

from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.planning.partition_selection import OptimalSelection
from aggregator.planning.selection_draws import KeepDecisions
from tests.support.entropy import SeededEntropy


class ScriptedEntropy(Entropy):
    """Hands out given words of 64 bits, a call at a time."""

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    @override
    def bytes(self, size: int) -> bytes:
        words = [self._words.pop(0) for _ in range(size // 8)]
        return b"".join(word.to_bytes(8, "little") for word in words)


def draw(selection: OptimalSelection, count: int, *words: int) -> bool:
    decisions = KeepDecisions.of(selection)
    return bool(decisions.draw(np.array([count]), ScriptedEntropy(*words))[0])


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


def test_every_word_of_the_table_is_the_certain_one() -> None:
    for epsilon, delta in (("1", "1e-5"), ("0.1", "1e-10"), ("0", "1/3"), ("2", "0.6")):
        selection = OptimalSelection.of(epsilon, delta)
        words = KeepDecisions.of(selection).words
        assert [int(w) for w in words] == [
            selection.threshold_word(n, 64) for n in range(words.size)
        ]


def test_large_buckets_are_always_kept_and_empty_ones_never() -> None:
    selection = OptimalSelection.of(1, "1e-5")
    counts = np.array([0, 23, 10**18] * 1000)
    kept = KeepDecisions.of(selection).draw(counts, SeededEntropy(1))
    assert kept.tolist() == [False, True, True] * 1000


def test_nothing_is_kept_where_delta_is_zero() -> None:
    decisions = KeepDecisions.of(OptimalSelection.of(1, 0))
    assert not decisions.draw(np.array([0, 5, 10**9]), SeededEntropy(2)).any()


def test_counts_beyond_the_table_are_settled_one_by_one() -> None:
    selection = OptimalSelection.of("1e-9", "1e-300")
    middle = 669359114882
    counts = np.array([5, middle - 10**11, middle + 10**11])
    kept = KeepDecisions.of(selection).draw(counts, SeededEntropy(3))
    assert kept.tolist() == [False, False, True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta"), [("1e-9", "1e-300"), ("1e-6", "1e-30"), ("1e-12", "1e-8"), ("0", "1e-9")]
)
def test_beyond_the_table_a_double_decides_as_the_exact_numbers_do(
    epsilon: str, delta: str
) -> None:
    selection = OptimalSelection.of(epsilon, delta)
    n1, n2 = selection.n1 or 0, selection.n2 or 0
    counts = np.linspace(2**20 + 5, n2, 9).astype(np.int64)
    counts = np.concatenate((counts, [n1 - 1, n1, n1 + 1, n2 - 1, n2, n2 + 1]))
    decisions = KeepDecisions(selection, np.zeros(1, dtype=np.uint64))
    for i, offset in enumerate((-(2**30), -1, 1, 2**30)):
        words = [
            min(max(selection.threshold_word(int(n), 64) + offset, 0), 2**64 - 1) for n in counts
        ]
        # Where a tie is left to further bits, the script's are all zero: the number is below.
        entropy = ScriptedEntropy(*words, *[0] * 500)
        expected = [
            word < selection.threshold_word(int(n), 64)
            or (
                word == selection.threshold_word(int(n), 64)
                and selection.keep_probability(int(n)) > 0
            )
            for word, n in zip(words, counts, strict=True)
        ]
        assert decisions.draw(counts, entropy).tolist() == expected, i


def test_no_counts_make_no_decisions() -> None:
    decisions = KeepDecisions.of(OptimalSelection.of(1, "1e-5"))
    assert decisions.draw(np.array([], dtype=np.int64), SeededEntropy(4)).size == 0


def test_a_negative_count_is_refused() -> None:
    decisions = KeepDecisions.of(OptimalSelection.of(1, "1e-5"))
    with pytest.raises(ParameterError, match="counts must be at least 0, not -3"):
        decisions.draw(np.array([4, -3]), SeededEntropy(5))
