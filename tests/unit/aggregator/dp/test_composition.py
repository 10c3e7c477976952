import sys
from fractions import Fraction

import numpy as np
import pytest

from aggregator.dp import accounting, pld
from aggregator.dp.accounting import Pieces
from aggregator.dp.composition import (
    UNEQUAL,
    Bound,
    Releases,
    bounds,
    equal_pieces,
    smallest_valid,
    spent,
)
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.filters import Cost, Filter, cost_of_dp, rho_of_pure
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.odometer import Odometer
from aggregator.dp.sensitivity import is_worst_in_every_entry
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.zcdp import implied_epsilon, textbook_epsilon
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.papers import published_composition
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sum,
    SumVec,
)
from aggregator.vdaf.instances import SECTIONS
from tests.support.patience import measured

DELTA = Fraction(1, 10**5)
HISTOGRAM = Histogram(8, 3)


HALF = PureDpDiscreteLaplace(Fraction(1, 2))


def said(found: list[Bound]) -> dict[str, Bound]:
    """Return what says something, by name."""
    assert all(bound.delta is None or bound.delta <= DELTA for bound in found)
    return {bound.name: bound for bound in found if bound.epsilon is not None}


def planned(
    mechanism: Mechanism, circuit: Circuit, count: int, *, with_pld: bool = False
) -> dict[str, Bound]:
    """Return the bounds of this many releases, which are all that aggregators allow."""
    made = [Releases(mechanism, circuit, count)]
    return said(bounds(made, DELTA, plan=made, with_pld=with_pld))


def epsilon(bound: Bound) -> float:
    assert bound.epsilon is not None
    return float(bound.epsilon)


def smallest(found: dict[str, Bound]) -> str:
    bound = smallest_valid(list(found.values()))
    assert bound is not None
    return bound.name


def test_without_a_limit_only_the_sum_and_the_odometer_hold() -> None:
    mechanism = PureDpDiscreteLaplace(Fraction(1, 10))
    open_ended = said(bounds([Releases(mechanism, HISTOGRAM, 100)], DELTA))
    valid = [name for name, bound in open_ended.items() if bound.is_valid]
    assert valid == ["basic", "odometer"]
    assert smallest(open_ended) == "odometer"
    assert not open_ended["optimal (KOV)"].is_valid
    fixed = planned(mechanism, HISTOGRAM, 100)
    assert all(bound.is_valid for bound in fixed.values())
    assert smallest(fixed) == "optimal (KOV)"


def test_of_an_odometer_and_a_limits_bound_the_smaller_one_is_never_chosen() -> None:
    made, plan = [Releases(HALF, Count(), 100)], [Releases(HALF, Count(), 300)]
    found = said(bounds(made, DELTA, plan=plan))
    others = [bound for name, bound in found.items() if name != "odometer"]
    assert all(epsilon(found["odometer"]) < epsilon(bound) for bound in others)
    assert smallest(found) == "basic"


def test_one_release_costs_its_epsilon_by_the_basic_bound() -> None:
    bound = smallest_valid(bounds([Releases(HALF, HISTOGRAM, 1)], DELTA))
    assert bound is not None
    assert (bound.epsilon, bound.delta) == (Fraction(1, 2), 0)


def test_nobody_pays_with_delta_for_a_thousandth_of_epsilon() -> None:
    plan = [Releases(HALF, Count(), 3)]
    found = bounds(plan, Fraction(1, 10**6), plan=plan)
    optimum = said(found)["optimal (KOV)"].epsilon
    assert optimum is not None
    assert Fraction(149, 100) < optimum < Fraction(3, 2)
    chosen = smallest_valid(found)
    assert chosen is not None
    assert (chosen.epsilon, chosen.delta) == (Fraction(3, 2), 0)


def test_bounds_of_the_library_agree_with_the_exact_optimum() -> None:
    # Discrete Laplace noise on counts is randomised response, so the optimum is its exact cost.
    found = planned(HALF, HISTOGRAM, 10, with_pld=True)
    assert epsilon(found["PLD"]) == pytest.approx(epsilon(found["optimal (KOV)"]), abs=2e-3)


def test_truncated_noise_spends_delta_at_every_release() -> None:
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 10**6))
    found = planned(mechanism, HISTOGRAM, 10)
    assert found["basic"].epsilon == 10
    assert float(found["basic"].delta or 0) == pytest.approx(6.715475137e-6, rel=1e-9)
    left = DELTA - 10 * mechanism.exact_delta(HISTOGRAM)
    rho = 20 * rho_of_pure(Fraction(1, 2))
    assert found["filter on rho"].epsilon == implied_epsilon(rho, left)
    assert planned(mechanism, HISTOGRAM, 15) == {}  # 15 times 6.7e-7 is above delta


def test_an_open_number_of_truncated_releases_keeps_half_of_delta_for_their_own() -> None:
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 10**6))
    found = said(bounds([Releases(mechanism, HISTOGRAM, 7)], DELTA))
    spent_by_then = Cost(Fraction(7), 14 * rho_of_pure(Fraction(1, 2)))
    assert found["odometer"].epsilon == Odometer(DELTA / 2).epsilon(spent_by_then)
    assert "odometer" not in said(bounds([Releases(mechanism, HISTOGRAM, 8)], DELTA))


def test_gaussian_releases_add_up_their_rho_and_have_no_epsilon_to_add() -> None:
    mechanism = DiscreteGaussian(Fraction(1, 10))
    found = planned(mechanism, SumVec(4, 9, 6), 5)
    assert list(found) == ["odometer", "filter on rho", "Gaussian"]
    assert found["filter on rho"].epsilon == implied_epsilon(Fraction(1, 2), DELTA)
    assert smallest(found) == "Gaussian"
    fixed = planned(mechanism, Sum(3), 5, with_pld=True)
    assert smallest(fixed) == "PLD"


def test_without_noise_there_is_no_bound_and_without_a_secret_no_cost() -> None:
    assert planned(NoPrivacy(), HISTOGRAM, 3) == {}
    found = planned(PureDpDiscreteLaplace(Fraction(1)), Histogram(1, 1), 3)
    assert {name: bound.epsilon for name, bound in found.items()} == {"nothing to protect": 0}


def test_releases_that_promise_nothing_are_left_out_and_those_of_no_secret_are_free() -> None:
    half, nothing = Releases(HALF, Count(), 2), Releases(HALF, Histogram(1, 1), 5)
    exact = Releases(NoPrivacy(), Count(), 1)
    assert bounds([half, nothing, exact], DELTA) == bounds([half], DELTA)
    assert spent([half, nothing, exact]) == cost_of_dp(Fraction(1, 2), count=2)
    assert spent([]) == Cost()


def test_splitting_a_task_in_two_changes_no_bound() -> None:
    whole = planned(HALF, HISTOGRAM, 20, with_pld=True)
    halves = [Releases(HALF, HISTOGRAM, 12), Releases(HALF, HISTOGRAM, 8)]
    split = said(bounds(halves, DELTA, plan=halves, with_pld=True))
    assert list(split) == list(whole)
    for one, other in zip(split.values(), whole.values(), strict=True):
        assert epsilon(one) == pytest.approx(epsilon(other), rel=1e-6)


def test_tasks_of_different_epsilons_add_up_and_the_optimum_takes_the_larger() -> None:
    tenth = PureDpDiscreteLaplace(Fraction(1, 10))
    tasks = [Releases(HALF, Count(), 30), Releases(tenth, Sum(7), 50)]
    found = said(bounds(tasks, DELTA, plan=tasks))
    assert found["basic"].epsilon == 20
    assert found["basic"].delta == 0
    rho = 30 * rho_of_pure(Fraction(1, 2)) + 50 * rho_of_pure(Fraction(1, 10))
    assert rho < 30 * Fraction(1, 8) + 50 * Fraction(1, 200)
    assert found["filter on rho"].epsilon == implied_epsilon(rho, DELTA)
    assert found["optimal (KOV)"].epsilon == accounting.optimal(Fraction(1, 2), 80, DELTA)
    assert found["optimal (KOV)"].note.endswith(UNEQUAL)
    assert UNEQUAL not in found["advanced"].note
    equal = [Releases(HALF, Count(), 30), Releases(HALF, Sum(7), 50)]
    assert UNEQUAL not in said(bounds(equal, DELTA, plan=equal))["optimal (KOV)"].note
    # 15 (e^0.5 - 1) + 5 (e^0.1 - 1) + sqrt(2 ln(10^5) (30/4 + 50/100))
    assert epsilon(found["advanced"]) == pytest.approx(23.828954499711, rel=1e-9)


def test_the_library_composes_different_tasks_below_the_sum_of_their_bounds() -> None:
    tasks = [
        Releases(HALF, Count(), 20),
        Releases(DiscreteGaussian(Fraction(1, 50)), Count(), 5),
    ]
    found = said(bounds(tasks, DELTA, plan=tasks, with_pld=True))
    alone = pld.epsilon_together([(HALF.losses(Count()), 20)], DELTA)
    assert alone is not None
    assert alone < epsilon(found["PLD"]) < epsilon(found["filter on rho"])


def test_truncated_noise_among_the_releases_adds_its_delta_to_every_bound() -> None:
    geometric = TruncatedGeometric(Fraction(1), Fraction(1, 10**7))
    tasks = [Releases(HALF, Count(), 2), Releases(geometric, HISTOGRAM, 3)]
    found = said(bounds(tasks, DELTA))
    assert found["basic"].epsilon == 4
    assert found["basic"].delta == 3 * geometric.exact_delta(HISTOGRAM)
    assert [bound.epsilon for bound in bounds(tasks, Fraction(1, 10**9))] == [None] * 7


def test_limits_without_a_plan_bound_what_may_come_and_the_smaller_of_two_counts() -> None:
    made = [Releases(HALF, Count(), 3)]
    limits = Filter(epsilon=Fraction(9), rho=Fraction(1))
    found = said(bounds(made, DELTA, limits=limits, may_grow=True))
    assert [name for name, bound in found.items() if bound.is_valid] == [
        "basic",
        "odometer",
        "filter on epsilon",
        "filter on rho",
    ]
    assert found["filter on epsilon"].epsilon == 9
    assert found["filter on rho"].epsilon == implied_epsilon(Fraction(1), DELTA)
    assert found["odometer"].epsilon == Odometer(DELTA, Fraction(1)).epsilon(spent(made))
    both = said(bounds(made, DELTA, limits=limits, plan=[Releases(HALF, Count(), 4)]))
    assert both["filter on epsilon"].epsilon == 2
    assert both["filter on rho"].epsilon == implied_epsilon(4 * rho_of_pure(Fraction(1, 2)), DELTA)


def test_releases_that_may_be_joined_by_truncated_ones_keep_half_of_delta_for_those() -> None:
    made = [Releases(HALF, Count(), 30)]
    found = said(bounds(made, DELTA, may_grow=True))
    assert found["odometer"].epsilon == Odometer(DELTA / 2).epsilon(spent(made))


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 100), 1 - Fraction(1, 10**15)])
def test_a_delta_that_is_not_a_small_probability_is_refused(delta: Fraction) -> None:
    with pytest.raises(ParameterError, match=r"delta must be (positive|below 1/100)"):
        bounds([], delta)


def test_an_epsilon_that_the_library_overflows_at_gets_no_bound_from_it() -> None:
    huge = PureDpDiscreteLaplace(Fraction(800))
    found = planned(huge, HISTOGRAM, 2, with_pld=True)
    assert "PLD" not in found
    assert found["basic"].epsilon == 1600


@pytest.mark.parametrize("epsilon", [10**6, 10**30])
def test_an_epsilon_whose_exponential_nobody_can_write_down_gets_no_advanced_bound(
    epsilon: int,
) -> None:
    found = planned(PureDpDiscreteLaplace(Fraction(epsilon)), HISTOGRAM, 2)
    assert "advanced" not in found
    assert found["basic"].epsilon == 2 * epsilon


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
    assert equal_pieces(circuit, reports) == expected


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
def test_gaussian_noise_has_a_known_worst_pair_where_no_entry_can_move_further(
    circuit: Circuit, reports: int, expected: tuple[int, int] | None
) -> None:
    assert is_worst_in_every_entry(circuit, reports) == (expected is not None)
    mechanism = DiscreteGaussian(Fraction(1), max_reports_per_person=reports)
    losses = mechanism.losses(circuit)
    assert (losses and losses.draws) == (expected and expected[0])


def epsilon_by_convolution(scale: float, shifts: list[int], delta: float) -> float:
    """Return the exact epsilon of discrete Laplace draws that are shifted so."""
    losses = np.ones(1)
    for size in shifts:
        # The loss (|z - size| - |z|) / scale, by its whole number from -size to size.
        own, step = np.zeros(2 * size + 1), np.exp(-1 / scale)
        for z in range(-200 * int(scale), 200 * int(scale)):
            own[abs(z - size) - abs(z) + size] += (1 - step) / (1 + step) * step ** abs(z)
        losses = np.convolve(losses, own)
    values = (np.arange(len(losses)) - sum(shifts)) / scale
    low, high = 0.0, sum(shifts) / scale
    for _ in range(50):
        middle = (low + high) / 2
        beyond = np.sum(losses * np.maximum(0, -np.expm1(middle - values)))
        low, high = (middle, high) if beyond > delta else (low, middle)
    return high


def test_a_report_with_a_number_has_the_losses_of_its_worst_pair() -> None:
    """The pair moves two counts by 1 and the number by 4, all under noise of one scale."""
    circuit = SECTIONS.prio3({"sections": "onehot:3 number:4"}).circuit
    losses = HALF.losses(circuit)
    assert losses is not None
    assert losses.draws == 3
    found = pld.epsilon_together([(losses, 3)], Fraction(1, 10**6))
    exact = epsilon_by_convolution(12, [1, 1, 4] * 3, 1e-6)
    assert found is not None
    assert exact - 1e-9 <= found <= exact + 9e-4, "each of nine draws is rounded up to 10^-4"


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
def test_rounding_of_doubles_takes_no_bound_of_the_library_below_the_optimum(
    epsilon: str, releases: int, delta: str
) -> None:
    each, chance = Fraction(epsilon), Fraction(delta)
    exact = accounting.optimal(each, releases, chance)
    found = pld.epsilon_together([(PureDpDiscreteLaplace(each).losses(Count()), releases)], chance)
    assert exact is not None
    assert found is not None
    # The optimum itself is rounded up to twelve decimals.
    assert Fraction(found) >= exact - Fraction(2, 10**12)


@pytest.mark.slow
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


def test_almost_any_rho_implies_no_epsilon_at_a_delta_of_almost_one() -> None:
    assert implied_epsilon(Fraction(1, 8), 1 - Fraction(1, 10**15)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [("1/1000", "1e-300"), ("1/2", "1e-5")])
def test_as_many_releases_as_are_composed_take_no_longer_than_a_few_seconds(
    epsilon: str, delta: str
) -> None:
    with measured() as spent:
        bound = accounting.optimal(Fraction(epsilon), accounting.MAX_RELEASES, Fraction(delta))
    assert bound is not None
    rho = accounting.MAX_RELEASES * rho_of_pure(Fraction(epsilon))
    assert bound < implied_epsilon(rho, Fraction(delta))
    assert spent.yardsticks < 600
