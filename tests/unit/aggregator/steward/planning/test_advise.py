"""Advice: the smallest epsilon that keeps the error, and what is said about it."""

import math
from fractions import Fraction

import pytest

from aggregator.dp.certified import to_float
from aggregator.dp.composition import Releases
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.dp.policy_table import policy_to_mapping
from aggregator.dp.sensitivity import max_entry
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.dp.zcdp import implied_epsilon
from aggregator.protocol.budget import horizon
from aggregator.steward.planning.advise import EMPTY_BUCKET_CHANCE, advise
from aggregator.steward.planning.question import Question
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sum,
    SumVec,
)
from aggregator.vdaf.instances import TYPES
from tests.support.tasks import make_task


@pytest.mark.parametrize("error", ["3", "12", "100"])
@pytest.mark.parametrize("buckets", [1, 2, 9])
def test_the_epsilon_is_the_smallest_of_two_digits_that_keeps_the_error(
    error: str, buckets: int
) -> None:
    advice = advise(Question.of(5000, buckets, error=error))
    assert advice.half_width <= int(error)
    digits = advice.epsilon
    while digits < 10:
        digits *= 10
    next_smaller = advice.epsilon * (digits - 1) / digits if digits > 10 else None
    if next_smaller is not None:
        weaker = PureDpDiscreteLaplace(next_smaller)
        assert weaker.half_width(advice.circuit, DEFAULT_CONFIDENCE) > int(error)


def test_two_buckets_are_a_count_with_half_the_scale() -> None:
    two = advise(Question.of(1000, 2, epsilon="1/2"))
    three = advise(Question.of(1000, 3, epsilon="1/2"))
    assert isinstance(two.circuit, Count)
    assert isinstance(three.circuit, Histogram)
    assert two.policy.mechanism.scale(two.circuit) * 2 == three.policy.mechanism.scale(
        three.circuit
    )
    assert any("Prio3Count" in warning for warning in two.warnings)


def test_the_threshold_is_the_least_that_hides_all_empty_buckets() -> None:
    advice = advise(Question.of(100_000, 256, epsilon=1, delta="1e-5"))
    assert advice.threshold is not None
    assert advice.threshold.threshold == 42
    assert advice.threshold.truncated_threshold == 44
    law = DiscreteLaplaceLaw(2, Fraction(2))
    assert 256 * to_float(law.upper_tail(43)) <= EMPTY_BUCKET_CHANCE
    assert 256 * to_float(law.upper_tail(42)) > EMPTY_BUCKET_CHANCE


def test_the_yearly_total_adds_up_and_the_best_bound_is_below_it() -> None:
    advice = advise(Question.of(1000, 4, epsilon="1/10", releases=52))
    assert advice.yearly_epsilon == advice.policy.budget == Fraction(52, 10)
    assert advice.yearly_bound.epsilon < advice.yearly_epsilon
    assert "5.2 in a year, or " in advice.sentences[2]


def test_a_person_with_several_reports_needs_as_much_more_noise() -> None:
    one = advise(Question.of(1000, 4, epsilon=1))
    five = advise(Question.of(1000, 4, epsilon=1, max_reports_per_person=5))
    assert five.policy.mechanism.scale(five.circuit) == 5 * one.policy.mechanism.scale(one.circuit)
    assert "more than 5 reports" in five.sentences[2]


def test_a_steward_is_told_what_to_consider_first() -> None:
    advice = advise(Question.of(500, 100, epsilon=4, releases=365))
    text = " ".join(advice.warnings)
    assert "weak promise" in text
    assert "yearly total" in text
    assert "would hide an average bucket" in text
    noisy = advise(Question.of(500, 100, epsilon="1/10"))
    assert "as large as an average bucket" in " ".join(noisy.warnings)


def test_an_error_in_percent_is_relative_to_the_reports() -> None:
    assert Question.of(2000, 3, error="5 %").error == 100


def test_a_stated_maximum_is_rounded_up() -> None:
    """e^0.16 is 1.1735; the optimal bound of 365 releases of 1/3 is 30.6187."""
    promise, _, _ = advise(Question.of(1800, 6, epsilon="0.16")).sentences
    assert "a factor of at most 1.18 " in promise
    _, _, cost = advise(Question.of(500, 4, epsilon="1/3", releases=365)).sentences
    assert "or 30.7 but for a delta of 0.000001, since no aggregator" in cost


def test_a_tiny_epsilon_is_never_said_to_be_smaller_than_it_is() -> None:
    found = advise(Question.of(100, 2, epsilon="0.000012344", releases=1))
    assert "spends at most epsilon = 0.0000124 in a year" in found.sentences[2]


def test_the_board_is_told_who_can_make_the_noise_smaller_and_by_how_much() -> None:
    advice = advise(Question.of(1800, 6, error="3%", releases=4))
    _, accuracy, _ = advice.sentences
    assert "the mean of several releases of answers that do not change has less noise" in accuracy
    assert "its own half of the noise's variance" in accuracy
    mechanism = advice.policy.mechanism
    assert 2 * mechanism.variance(advice.circuit, 1) == mechanism.variance(advice.circuit, 2)


@pytest.mark.parametrize(
    ("mechanism", "circuit"),
    [
        ("PureDpDiscreteLaplace", L1BoundSum(10, 4, 3)),
        ("PureDpDiscreteLaplace", Sum(100)),
        ("DiscreteGaussian", SumVec(10, 7, 3)),
        ("DiscreteGaussian", MultihotCountVec(10, 3, 3)),
        ("DiscreteGaussian", Count()),
        ("TruncatedGeometric", Histogram(9, 3)),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_any_mechanism_is_advised_at_its_least_strength_and_for_the_years_releases(
    mechanism: str, circuit: Circuit
) -> None:
    """The aggregators refuse a thirteenth release, whose cost no sentence counts."""
    question = Question.of(
        5000, circuit, error="3%", mechanism=mechanism, max_reports_per_person=2, delta="1e-7"
    )
    advice = advise(question)
    assert question.error is not None
    assert advice.half_width <= question.error == Fraction(150 * max_entry(circuit))
    noise = advice.policy.mechanism
    assert (noise.name, noise.max_reports_per_person) == (mechanism, 2)
    strength = noise.parameters()[noise.parameter_names[0]]
    digits = strength
    while digits < 10:
        digits *= 10
    if digits > 10:
        weaker = question.noise(strength * (digits - 1) / digits)
        assert weaker.half_width(circuit, DEFAULT_CONFIDENCE) > question.error
    cost = noise.cost(circuit, 12)
    assert cost is not None
    assert cost.delta <= Fraction("1e-7")
    row = next(row for row in TYPES.values() if row.name == f"Prio3{circuit.name}")
    task = make_task({"type": row.name, **circuit.parameters}, policy_to_mapping(advice.policy))
    assert horizon(task) == 12


def test_a_promise_with_a_delta_says_so_in_every_sentence_that_needs_it() -> None:
    noisy = Question.of(5000, 9, error="3%", mechanism="TruncatedGeometric")
    promise, _, cost = advise(noisy).sentences
    assert "and delta = 1/12000000: " in promise
    assert promise.endswith("but for a chance of 1/12000000 about which nothing is promised.")
    assert " but for a delta of 9.75e-7 in a year" in cost
    gaussian = Question.of(5000, 9, rho="1/100", mechanism="DiscreteGaussian")
    released = Releases(gaussian.noise(Fraction(1, 100)), gaussian.circuit, 12)
    together = released.epsilon_at(Fraction("1e-6"))
    assert together is not None
    assert together < implied_epsilon(12 * Fraction(1, 100), Fraction("1e-6"))
    said = f"epsilon = {math.ceil(100 * together) / 100} but for a delta of 0.000001, since"
    assert said in advise(gaussian).sentences[2]


def test_a_relative_error_of_sums_is_relative_to_the_largest_sum() -> None:
    assert Question.of(200, Sum(50), error="5%").error == 500
    _, accuracy, _ = advise(Question.of(200, Sum(50), error="5%")).sentences
    assert "% of the largest sum of 200 reports" in accuracy
