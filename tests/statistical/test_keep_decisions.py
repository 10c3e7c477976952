"""The keep decisions have the law they claim: size and power are both stated."""

import math

import pytest

from aggregator.papers.partition_selection import OptimalSelection
from aggregator.papers.selection_draws import draw_kept
from tests.support.entropy import SeededEntropy

DRAWS = 200_000
# A right sampler is beyond six standard deviations once in 5 * 10^8 draws of the seed.
SIGMAS = 6


@pytest.mark.statistical
@pytest.mark.parametrize("count", [9, 10, 11, 12, 13, 15])
def test_buckets_are_kept_as_often_as_they_should_be(count: int) -> None:
    selection = OptimalSelection.of(1, "1e-5")
    kept = sum(draw_kept(selection, [count] * DRAWS, SeededEntropy(count))) / DRAWS

    def sigmas_from(probability: float) -> float:
        return abs(kept - probability) / math.sqrt(probability * (1 - probability) / DRAWS)

    assert sigmas_from(float(selection.keep_probability(count))) < SIGMAS
    # Power: the law of an epsilon 10 % off is rejected.
    wrong = OptimalSelection.of("1.1", "1e-5")
    assert sigmas_from(float(wrong.keep_probability(count))) > SIGMAS
