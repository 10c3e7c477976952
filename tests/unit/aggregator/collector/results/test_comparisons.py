"""What a comparison says can be concluded, and what it says cannot."""

from fractions import Fraction

import pytest

from aggregator.collector.results import (
    Noised,
    Quantile,
    Variance,
    compare,
    compare_all,
    joint_intervals,
    median,
    ratio,
)
from aggregator.collector.results.comparisons import ONLY_NOISE
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.errors import ParameterError

LAW = DiscreteLaplaceLaw(2, Fraction(4))


def released(value: int, label: str) -> Noised:
    return Noised.released(value, LAW, label, label=label, unit="answers")


MONDAY, TUESDAY, FRIDAY = released(30, "Monday"), released(70, "Tuesday"), released(45, "Friday")


def test_a_difference_beyond_the_noise_of_both_is_concluded_with_its_bounds() -> None:
    found = compare(MONDAY, TUESDAY)
    assert (found.interval.low, found.interval.high, found.estimate) == (-63, -17, -40)
    assert found.is_larger is False
    assert found.can_be_concluded == (
        "Tuesday is larger than Monday, by 17 answers to 63 answers, at 95 % confidence."
    )
    assert found.cannot_be_concluded == ONLY_NOISE
    assert compare(TUESDAY, MONDAY).is_larger is True
    assert compare(TUESDAY, MONDAY).can_be_concluded == found.can_be_concluded


def test_of_a_difference_within_the_noise_neither_order_nor_equality_is_concluded() -> None:
    found = compare(MONDAY, FRIDAY)
    assert found.is_larger is None
    assert found.can_be_concluded == (
        "Monday less Friday is from -38 answers to 8 answers, at 95 % confidence."
    )
    assert "cannot be concluded, nor that they are equal" in str(found)
    assert "may differ by as much as 38 answers" in str(found)


def test_several_comparisons_hold_at_once_and_say_so() -> None:
    pair = compare_all([(MONDAY, TUESDAY), (MONDAY, FRIDAY)])
    assert pair[0].interval.low < compare(MONDAY, TUESDAY).interval.low
    assert "for all 2 comparisons at once" in pair[0].can_be_concluded
    with pytest.raises(ParameterError, match="at least one"):
        compare_all([])


def test_a_value_compared_with_a_part_of_itself_has_the_noise_of_the_rest_only() -> None:
    both = (MONDAY + TUESDAY).named("both")
    assert compare(both, MONDAY).interval == TUESDAY.interval()


def test_ratios_are_compared_by_their_joint_intervals() -> None:
    first = ratio(MONDAY, 10 * TUESDAY, label="first")
    second = ratio(FRIDAY, 10 * released(90, "other"), label="second")
    found = compare(first, second)
    assert found.estimate == Fraction(30, 700) - Fraction(45, 900)
    assert found.interval.method.startswith("both at once")
    assert found.interval.confidence == first.interval().confidence  # what was asked for
    apart = first.interval().low - second.interval().high
    assert found.interval.low < apart


def test_ratios_of_large_groups_are_compared_by_the_exact_law_of_what_is_linear() -> None:
    groups = [released(value, str(value)) for value in (2_000, 20_000, 3_000, 25_000)]
    first, second = ratio(groups[0], groups[1]), ratio(groups[2], groups[3])
    found = compare(first, second).interval
    apart = [each.interval() for each in (first, second)]
    assert found.method.startswith("exact law of the linear part")
    assert found.high - found.low < sum(each.high - each.low for each in apart) * Fraction(8, 10)
    assert -found.low in compare(second, first).interval


def test_shares_of_one_whole_are_compared_with_its_noise_once() -> None:
    first, second, whole = (released(value, str(value)) for value in (9_000, 9_100, 30_000))
    other = released(30_001, "another whole")
    same = compare(ratio(first, whole), ratio(second, whole)).interval
    apart = compare(ratio(first, whole), ratio(second, other)).interval
    assert same.high - same.low < apart.high - apart.low


def test_medians_of_independent_bins_are_compared_in_pairs() -> None:
    groups = [
        median([released(12, f"{group} {place}") for place in range(40)], range(41))
        for group in "ab"
    ]
    found = compare(groups[0], groups[1]).interval
    corner = joint_intervals(groups)
    assert found.method.startswith("whole bins, each pair")
    assert found.low == -found.high  # the groups are alike
    assert found.high - found.low < sum(each.high - each.low for each in corner) * Fraction(9, 10)
    quartile = Quantile(groups[0].bins, groups[0].edges, Fraction(1, 4))
    with_itself = compare(groups[0], quartile).interval  # of one release: they have its noise
    assert with_itself.method.startswith("both at once")


def test_a_difference_of_variances_lies_within_what_both_can_be() -> None:
    few = [
        Variance(released(6, f"sum {key}"), released(20, f"squares {key}"), 3, least=0, most=5)
        for key in "ab"
    ]
    found = compare(*few).interval
    assert (found.low, found.high) == (-Fraction(25, 4), Fraction(25, 4))


def test_nothing_is_concluded_of_a_ratio_without_bounds() -> None:
    nothing = ratio(MONDAY, released(0, "none"), label="a ratio")
    found = compare(nothing, nothing)
    assert found.is_larger is None
    assert found.cannot_be_concluded.startswith("Nothing can be concluded")
