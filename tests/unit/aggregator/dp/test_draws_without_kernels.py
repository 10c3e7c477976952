"""Before kernels are compiled, noise is drawn without them: the same draws from the same bytes."""

from fractions import Fraction

import numpy as np
import pytest

from aggregator.dp.samplers import bernoulli
from aggregator.dp.samplers.keystream import Keystream
from aggregator.dp.samplers.two_sided_geometric import TwoSidedGeometric
from tests.support.cold import without_kernels


class SameEntropy:
    def bytes(self, count: int) -> bytes:
        return bytes(range(count))


@pytest.mark.parametrize("digits", [6, 9, 40, 62, 70])
def test_the_same_bytes_make_the_same_noise(digits: int) -> None:
    source = TwoSidedGeometric(Fraction(2**digits, 50), digits, has_tail=True)
    compiled = source.draw(5000, Keystream(SameEntropy()))
    with without_kernels():
        plain = source.draw(5000, Keystream(SameEntropy()))
    assert plain.dtype == compiled.dtype
    assert plain.tolist() == compiled.tolist()
    assert len(set(plain.tolist())) > 3


ROWS, COLUMNS = 37, 100


@pytest.mark.parametrize("num_tied", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize("is_open", [False, True])
def test_columns_that_tie_are_settled_alike(num_tied: int, *, is_open: bool) -> None:
    rng = np.random.default_rng(num_tied)
    high = rng.integers(0, 2**32, ROWS, np.uint32)
    low = rng.integers(0, 2**64, ROWS, np.uint64)
    words = rng.integers(0, 2**32, (ROWS, COLUMNS + 1), np.uint32)
    extensions = rng.integers(0, 2**64, (8, ROWS), np.uint64)
    for column in rng.permutation(COLUMNS)[:num_tied]:
        row = rng.integers(ROWS)
        words[row, column] = high[row]
        if is_open:
            extensions[:, row] = low[row]
    words[3, COLUMNS] = high[3]  # A tie of the spare column is nobody's.

    def outcome(compare: object) -> tuple[object, ...]:
        outcomes = np.zeros((2, COLUMNS), np.uint32)
        ties = np.zeros(COLUMNS, np.uint32)
        slots = np.full(9, COLUMNS, np.int64)
        assert callable(compare)
        found = compare(words, extensions, high, low, outcomes, ties, slots)
        return *map(int, found), outcomes.tolist(), ties.astype(bool).tolist(), slots.tolist()

    compiled = outcome(bernoulli._compare)
    assert compiled[0] == num_tied
    assert outcome(bernoulli._compare_plainly) == compiled
