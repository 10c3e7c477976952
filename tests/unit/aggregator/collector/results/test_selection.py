"""Intervals after selection, by enumerating what could have been shown."""

from fractions import Fraction

import pytest

from aggregator.collector.results import Noised, Selected, after_selection
from aggregator.dp.certified import to_float
from aggregator.dp.gaussian_law import DiscreteGaussianLaw
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw, TruncatedGeometricLaw
from aggregator.errors import ParameterError

LAWS: list[NoiseLaw] = [
    DiscreteLaplaceLaw(1, Fraction(2)),
    DiscreteLaplaceLaw(2, Fraction(2)),
    TruncatedGeometricLaw(2, Fraction(2), 7),
    DiscreteGaussianLaw(2, Fraction(9)),
]
THRESHOLD = 14


def selected(value: int, law: NoiseLaw, threshold: int = THRESHOLD) -> Selected:
    return Selected(Noised.released(value, law, "bucket"), threshold, most=60)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_of_the_values_that_pass_enough_have_an_interval_that_holds(law: NoiseLaw) -> None:
    confidence = Fraction(9, 10)
    shown = range(THRESHOLD + 1, 95)
    intervals = {value: selected(value, law).interval(confidence) for value in shown}
    masses = {noise: to_float(law.probability(noise)) for noise in range(-95, 96)}
    for truth in (0, 3, 10, 14, 15, 20, 40):
        passing = {value: masses[value - truth] for value in shown}
        total = sum(passing.values())
        if total == 0:
            continue
        covered = sum(mass for value, mass in passing.items() if truth in intervals[value])
        assert covered / total >= 0.9 - 1e-9, truth
        if truth == 40:  # far above the threshold the law is that of the noise
            assert covered / total < 0.985


def test_the_usual_interval_does_not_hold_for_what_a_threshold_chose() -> None:
    law = LAWS[1]
    masses = {noise: to_float(law.probability(noise)) for noise in range(15, 60)}
    usual = Noised.released(0, law, "bucket").interval(Fraction(9, 10)).high
    # Of a truth of 0 only noise above the threshold is ever seen.
    covered = sum(mass for noise, mass in masses.items() if noise <= usual)
    assert covered / sum(masses.values()) < 0.5


def test_a_truth_that_could_not_have_passed_is_ruled_out() -> None:
    law = TruncatedGeometricLaw(2, Fraction(2), 7)
    assert selected(15, law).interval().low >= 1


def test_far_above_its_threshold_a_value_has_nearly_its_usual_interval() -> None:
    for law in LAWS:
        usual = Noised.released(40, law, "bucket").interval()
        interval = selected(40, law, 0).interval()
        assert abs(interval.low - usual.low) <= 1
        assert abs(interval.high - usual.high) <= 1


def test_an_interval_keeps_to_what_a_count_can_be() -> None:
    law = DiscreteLaplaceLaw(2, Fraction(30))
    interval = Selected(Noised.released(65, law, "bucket"), 50, most=60).interval()
    assert (interval.low, interval.high) == (0, 60)
    unlimited = Selected(Noised.released(65, law, "bucket"), 50).interval()
    assert unlimited.high > 65


def test_bonferroni_counts_all_that_could_have_been_shown() -> None:
    law = LAWS[1]
    values = [Noised.released(value, law, value) for value in (30, 20)]
    intervals = after_selection(values, 100)
    assert intervals[0].high == values[0].interval(1 - Fraction(5, 10_000)).high
    assert intervals[0].jointly == 100
    assert "Bonferroni over the 100" in intervals[0].method
    with pytest.raises(ParameterError, match="could_be_shown"):
        after_selection(values, 1)


def test_only_released_values_above_their_threshold_are_selected() -> None:
    one, two = (Noised.released(20, LAWS[0], key) for key in "ab")
    with pytest.raises(ParameterError, match="single released values"):
        Selected(one + two, 10)
    with pytest.raises(ParameterError, match="not above the threshold 20"):
        Selected(one, 20)
    wide = Noised.released(20, DiscreteGaussianLaw(2, Fraction(2**24)), "wide")
    found = Selected(wide, 10, most=90).interval()
    assert (found.low, found.high, found.method[:18]) == (0, 90, "nothing is learned")
