import dataclasses
from fractions import Fraction

import pytest

from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import Mechanism, PolicyParameters
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.policy import MECHANISMS
from aggregator.dp.rationals import format_rational
from aggregator.dp.sensitivity import UnsupportedCircuit
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit, Count, Histogram, MultihotCountVec, Sum, SumVec
from tests.support.entropy import NoEntropy, SeededEntropy
from tests.support.mechanisms import noisy_examples

HISTOGRAM = Histogram(8, 3)
HALF = Fraction(1, 2)
NOISY = noisy_examples(epsilon=HALF, rho=HALF, delta=Fraction(1, 10**5))


@pytest.mark.parametrize(
    ("circuit", "scale"),
    [
        (Count(), Fraction(2)),
        (Sum(7), Fraction(14)),
        (SumVec(3, 255, 9), Fraction(2 * 3 * 255)),
        (HISTOGRAM, Fraction(4)),
        (MultihotCountVec(10, 3, 4), Fraction(12)),
        (Histogram(1, 1), Fraction(0)),
    ],
    ids=repr,
)
def test_the_scale_of_discrete_laplace_is_the_sensitivity_over_epsilon(
    circuit: Circuit, scale: Fraction
) -> None:
    assert PureDpDiscreteLaplace(HALF).scale(circuit) == scale
    assert PureDpDiscreteLaplace(HALF, max_reports_per_person=3).scale(circuit) == 3 * scale


def test_the_variance_of_the_gaussian_grows_with_the_square_of_a_persons_reports() -> None:
    assert DiscreteGaussian(HALF).scale(HISTOGRAM) == 2
    assert DiscreteGaussian(HALF, max_reports_per_person=3).scale(HISTOGRAM) == 18
    assert DiscreteGaussian(Fraction(1, 8)).scale(SumVec(2, 3, 1)) == 4 * 2 * 9


def test_truncated_noise_for_several_reports_a_person_is_recomputed_not_stretched() -> None:
    delta = Fraction(1, 10**5)
    assert TruncatedGeometric(Fraction(1), delta).bound(HISTOGRAM) == 22
    assert TruncatedGeometric(Fraction(1), delta, max_reports_per_person=10).bound(HISTOGRAM) == 222


@pytest.mark.parametrize("circuit", [Count(), Sum(3), MultihotCountVec(4, 2, 2)], ids=repr)
def test_truncated_noise_is_for_histograms(circuit: Circuit) -> None:
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 10))
    for ask in (mechanism.scale, mechanism.guarantee, mechanism.bound):
        with pytest.raises(UnsupportedCircuit, match="is for Prio3Histogram, not Prio3"):
            ask(circuit)


@pytest.mark.parametrize("mechanism", NOISY, ids=lambda m: m.name)
def test_each_coordinate_gets_a_draw_of_its_own(mechanism: Mechanism) -> None:
    noise = mechanism.noise(HISTOGRAM, SeededEntropy(1))
    assert len(noise) == 8
    assert all(type(draw) is int for draw in noise)
    assert len(set(noise)) > 1


@pytest.mark.parametrize("mechanism", NOISY, ids=lambda m: m.name)
def test_where_there_is_nothing_to_protect_nothing_is_drawn(mechanism: Mechanism) -> None:
    one_bucket = Histogram(1, 1)
    assert mechanism.noise(one_bucket, NoEntropy()) == [0]
    assert mechanism.guarantee(one_bucket).epsilon == 0
    assert mechanism.half_width(one_bucket, Fraction(95, 100)) == 0
    assert mechanism.tail_bound(one_bucket) == 0
    assert mechanism.variance(one_bucket) == 0


@pytest.mark.parametrize("mechanism", NOISY, ids=lambda m: m.name)
def test_a_guarantee_says_who_must_be_honest_and_between_which_neighbours(
    mechanism: Mechanism,
) -> None:
    guarantee = mechanism.guarantee(HISTOGRAM)
    assert guarantee.neighbours == "replacement"
    assert "at least one of the two aggregators is honest" in guarantee.statement
    assert "one report in the batch" in guarantee.statement


def test_guarantees_carry_their_exact_parameters() -> None:
    laplace = PureDpDiscreteLaplace(HALF).guarantee(HISTOGRAM)
    truncated = TruncatedGeometric(Fraction(1), Fraction(1, 10**5)).guarantee(HISTOGRAM)
    gaussian = DiscreteGaussian(HALF).guarantee(HISTOGRAM)
    assert (laplace.epsilon, laplace.delta, laplace.rho) == (HALF, 0, None)
    assert (truncated.epsilon, truncated.delta) == (1, Fraction(1, 10**5))
    assert (gaussian.rho, gaussian.delta) == (HALF, Fraction(1, 10**9))
    assert gaussian.epsilon is not None
    assert 6 < gaussian.epsilon < HALF + 2 * (HALF * 21) ** Fraction(1, 2)


def test_no_privacy_has_no_noise_no_interval_and_no_guarantee() -> None:
    mechanism = NoPrivacy()
    assert mechanism.name == "None"
    assert not mechanism.is_noisy
    assert mechanism.noise(HISTOGRAM, NoEntropy()) == [0] * 8
    assert mechanism.guarantee(HISTOGRAM).epsilon is None
    assert "no differential privacy" in mechanism.guarantee(HISTOGRAM).statement
    assert mechanism.joint_half_width(HISTOGRAM, Fraction(95, 100)) == 0


def test_the_joint_interval_is_wider_and_that_of_one_aggregator_narrower() -> None:
    for mechanism in NOISY:
        confidence = Fraction(95, 100)
        single = mechanism.half_width(HISTOGRAM, confidence)
        assert mechanism.joint_half_width(HISTOGRAM, confidence) > single
        assert mechanism.half_width(HISTOGRAM, confidence, aggregators=1) < single
        assert mechanism.tail_bound(HISTOGRAM, 2) > mechanism.joint_half_width(
            HISTOGRAM, confidence
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda: PureDpDiscreteLaplace(Fraction(0)),
        lambda: PureDpDiscreteLaplace(0.5),
        lambda: TruncatedGeometric(Fraction(1), Fraction(1)),
        lambda: TruncatedGeometric(Fraction(1), Fraction(0)),
        lambda: DiscreteGaussian(Fraction(-1)),
        lambda: NoPrivacy(max_reports_per_person=0),
    ],
    ids=["epsilon 0", "epsilon a float", "delta 1", "delta 0", "rho negative", "no reports"],
)
def test_parameters_out_of_range_are_refused(make: object) -> None:
    with pytest.raises(ParameterError, match="must be"):
        make()


@pytest.mark.parametrize("mechanism", NOISY, ids=lambda m: m.name)
def test_one_release_costs_what_it_promises_and_no_more(mechanism: Mechanism) -> None:
    promised, cost = mechanism.guarantee(HISTOGRAM), mechanism.cost(HISTOGRAM, 1)
    assert promised.delta is not None
    assert cost is not None
    # Gaussian noise has an epsilon at every delta and none of its own, so its rho adds up.
    assert cost.epsilon == (None if promised.rho else promised.epsilon)
    assert cost.rho == promised.rho or promised.rho is None
    assert cost.delta <= promised.delta


def test_the_mechanisms_of_these_tests_are_all_that_a_policy_can_name() -> None:
    assert {type(mechanism) for mechanism in [*NOISY, NoPrivacy()]} == {*MECHANISMS.values()}


@pytest.mark.parametrize("reports", [1, 3])
@pytest.mark.parametrize("mechanism", NOISY, ids=lambda m: m.name)
def test_the_pieces_of_a_release_cost_together_what_it_costs(
    mechanism: Mechanism, reports: int
) -> None:
    mechanism = dataclasses.replace(mechanism, max_reports_per_person=reports)
    pieces, cost = mechanism.pieces(HISTOGRAM), mechanism.cost(HISTOGRAM, 1)
    assert cost is not None
    if pieces is None:
        assert cost.epsilon is None
        assert cost.rho > 0
    else:
        assert pieces.count * pieces.epsilon == cost.epsilon
        assert 1 - (1 - pieces.delta) ** pieces.count <= cost.delta


@pytest.mark.parametrize("mechanism", NOISY, ids=lambda m: m.name)
def test_several_releases_cost_at_most_the_sum_of_their_costs_and_no_less_than_one(
    mechanism: Mechanism,
) -> None:
    one = mechanism.cost(HISTOGRAM, 1)
    assert one is not None
    for releases in (2, 10):
        cost = mechanism.cost(HISTOGRAM, releases)
        assert cost is not None
        if one.epsilon is None:
            assert cost.epsilon is None
        else:
            assert cost.epsilon is not None
            assert one.epsilon < cost.epsilon <= releases * one.epsilon
        assert one.delta <= cost.delta <= releases * one.delta
        assert one.rho < cost.rho <= releases * one.rho


@pytest.mark.parametrize("mechanism", [*NOISY, NoPrivacy()], ids=lambda m: m.name)
def test_parameters_make_the_same_mechanism_again(mechanism: Mechanism) -> None:
    text = {name: format_rational(value) for name, value in mechanism.parameters().items()}
    parameters = PolicyParameters(mechanism.name, text)
    assert type(mechanism).of(parameters, mechanism.max_reports_per_person) == mechanism
    parameters.finish()
    assert mechanism.parameters().keys() == set(mechanism.parameter_names)


@pytest.mark.parametrize("mechanism", [*NOISY, NoPrivacy()], ids=lambda m: m.name)
def test_neither_a_draw_nor_the_tail_exceeds_the_bound(mechanism: Mechanism) -> None:
    bound, tail = mechanism.bound(HISTOGRAM), mechanism.tail_bound(HISTOGRAM)
    draws = [abs(x) for seed in range(50) for x in mechanism.noise(HISTOGRAM, SeededEntropy(seed))]
    assert max(draws) <= tail
    if bound is not None:
        assert max(draws) <= bound
        assert tail <= bound
