import sys
from fractions import Fraction

import pytest

from aggregator.dp import accounting, pld
from aggregator.dp.accounting import Pieces
from aggregator.dp.composition import Bound, Releases, basic, bounds, parts
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import BasicCost, Mechanism
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.sensitivity import is_worst_in_every_entry
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.zcdp import implied_epsilon, textbook_epsilon
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.planning import published_composition
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sum,
    SumVec,
)

DELTA = Fraction(1, 10**5)
HISTOGRAM = Histogram(8, 3)


HALF = PureDpDiscreteLaplace(Fraction(1, 2))


def of_one_task(
    mechanism: Mechanism,
    circuit: Circuit,
    count: int,
    delta: Fraction = DELTA,
    *,
    is_fixed: bool = False,
    with_pld: bool = False,
) -> dict[str, Bound]:
    made = [Releases(mechanism, circuit, count)]
    found = bounds(made, delta, is_fixed=is_fixed, with_pld=with_pld)
    assert [bound.epsilon for bound in found] == sorted(bound.epsilon for bound in found)
    assert all(bound.delta <= delta for bound in found)
    return {bound.name: bound for bound in found}


def test_without_a_fixed_horizon_the_optimal_bound_is_not_offered() -> None:
    mechanism = PureDpDiscreteLaplace(Fraction(1, 10))
    assert list(of_one_task(mechanism, HISTOGRAM, 100)) == ["zCDP", "advanced", "basic"]
    fixed = of_one_task(mechanism, HISTOGRAM, 100, is_fixed=True)
    assert next(iter(fixed)) == "optimal (KOV)"
    assert fixed["optimal (KOV)"].is_fixed


def test_one_release_costs_its_epsilon_by_the_basic_bound() -> None:
    name, bound = next(iter(of_one_task(HALF, HISTOGRAM, 1).items()))
    assert (name, bound.epsilon, bound.delta) == ("basic", Fraction(1, 2), 0)


def test_bounds_of_the_library_agree_with_the_exact_optimum() -> None:
    # Discrete Laplace noise on counts is randomised response, so the optimum is its exact cost.
    found = of_one_task(HALF, HISTOGRAM, 10, is_fixed=True, with_pld=True)
    by_name = {name: float(bound.epsilon) for name, bound in found.items()}
    assert by_name["PLD"] == pytest.approx(by_name["optimal (KOV)"], abs=2e-3)


def test_truncated_noise_spends_delta_at_every_release() -> None:
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 10**6))
    found = of_one_task(mechanism, HISTOGRAM, 10, is_fixed=True)
    assert found["basic"].epsilon == 10
    assert float(found["basic"].delta) == pytest.approx(6.715475137e-6, rel=1e-9)
    assert of_one_task(mechanism, HISTOGRAM, 15) == {}  # 15 times 6.7e-7 is above delta


def test_gaussian_releases_add_up_their_rho() -> None:
    mechanism = DiscreteGaussian(Fraction(1, 10))
    found = of_one_task(mechanism, SumVec(4, 9, 6), 5)
    assert found["zCDP"].epsilon == implied_epsilon(Fraction(1, 2), DELTA)
    # By adding up it is read off at the delta of the policy, which is smaller.
    assert found["basic"].epsilon == implied_epsilon(Fraction(1, 2), mechanism.delta)
    assert found["basic"].delta == mechanism.delta
    fixed = of_one_task(mechanism, Sum(3), 5, is_fixed=True, with_pld=True)
    assert list(fixed) == ["PLD", "zCDP", "basic"]


def test_without_noise_there_is_no_bound_and_without_a_secret_no_cost() -> None:
    assert of_one_task(NoPrivacy(), HISTOGRAM, 3) == {}
    found = of_one_task(PureDpDiscreteLaplace(Fraction(1)), Histogram(1, 1), 3)
    assert {name: bound.epsilon for name, bound in found.items()} == {"nothing to protect": 0}


def test_a_task_without_noise_leaves_no_bound_and_one_without_a_secret_costs_nothing() -> None:
    half, nothing = Releases(HALF, Count(), 2), Releases(HALF, Histogram(1, 1), 5)
    assert bounds([half, Releases(NoPrivacy(), Count(), 1)], DELTA) == []
    assert bounds([half, nothing], DELTA) == bounds([half], DELTA)
    assert basic([half, nothing, Releases(NoPrivacy(), Count(), 1)]) == BasicCost(
        Fraction(1), Fraction(0)
    )
    assert basic([]) == BasicCost(Fraction(0), Fraction(0))


def test_splitting_a_task_in_two_changes_no_bound() -> None:
    whole = bounds([Releases(HALF, HISTOGRAM, 20)], DELTA, is_fixed=True, with_pld=True)
    halves = [Releases(HALF, HISTOGRAM, 12), Releases(HALF, HISTOGRAM, 8)]
    split = bounds(halves, DELTA, is_fixed=True, with_pld=True)
    assert [bound.name for bound in split] == [bound.name for bound in whole]
    for one, other in zip(split, whole, strict=True):
        assert float(one.epsilon) == pytest.approx(float(other.epsilon), rel=1e-6)


def test_tasks_of_different_epsilons_add_up_and_the_optimum_takes_the_larger() -> None:
    tenth = PureDpDiscreteLaplace(Fraction(1, 10))
    tasks = [Releases(HALF, Count(), 30), Releases(tenth, Sum(7), 50)]
    found = {bound.name: bound for bound in bounds(tasks, DELTA, is_fixed=True)}
    assert found["basic"].epsilon == 20
    assert found["basic"].delta == 0
    rho = 30 * Fraction(1, 8) + 50 * Fraction(1, 200)
    assert found["zCDP"].epsilon == implied_epsilon(rho, DELTA)
    assert found["optimal (KOV)"].epsilon == accounting.optimal(Fraction(1, 2), 80, DELTA)
    # 15 (e^0.5 - 1) + 5 (e^0.1 - 1) + sqrt(2 ln(10^5) (30/4 + 50/100))
    assert float(found["advanced"].epsilon) == pytest.approx(23.828954499711, rel=1e-9)


def test_the_library_composes_different_tasks_below_the_sum_of_their_bounds() -> None:
    tasks = [
        Releases(HALF, Count(), 20),
        Releases(DiscreteGaussian(Fraction(1, 50)), Count(), 5),
    ]
    found = {bound.name: bound for bound in bounds(tasks, DELTA, is_fixed=True, with_pld=True)}
    alone = pld.epsilon_together([(HALF.losses(Count()), 20)], DELTA)
    assert alone is not None
    assert alone < float(found["PLD"].epsilon) < float(found["zCDP"].epsilon)


def test_truncated_noise_among_the_releases_leaves_only_the_basic_bound() -> None:
    geometric = TruncatedGeometric(Fraction(1), Fraction(1, 10**7))
    tasks = [Releases(HALF, Count(), 2), Releases(geometric, HISTOGRAM, 3)]
    (bound,) = bounds(tasks, DELTA)
    assert (bound.name, bound.epsilon) == ("basic", 4)
    assert bound.delta == 3 * geometric.exact_delta(HISTOGRAM)
    assert bounds(tasks, Fraction(1, 10**9)) == []


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1)])
def test_a_delta_out_of_range_is_refused(delta: Fraction) -> None:
    with pytest.raises(ParameterError, match="delta must be between 0 and 1"):
        bounds([], delta)


def test_an_epsilon_that_the_library_overflows_at_gets_no_bound_from_it() -> None:
    huge = PureDpDiscreteLaplace(Fraction(800))
    found = of_one_task(huge, HISTOGRAM, 2, is_fixed=True, with_pld=True)
    assert "PLD" not in found
    assert found["basic"].epsilon == 1600


@pytest.mark.parametrize(
    ("circuit", "reports", "expected"),
    [
        (Count(), 1, 1),
        (Sum(9), 2, 1),
        (SumVec(5, 9, 6), 2, 5),
        (HISTOGRAM, 3, 2),
        (Histogram(1, 1), 1, 1),
        (L1BoundSum(4, 9, 6), 1, 2),
        (L1BoundSum(1, 9, 6), 1, 1),
        (MultihotCountVec(10, 3, 4), 1, 6),
        (MultihotCountVec(10, 3, 4), 2, 6),
        (MultihotCountVec(4, 3, 2), 2, 4),
    ],
    ids=repr,
)
def test_a_release_divides_into_independent_parts(
    circuit: Circuit, reports: int, expected: int
) -> None:
    assert parts(circuit, reports) == expected


@pytest.mark.parametrize(
    ("circuit", "reports", "expected"),
    [
        (Count(), 3, (1, 3)),
        (Sum(9), 2, (1, 18)),
        (SumVec(5, 9, 6), 2, (5, 18)),
        (HISTOGRAM, 1, (2, 1)),
        (HISTOGRAM, 2, (2, 2)),
        (MultihotCountVec(10, 3, 4), 1, (6, 1)),
        (MultihotCountVec(10, 3, 4), 2, (6, 2)),
        (L1BoundSum(4, 9, 6), 1, (2, 9)),
        (Histogram(1, 1), 1, None),
    ],
    ids=repr,
)
def test_the_worst_pair_under_discrete_laplace_noise_is_known_for_every_circuit(
    circuit: Circuit, reports: int, expected: tuple[int, int] | None
) -> None:
    assert pld.equal_shifts(circuit, reports) == expected


@pytest.mark.parametrize(
    ("circuit", "reports", "expected"),
    [
        (SumVec(5, 9, 6), 2, (5, 18)),
        (HISTOGRAM, 1, (2, 1)),
        (HISTOGRAM, 2, None),
        (MultihotCountVec(10, 3, 4), 2, None),
        (MultihotCountVec(4, 3, 2), 2, (4, 2)),
        (L1BoundSum(4, 9, 6), 1, None),
    ],
    ids=repr,
)
def test_under_gaussian_noise_the_worst_pair_is_known_where_no_entry_can_move_further(
    circuit: Circuit, reports: int, expected: tuple[int, int] | None
) -> None:
    assert is_worst_in_every_entry(circuit, reports) == (expected is not None)
    mechanism = DiscreteGaussian(Fraction(1), max_reports_per_person=reports)
    losses = mechanism.losses(circuit)
    assert (losses and losses.draws) == (expected and expected[0])


def test_a_missing_library_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    assert not pld.is_available()
    with pytest.raises(ConfigurationError, match=r"install prio-aggregator\[accounting\]"):
        pld.epsilon_of_laplace(Fraction(1), 1, DELTA)


def test_the_tighter_conversion_is_never_above_the_textbook_one() -> None:
    for rho in (Fraction(1, 100), Fraction(1, 2), Fraction(10)):
        for delta in (Fraction(1, 100), Fraction(1, 10**12)):
            assert implied_epsilon(rho, delta) < textbook_epsilon(rho, delta)


@pytest.mark.parametrize(
    ("epsilon", "releases", "delta", "reason"),
    [
        (Fraction(0), 1, DELTA, "epsilon must be positive"),
        (Fraction(1), 0, DELTA, "releases must be at least 1"),
        (Fraction(1), 1, Fraction(1), "delta must be below 1"),
        (Fraction(1), 1, Fraction(0), "delta must be positive"),
        (Fraction(1), 10**6, DELTA, "releases must be at most 100000"),
    ],
)
def test_parameters_out_of_range_are_refused(
    epsilon: Fraction, releases: int, delta: Fraction, reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        accounting.optimal(epsilon, releases, delta)


def test_optimal_composition_at_a_large_delta_is_free() -> None:
    assert accounting.optimal(Fraction(1, 10), 1, Fraction(1, 10)) == 0


def test_theorem_9_at_no_confidence_is_the_advanced_bound() -> None:
    epsilon, gamma = Fraction(1, 2), Fraction(0)
    bound = published_composition.privacy_at_risk_theorem_9(epsilon, epsilon / 2, gamma, 50, DELTA)
    assert bound == accounting.advanced([Pieces(50, epsilon)], DELTA)
    with pytest.raises(ParameterError, match="gamma must be from 0 to 1"):
        published_composition.privacy_at_risk_theorem_9(epsilon, epsilon, Fraction(2), 50, DELTA)


def test_the_conversion_of_a_huge_rho_ends() -> None:
    """The best alpha lies closer to 1 than floating point can say."""
    rho = Fraction(10) ** 40
    epsilon = implied_epsilon(rho, DELTA)
    assert rho < epsilon <= textbook_epsilon(rho, DELTA) + rho / 10**15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "releases", "delta"),
    [("1/2", 100, "1e-5"), ("1/2", 600, "1e-11"), ("1", 300, "1e-5"), ("1/10", 1000, "1e-11")],
)
def test_the_rounding_of_doubles_takes_no_bound_of_the_library_below_the_exact_optimum(
    epsilon: str, releases: int, delta: str
) -> None:
    each, chance = Fraction(epsilon), Fraction(delta)
    exact = accounting.optimal(each, releases, chance)
    found = pld.epsilon_together([(PureDpDiscreteLaplace(each).losses(Count()), releases)], chance)
    assert exact is not None
    assert found is not None
    # The optimum itself is rounded up to twelve decimals.
    assert Fraction(found) >= exact - Fraction(2, 10**12)


def test_a_delta_below_the_precision_of_the_library_gets_no_bound_from_it() -> None:
    losses = HALF.losses(Count())
    assert pld.epsilon_together([(losses, 100)], Fraction(1, 10**14)) is None
    assert pld.epsilon_of_laplace(Fraction(1, 2), 100, Fraction(1, 10**14)) is None


def test_bounds_of_small_epsilons_keep_their_digits() -> None:
    """Values from mpmath, 30 digits."""
    delta = Fraction(1, 10**5)
    found = accounting.advanced([Pieces(1, Fraction(1, 10**9))], delta)
    assert found is not None
    assert float(found) == pytest.approx(4.79852591318808e-9, rel=1e-11)
    found = published_composition.zcdp_textbook(Fraction(1, 10**6), 3, delta)
    assert float(found) == pytest.approx(8.31129218134705e-6, rel=1e-11)
    # One randomised response has delta = (e^epsilon - e^epsilon') / (1 + e^epsilon).
    best = accounting.optimal(Fraction(1, 10**4), 1, delta)
    assert best is not None
    assert float(best) == pytest.approx(8.000079996733387e-5, rel=1e-11)
