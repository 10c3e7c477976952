"""A sampler's time does not depend on what it draws, as far as 10^6 draws can show.

Blocks of draws are timed one by one, and the ranks of the times compared with the ranks of the
blocks' sums of magnitudes. The draws of each block are independent of all others, so whatever the
machine does to the times, every order of the magnitudes is equally likely if they have no effect:
Spearman's coefficient times the root of the number of blocks is a standard normal variable.

Size: the limit of six standard deviations is passed by chance once in 5 * 10^8.
Power: the same harness must find a sampler that takes 20 ns longer for each unit of magnitude, as
one more trial in a loop would; on a quiet machine it finds 5 ns at eighteen deviations.

The draws are the operating system's and the times are this machine's, so no run repeats another:
this is a measurement on demand.
"""

import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from aggregator.dp.samplers import DiscreteLaplaceSampler, TruncatedGeometricSampler
from aggregator.entropy import SystemEntropy
from tests.support.statistics import SIX_SIGMA

pytestmark = pytest.mark.bench

BLOCK = 100
NUM_BLOCKS = 10_000
Sample = Callable[[], NDArray[np.int64]]


def ranks(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ranks, with ties broken at random: in order of time, they would carry its drift."""
    shuffled = np.random.default_rng(0).permutation(len(values))
    order = shuffled[np.argsort(values[shuffled], kind="stable")]
    result = np.empty(len(values))
    result[order] = np.arange(len(values))
    return result


def standardised_correlation(sample: Sample) -> float:
    for _ in range(50):
        sample()
    times = np.empty(NUM_BLOCKS, np.int64)
    magnitudes = np.empty(NUM_BLOCKS, np.int64)
    for block in range(NUM_BLOCKS):
        begin = time.perf_counter_ns()
        draws = sample()
        times[block] = time.perf_counter_ns() - begin
        magnitudes[block] = np.abs(draws).sum()
    coefficient = np.corrcoef(ranks(times), ranks(magnitudes))[0, 1]
    return float(coefficient * math.sqrt(NUM_BLOCKS - 1))


def leaky(sample: Sample, nanoseconds: float) -> Sample:
    """Return a sampler that takes this much longer for each unit of magnitude."""

    def sample_and_wait() -> NDArray[np.int64]:
        draws = sample()
        wait = int(np.abs(draws).sum()) * nanoseconds
        begin = time.perf_counter_ns()
        while time.perf_counter_ns() - begin < wait:
            pass
        return draws

    return sample_and_wait


def laplace(scale: int) -> Sample:
    sampler, entropy = DiscreteLaplaceSampler(Fraction(scale)), SystemEntropy()
    return lambda: sampler.sample(BLOCK, entropy).astype(np.int64)


def truncated(scale: int, bound: int) -> Sample:
    sampler, entropy = TruncatedGeometricSampler(Fraction(scale), bound), SystemEntropy()
    return lambda: sampler.sample(BLOCK, entropy).astype(np.int64)


SAMPLERS = {
    "discrete Laplace, t = 4": laplace(4),
    "discrete Laplace, t = 25500": laplace(25_500),
    "truncated geometric, t = 2, k = 22": truncated(2, 22),
    "truncated geometric, t = 20, k = 222": truncated(20, 222),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_time_of_a_sampler_does_not_depend_on_its_draws(name: str) -> None:
    assert abs(standardised_correlation(SAMPLERS[name])) < SIX_SIGMA


def test_a_sampler_whose_time_depends_on_its_draws_is_found() -> None:
    # Blocks differ by about 40 units of magnitude, so by about 0.8 microseconds.
    assert standardised_correlation(leaky(laplace(4), 20)) > SIX_SIGMA
