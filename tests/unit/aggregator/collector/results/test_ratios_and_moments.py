"""Intervals of what is not linear in the noise: ratios and variances."""

from fractions import Fraction

import pytest

from aggregator.collector.results import Noised, Variance, joint_intervals, mean, ratio
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.errors import ParameterError

LAW = DiscreteLaplaceLaw(2, Fraction(4))


def released(value: int, key: str, scale: int = 4) -> Noised:
    return Noised.released(value, DiscreteLaplaceLaw(2, Fraction(scale)), key)


@pytest.mark.slow
def test_a_ratio_keeps_no_truth_that_the_noise_rules_out_and_all_others() -> None:
    over, under = released(300, "over"), released(1000, "under")
    interval = ratio(over, under).interval()
    for step in range(270, 331):
        truth = Fraction(step, 1000)
        noise = over - truth * under
        # What the denominator's noise is allowed for costs less than a hundredth of the width.
        width = noise.law.width(Fraction(95, 100)).size
        if abs(noise.value) <= width:
            assert truth in interval
        if abs(noise.value) > width * Fraction(104, 100):
            assert truth not in interval


def test_a_ratio_to_itself_is_one_and_to_an_exact_number_a_multiple() -> None:
    value = released(300, "a")
    assert ratio(value, value).interval().low == ratio(value, value).interval().high == 1
    exact = ratio(value, Noised.exact(10))
    assert exact.interval() == (value / 10).interval()


def test_noise_that_both_have_in_common_makes_a_share_narrower() -> None:
    poor, rest, other = released(300, "poor"), released(700, "rest"), released(1000, "other", 5)
    share, apart = ratio(poor, poor + rest).interval(), ratio(poor, other).interval()
    assert share.high - share.low < apart.high - apart.low


def test_signs_are_kept_on_both_sides() -> None:
    over, under = released(300, "over"), released(1000, "under")
    plain = ratio(over, under).interval()
    assert ratio(-over, -under).interval() == plain
    turned = ratio(over, -under).interval()
    assert (turned.low, turned.high) == (-plain.high, -plain.low)


def test_a_denominator_that_may_be_zero_leaves_no_bounds() -> None:
    interval = ratio(released(300, "over"), released(15, "under")).interval()
    assert not interval.is_bounded
    assert 10**9 in interval
    assert "may be zero" in interval.method
    nothing = ratio(released(300, "over"), Noised.exact(0))
    assert nothing.estimate is None
    assert not nothing.interval().is_bounded


def test_a_ratio_is_narrower_than_its_corners() -> None:
    over, under = released(300, "over"), released(1000, "under")
    first, second = joint_intervals([over, under])
    corners = first.high / second.low - first.low / second.high
    interval = ratio(over, under).interval()
    assert interval.high - interval.low < corners


def test_a_variance_without_noise_is_exact() -> None:
    answers = [1, 2, 2, 7]
    found = Variance(
        Noised.exact(sum(answers)), Noised.exact(sum(each**2 for each in answers)), len(answers)
    )
    average = Fraction(sum(answers), len(answers))
    expected = sum((each - average) ** 2 for each in answers) / len(answers)
    assert found.estimate == found.interval().low == found.interval().high == expected


def test_a_variance_is_as_wide_as_its_noise_at_the_true_mean_when_reports_are_many() -> None:
    plain = Noised.released(30_000_000, DiscreteLaplaceLaw(2, Fraction(240)), "sum")
    squares = Noised.released(1_200_000_000, DiscreteLaplaceLaw(2, Fraction(57_600)), "squares")
    interval = Variance(plain, squares, 1_000_000).interval()
    width = (squares - 60 * plain).law.width(Fraction(95, 100)).size / 1_000_000
    assert width <= (interval.high - interval.low) / 2 <= width * Fraction(103, 100)


@pytest.mark.slow
@pytest.mark.parametrize(("over", "under"), [(3, 12), (5, 14), (-3, 14)])
def test_a_ratio_has_the_bounds_of_fieller_where_it_had_none(over: int, under: int) -> None:
    law = DiscreteLaplaceLaw(2, Fraction(2))
    first, second = (Noised.released(each, law, each) for each in (over, under))
    interval = ratio(first, second).interval()
    for step in range(-400, 401):
        truth = Fraction(step, 100)
        noise = first - truth * second
        if abs(noise.value) <= noise.law.width(Fraction(95, 100)).size:
            assert truth in interval
    assert interval.low > -Fraction(11, 10)
    assert interval.high < Fraction(16, 10)
    usual = second.law.width(Fraction(95, 100)).size
    none = ratio(first, Noised.released(int(usual) - 1, law, "near zero")).interval()
    assert not none.is_bounded


def test_a_variance_of_few_stays_within_its_range() -> None:
    # Numbers from 0 to 5 have no variance above 25/4; of noise alone it would be beyond 100.
    sums = released(900, "sum"), released(8, "squares", 40)
    assert Variance(*sums, 3, least=0, most=5).interval().high <= Fraction(25, 4)
    few = Variance(released(6, "sum"), released(20, "squares", 40), 3, least=0, most=5)
    assert few.interval().high <= Fraction(25, 4)
    assert few.estimate <= Fraction(25, 4)
    # All reports are 5: only near that mean a variance is small.
    all_five = Variance(Noised.exact(15), released(75, "squares"), 3, least=0, most=5)
    assert all_five.interval().high == 0
    with pytest.raises(ParameterError, match="least: 6 is above the most, 5"):
        Variance(*sums, 3, least=6, most=5)


def test_a_variance_is_never_negative() -> None:
    found = Variance(released(100, "sum"), released(80, "squares"), 10)
    assert found.estimate == 0
    assert found.interval().low == 0


def test_moments_of_no_reports_are_refused() -> None:
    with pytest.raises(ParameterError, match="report_count"):
        mean(released(1, "sum"), 0)
    with pytest.raises(ParameterError, match="report_count"):
        Variance(released(1, "sum"), released(1, "squares"), 0)
