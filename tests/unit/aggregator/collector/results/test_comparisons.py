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


def test_ratios_are_compared_by_the_law_of_both_noises_together() -> None:
    first = ratio(MONDAY, 10 * TUESDAY, label="first")
    second = ratio(FRIDAY, 10 * released(90, "other"), label="second")
    found = compare(first, second)
    assert found.estimate == Fraction(30, 700) - Fraction(45, 900)
    assert found.interval.method.startswith("exact law of both noises")
    assert found.interval.confidence == first.interval().confidence  # what was asked for
    both = joint_intervals([first, second])
    assert found.interval.low > both[0].low - both[1].high
    assert found.interval.high < both[0].high - both[1].low


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ((150, 480, 120, 490), 10),
        ((60, 200, 50, 210), 4),
        ((40, 400, 60, 500), 2),
        ((600, 2000, 500, 2100), 4),
        ((6000, 20000, 5000, 21000), 4),
        ((8 * 400, 400, 10 * 410, 410), 2),
        ((500, 1000, 3, 50), 1),
    ],
)
def test_a_difference_of_ratios_is_hardly_wider_than_what_is_linear_in_the_noise(
    values: tuple[int, int, int, int], scale: int
) -> None:
    law = DiscreteLaplaceLaw(2, Fraction(scale))
    a, b, c, d = (Noised.released(each, law, place) for place, each in enumerate(values))
    found = compare(ratio(a, b), ratio(c, d)).interval
    one, two = values[1], values[3]
    linear = a / one - b * Fraction(values[0], one**2) - c / two + d * Fraction(values[2], two**2)
    least = 2 * linear.law.width(Fraction(95, 100)).size
    assert least <= found.high - found.low < least * Fraction(11, 10)
    turned = compare(ratio(c, d), ratio(a, b)).interval
    assert (turned.low, turned.high) == (-found.high, -found.low)


def test_two_shares_of_one_whole_are_compared_as_one_ratio() -> None:
    first, second, whole = (released(value, str(value)) for value in (90, 60, 400))
    shares = [ratio(each, whole, least=0, most=1) for each in (first, second)]
    found = compare(*shares).interval
    expected = ratio(first - second, whole).interval()
    assert (found.low, found.high) == (expected.low, expected.high)
    again = ratio(second, released(400, "400"))  # the same draw, made anew
    assert compare(shares[0], again).interval == expected


def test_a_difference_of_limited_ratios_is_within_the_limits_of_both() -> None:
    few, many = released(3, "few"), released(6, "of few")
    one = ratio(few, many, least=0, most=20)
    assert (one.interval().low, one.interval().high) == (0, 20)
    assert one.interval().method.startswith("nothing is learned")
    found = compare(one, ratio(released(4, "c"), released(5, "d"), least=0, most=20)).interval
    assert (found.low, found.high) == (-20, 20)


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


def test_variances_are_compared_at_each_pair_of_possible_means() -> None:
    law, wide = DiscreteLaplaceLaw(2, Fraction(300)), DiscreteLaplaceLaw(2, Fraction(30_000))
    one, two = (
        Variance(
            Noised.released(250_000 + more, law, f"sum {more}"),
            Noised.released(16_000_000 + 60 * more, wide, f"squares {more}"),
            5_000,
            least=0,
            most=100,
        )
        for more in (0, 100)
    )
    found = compare(one, two).interval
    both = joint_intervals([one, two])
    assert 0 in found
    assert found.high - found.low < sum(each.high - each.low for each in both) * Fraction(7, 10)


def test_nothing_is_concluded_of_a_ratio_without_bounds() -> None:
    nothing = ratio(MONDAY, released(0, "none"), label="a ratio")
    found = compare(nothing, nothing)
    assert found.is_larger is None
    assert found.cannot_be_concluded.startswith("Nothing can be concluded")
