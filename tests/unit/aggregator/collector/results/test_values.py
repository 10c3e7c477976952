"""Arithmetic of noised values: what noise is in a result, and how far it reaches."""

from decimal import Decimal
from fractions import Fraction

import pytest

from aggregator.collector.results import (
    ConfidenceInterval,
    Noised,
    joint_intervals,
    mean,
    ratio,
    total,
)
from aggregator.collector.results.values import Quantity
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.errors import ParameterError
from tests.support.numbers import coverage

LAW = DiscreteLaplaceLaw(2, Fraction(4))


def released(value: int, key: str, label: str = "", unit: str = "") -> Noised:
    return Noised.released(value, LAW, key, label=label, unit=unit)


def half_width(value: Quantity) -> Fraction | float:
    interval = value.interval()
    return (interval.high - interval.low) / 2


def test_three_batches_are_28_off_by_the_law_not_27_by_variances_nor_48_by_adding() -> None:
    three = total([released(100, "Monday"), released(90, "Tuesday"), released(80, "Friday")])
    widths = three.widths()
    assert (widths.shown, round(widths.by_variances), widths.by_adding) == (28, 27, 48)
    assert three.interval() == ConfidenceInterval(
        Fraction(242), Fraction(298), Fraction(95, 100), "exact law"
    )
    assert "± 28 by the exact law" in str(widths)


def test_a_value_less_itself_has_no_noise() -> None:
    monday, tuesday = released(100, "Monday"), released(90, "Tuesday")
    assert half_width(monday - monday) == 0
    assert half_width((monday + tuesday) - monday) == half_width(tuesday)
    assert (monday + monday).interval() == (2 * monday).interval()


def test_equal_numbers_of_different_releases_do_not_cancel() -> None:
    difference = released(100, "Monday") - released(100, "Tuesday")
    assert difference.value == 0
    assert half_width(difference) == 23


def test_exact_numbers_shift_and_scale_without_noise_of_their_own() -> None:
    value = released(100, "Monday", "waits", "min")
    assert half_width(value / 8) == 2
    assert (1000 - value).value == 900
    assert half_width(1000 - value) == half_width(value + Decimal("0.5")) == half_width(value)
    assert (value * Fraction(1, 3)).value == Fraction(100, 3)
    assert half_width(Noised.exact(5)) == 0
    assert mean(value, 40).value == Fraction(5, 2)
    assert (mean(value, 40).label, mean(value, 40).unit) == ("waits", "min")


@pytest.mark.parametrize("number", [0.5, True, "1", None, Decimal("NaN")])
def test_inexact_numbers_are_refused(number: object) -> None:
    with pytest.raises(ParameterError, match="calculated with exactly"):
        released(1, "Monday") * number  # type: ignore[operator]  # what a notebook may do
    with pytest.raises(ParameterError, match="use `ratio`"):
        released(1, "Monday") / released(2, "Tuesday")  # type: ignore[operator]  # as above


def test_values_of_independent_noise_are_joined_by_the_exact_maximum() -> None:
    values = [released(100, str(index)) for index in range(40)]
    width = int(joint_intervals(values)[0].high) - 100
    assert coverage(LAW, width) ** 40 >= 0.95 > coverage(LAW, width - 1) ** 40
    assert "exact maximum" in joint_intervals(values)[0].method
    assert joint_intervals(values)[0].jointly == 40


def test_values_with_noise_in_common_are_joined_by_the_union_bound() -> None:
    monday, tuesday = released(100, "Monday"), released(90, "Tuesday")
    intervals = joint_intervals([monday, monday + tuesday])
    assert intervals[0].high == monday.interval(Fraction(975, 1000)).high
    assert "Bonferroni over 2" in intervals[0].method
    assert joint_intervals([monday]) == [monday.interval()]


def test_joint_intervals_of_nothing_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least one value"):
        joint_intervals([])


def test_joint_confidence_is_rounded_up_also_very_near_one() -> None:
    confidence = 1 - Fraction(1, 10**60)
    values = [released(100, "Monday"), released(90, "Tuesday")]
    joint = joint_intervals(values, confidence)[0]
    assert values[0].interval(confidence).high < joint.high
    assert joint.high <= values[0].interval(1 - Fraction(1, 3 * 10**60)).high


def test_limits_that_hold_for_certain_cut_an_interval() -> None:
    interval = released(5, "Monday").interval()
    assert (interval.low, interval.within(0, 1000).low) == (-11, 0)
    missed = released(-40, "Monday").interval().within(0, 1000)
    assert (missed.low, missed.high) == (0, 0)
    assert 5 in interval
    assert 22 not in interval


def test_a_value_shows_its_label_and_interval_and_not_its_terms() -> None:
    value = released(30, "Monday", "poor", "answers")
    assert repr(value) == "poor: 30 answers, from 14 to 46 at 95 % confidence (exact law)"
    nothing = ratio(released(30, "Monday"), Noised.exact(0))
    assert repr(nothing).startswith("value: no estimate, from -inf to inf at 95 % confidence")
