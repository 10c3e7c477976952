"""Closed bounds on binomial tails, beside the exact tails."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from aggregator.steward.audit.tail_bounds import log_tail, log_tail_above, miss


@pytest.mark.parametrize("trials", [1, 7, 400])
@pytest.mark.parametrize("p", [0.003, 0.2, 0.5, 0.97])
def test_a_p_value_is_never_below_the_exact_one(trials: int, p: float) -> None:
    hits = np.arange(trials + 1)
    logs = log_tail(hits, trials, p)
    # A two-sided p-value: the probability of everything that is at least as unlikely.
    mass = binom.pmf(hits, trials, p)
    exact = np.array([mass[logs <= each + 1e-12].sum() for each in logs])
    assert np.all(exact <= np.exp(logs) * (1 + 1e-9) + 1e-300)
    above = log_tail_above(hits, trials, p)
    assert np.all(binom.logsf(hits - 1, trials, p) <= above + 1e-9)


def test_an_impossible_count_has_the_p_value_zero() -> None:
    assert log_tail(1, 10, 0.0) == -math.inf
    assert log_tail(9, 10, 1.0) == -math.inf
    assert log_tail(0, 10, 0.0) == 0
    assert log_tail(0, 0, 0.5) == 0
    assert log_tail(0, 0, 1.0) == 0


def test_too_few_hits_do_not_count_against_a_bound_on_too_many() -> None:
    assert log_tail_above(0, 1000, 0.5) == 0
    assert log_tail_above(900, 1000, 0.5) < -300


@pytest.mark.parametrize(("expected", "true"), [(0.2, 0.3), (0.5, 0.4), (0.24, 1.0), (0.9, 0.8)])
def test_the_power_is_never_stated_too_large(expected: float, true: float) -> None:
    trials, threshold = 1500, math.log(1e-8)
    hits = np.arange(trials + 1)
    is_missed = log_tail(hits, trials, expected) >= threshold
    exact = binom.pmf(hits, trials, true)[is_missed].sum()
    stated = float(miss(trials, expected, true, threshold))
    assert exact <= stated + 1e-12
    assert stated < 1


def test_a_fault_too_small_to_be_refused_has_no_power() -> None:
    assert miss(100, 0.5, 0.51, math.log(1e-8)) == 1
