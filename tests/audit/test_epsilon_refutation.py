"""The bounds that an audit rests on, checked against exact binomial sums."""

import math
from collections import Counter
from fractions import Fraction

import pytest

from aggregator.errors import ParameterError
from aggregator.steward.audit.refutation import (
    Neighbours,
    best_finding,
    epsilon_bound,
    largest_bound,
    lower_bound,
    upper_bound,
)


def binomial_masses(runs: int, p: Fraction) -> list[Fraction]:
    return [math.comb(runs, k) * p**k * (1 - p) ** (runs - k) for k in range(runs + 1)]


@pytest.mark.parametrize("runs", [1, 7, 40])
@pytest.mark.parametrize("error", [0.2, 1e-3, 1e-8])
def test_a_bound_is_wrong_no_more_often_than_it_says(runs: int, error: float) -> None:
    bounds = [lower_bound(hits, runs, error) for hits in range(runs + 1)]
    assert bounds == sorted(bounds)
    for step in range(1, 60):
        p = Fraction(step, 60)
        masses = binomial_masses(runs, p)
        wrong = sum(mass for mass, bound in zip(masses, bounds, strict=True) if bound > p)
        assert wrong <= Fraction(error)


@pytest.mark.parametrize(("hits", "runs"), [(1, 50), (30, 50), (49, 50), (140, 200)])
def test_a_bound_is_where_the_tail_has_the_error_s_probability(hits: int, runs: int) -> None:
    p = Fraction(lower_bound(hits, runs, 1e-7))
    tail = sum(binomial_masses(runs, p)[hits:])
    assert float(tail) == pytest.approx(1e-7, rel=1e-5)


def test_bounds_of_extreme_counts_are_the_known_ones() -> None:
    assert lower_bound(0, 10, 0.01) == 0
    assert upper_bound(10, 10, 0.01) == 1
    assert lower_bound(10, 10, 0.01) == pytest.approx(0.01**0.1, rel=1e-5)
    assert upper_bound(0, 10, 0.01) == pytest.approx(1 - 0.01**0.1, rel=1e-5)


def test_a_large_number_of_runs_is_bounded_without_loss() -> None:
    # Two-sided 99.9 % interval, so one-sided 5e-4: 3.29 standard deviations.
    low, high = lower_bound(731_059, 10**6, 5e-4), upper_bound(731_059, 10**6, 5e-4)
    deviation = math.sqrt(0.731059 * 0.268941 / 10**6)
    assert (0.731059 - low) / deviation == pytest.approx(3.29, abs=0.02)
    assert (high - 0.731059) / deviation == pytest.approx(3.29, abs=0.02)


def test_delta_is_taken_off_before_the_ratio() -> None:
    without = epsilon_bound((900, 100), (1000, 1000), 1e-6)
    with_delta = epsilon_bound((900, 100), (1000, 1000), 1e-6, delta=0.3)
    assert with_delta < without < math.log(9)
    assert epsilon_bound((900, 100), (1000, 1000), 1e-6, delta=0.95) == -math.inf


def test_an_event_that_never_happened_says_nothing() -> None:
    assert epsilon_bound((0, 0), (1000, 1000), 1e-6) == -math.inf


def test_no_counts_bound_epsilon_above_the_reach_of_the_runs() -> None:
    reach = largest_bound((500, 500), 1e-6)
    assert reach == pytest.approx(math.log(500 / math.log(2e6)), abs=0.03)
    assert all(epsilon_bound((k, 0), (500, 500), 1e-6) <= reach for k in (0, 250, 499, 500))


def test_the_lean_is_the_loss_in_units_of_the_scale() -> None:
    neighbours = Neighbours((0, 3), (2, 1))
    assert neighbours.distance == 4
    assert neighbours.lean([0, 3]) == 4
    assert neighbours.lean([2, 1]) == -4
    assert neighbours.lean([1, 2]) == 0
    assert neighbours.lean([-70, 50]) == 4


def test_the_most_telling_event_is_found_at_any_threshold_and_in_both_directions() -> None:
    dull = (Counter({0: 500, 2: 500}), Counter({0: 500, 2: 500}))
    telling = (Counter({0: 600, -1: 400}), Counter({0: 100, -1: 300, -3: 600}))
    finding = best_finding({"dull": dull, "telling": telling}, 4, 1e-6)
    assert finding.vantage == "telling"
    assert finding.event == "at least 2 nearer to the second data set"
    assert finding.hits == (600, 0)
    # Four thresholds, two directions, two vantages: each event has a sixteenth of the error.
    assert finding.epsilon == epsilon_bound((600, 0), (1000, 1000), 1e-6 / 16)


def test_what_cannot_be_audited_is_refused() -> None:
    same = {"alone": (Counter({0: 5}), Counter({0: 5}))}
    with pytest.raises(ParameterError, match="nothing to refute"):
        best_finding(same, 0, 1e-6)
    with pytest.raises(ParameterError, match="false_alarm"):
        best_finding(same, 1, 0)
    with pytest.raises(ParameterError, match="no observations"):
        best_finding({}, 1, 1e-6)
    with pytest.raises(ParameterError, match="hits must be from 0 to 5, not 6"):
        lower_bound(6, 5, 1e-6)
