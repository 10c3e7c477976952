"""What a comparison says can be concluded, and what it says cannot."""

from fractions import Fraction

import pytest

from aggregator.collector.results import Noised, compare, compare_all, ratio
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
    apart = first.interval().low - second.interval().high
    assert found.interval.low < apart


def test_nothing_is_concluded_of_a_ratio_without_bounds() -> None:
    nothing = ratio(MONDAY, released(0, "none"), label="a ratio")
    found = compare(nothing, nothing)
    assert found.is_larger is None
    assert found.cannot_be_concluded.startswith("Nothing can be concluded")
