"""Post-processing of noised results: what it makes of them, exactly."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.collector.results.post_processing import (
    Rule,
    post_process,
    project_on_simplex,
    round_to_sum,
)
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Count, Histogram, Sum, SumVec

small = st.lists(st.integers(-30, 30), min_size=1, max_size=6)


def distance(values: list[int], other: list[Fraction]) -> Fraction:
    return sum(((a - b) ** 2 for a, b in zip(values, other, strict=True)), Fraction(0))


def test_clamping_keeps_to_what_the_reports_can_sum_to() -> None:
    done = post_process(Rule.CLAMP, SumVec(3, 10, 2), [-3, 205, 80], 20)
    assert done.integers == (0, 200, 80)
    assert done.values == (0, 200, 80)
    assert post_process(Rule.CLAMP, Count(), [21], 20).integers == (20,)
    assert post_process(Rule.CLAMP, Sum(7), [141], 20).integers == (140,)


def test_a_withheld_value_stays_withheld() -> None:
    assert post_process(Rule.CLAMP, Histogram(3, 2), [None, 25, -1], 20).integers == (None, 20, 0)
    with pytest.raises(ParameterError, match="buckets are withheld"):
        post_process(Rule.SIMPLEX, Histogram(3, 2), [None, 15, 6], 20)


def test_only_a_histogram_is_projected() -> None:
    with pytest.raises(ParameterError, match="not Prio3SumVec's"):
        post_process(Rule.SIMPLEX, SumVec(3, 10, 2), [1, 2, 3], 20)


def test_a_histogram_is_projected_exactly_and_rounded_to_the_number_of_reports() -> None:
    done = post_process(Rule.SIMPLEX, Histogram(4, 2), [13, -3, 5, 4], 20)
    # Without the negative bucket 22 are 2 too many, which the other three share.
    third = Fraction(2, 3)
    assert done.values == (13 - third, 0, 5 - third, 4 - third)
    assert done.integers == (13, 0, 4, 3)  # the first of the equal remainders is rounded up


@pytest.mark.parametrize(
    ("values", "total", "expected"),
    [
        ([5, 5], 10, [5, 5]),
        ([0, 0, 0], 1, [Fraction(1, 3)] * 3),
        ([100, -100], 10, [10, 0]),
        ([-7], 4, [4]),
        ([3, 2, 1], 0, [0, 0, 0]),
    ],
)
def test_projections_by_hand(values: list[int], total: int, expected: list[Fraction]) -> None:
    assert project_on_simplex(values, total) == expected


@given(small, st.integers(0, 40))
def test_a_projection_is_feasible_and_no_other_point_is_nearer(
    values: list[int], total: int
) -> None:
    projected = project_on_simplex(values, total)
    assert sum(projected) == total
    assert min(projected) >= 0
    # For a convex set: the nearest point is the one with no acute angle to any vertex.
    for vertex in range(len(values)):
        towards = [Fraction(total if j == vertex else 0) - w for j, w in enumerate(projected)]
        away = [v - w for v, w in zip(values, projected, strict=True)]
        assert sum((a * b for a, b in zip(towards, away, strict=True)), Fraction(0)) <= 0


@given(small.filter(lambda values: len(values) <= 4), st.integers(0, 12))
def test_integers_are_the_nearest_with_the_same_sum(values: list[int], total: int) -> None:
    projected = project_on_simplex(values, total)
    rounded = round_to_sum(projected)
    assert sum(rounded) == total
    assert min(rounded) >= 0
    best = min(
        distance(list(candidate), projected)
        for candidate in itertools.product(range(total + 1), repeat=len(values))
        if sum(candidate) == total
    )
    assert distance(rounded, projected) == best


def test_a_projected_histogram_is_no_farther_from_the_truth() -> None:
    truth, noised = [14, 0, 3, 3], [11, -6, 4, 9]
    projected = project_on_simplex(noised, sum(truth))
    assert distance(truth, projected) < distance(truth, [Fraction(value) for value in noised])


def test_values_that_cannot_be_projected_or_rounded_are_refused() -> None:
    for values, total in (([], 1), ([1], -1)):
        with pytest.raises(ParameterError, match="project_on_simplex"):
            project_on_simplex(values, total)
    with pytest.raises(ParameterError, match="round_to_sum"):
        round_to_sum([Fraction(1, 2), Fraction(1, 3)])
