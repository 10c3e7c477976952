import sys
from fractions import Fraction

import pytest

from aggregator.dp import accounting, pld
from aggregator.dp.composition import best_bound, bounds, parts
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.mechanisms import NoPrivacy, PureDpDiscreteLaplace
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.zcdp import implied_epsilon, textbook_epsilon
from aggregator.errors import ConfigurationError, ParameterError
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


def test_without_a_fixed_horizon_the_optimal_bound_is_not_offered() -> None:
    mechanism = PureDpDiscreteLaplace(Fraction(1, 10))
    names = [bound.name for bound in bounds(mechanism, HISTOGRAM, 100, DELTA)]
    assert names == ["zCDP", "advanced", "basic"]
    fixed = best_bound(mechanism, HISTOGRAM, 100, DELTA, is_fixed=True)
    assert fixed is not None
    assert fixed.name == "optimal (KOV)"
    assert fixed.is_fixed


def test_one_release_costs_its_epsilon_by_the_basic_bound() -> None:
    best = best_bound(PureDpDiscreteLaplace(Fraction(1, 2)), HISTOGRAM, 1, DELTA)
    assert best is not None
    assert (best.name, best.epsilon, best.delta) == ("basic", Fraction(1, 2), 0)


def test_bounds_are_sorted_and_those_of_the_library_agree_with_the_exact_optimum() -> None:
    # Discrete Laplace noise on counts is randomised response, so the optimum is its exact cost.
    mechanism = PureDpDiscreteLaplace(Fraction(1, 2))
    found = bounds(mechanism, HISTOGRAM, 10, DELTA, is_fixed=True, with_pld=True)
    assert [bound.epsilon for bound in found] == sorted(bound.epsilon for bound in found)
    by_name = {bound.name: float(bound.epsilon) for bound in found}
    assert by_name["PLD"] == pytest.approx(by_name["optimal (KOV)"], abs=2e-3)


def test_truncated_noise_spends_delta_at_every_release() -> None:
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 10**6))
    found = bounds(mechanism, HISTOGRAM, 10, DELTA, is_fixed=True)
    basic = next(bound for bound in found if bound.name == "basic")
    assert basic.epsilon == 10
    assert float(basic.delta) == pytest.approx(6.715475137e-6, rel=1e-9)
    assert all(bound.delta <= DELTA for bound in found)
    assert bounds(mechanism, HISTOGRAM, 15, DELTA) == []  # 15 times 6.7e-7 is above delta


def test_gaussian_releases_add_up_their_rho() -> None:
    mechanism = DiscreteGaussian(Fraction(1, 10))
    (bound,) = bounds(mechanism, SumVec(4, 9, 6), 5, DELTA)
    assert bound.epsilon == implied_epsilon(Fraction(1, 2), DELTA)
    fixed = bounds(mechanism, Sum(3), 5, DELTA, is_fixed=True, with_pld=True)
    assert [entry.name for entry in fixed] == ["PLD", "zCDP"]


def test_what_protects_nothing_or_has_nothing_to_protect_is_said_to_be_so() -> None:
    assert bounds(NoPrivacy(), HISTOGRAM, 3, DELTA) == []
    assert best_bound(NoPrivacy(), HISTOGRAM, 3, DELTA) is None
    (bound,) = bounds(PureDpDiscreteLaplace(Fraction(1)), Histogram(1, 1), 3, DELTA)
    assert (bound.name, bound.epsilon) == ("nothing to protect", 0)


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
    mechanism = PureDpDiscreteLaplace(Fraction(1), max_reports_per_person=reports)
    assert pld.worst_shift(mechanism, circuit) == expected


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
    mechanism = DiscreteGaussian(Fraction(1), max_reports_per_person=reports)
    assert pld.worst_shift(mechanism, circuit) == expected


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
    bound = accounting.privacy_at_risk_theorem_9(epsilon, epsilon / 2, gamma, 50, DELTA)
    assert bound == accounting.advanced(epsilon, 50, DELTA)
    with pytest.raises(ParameterError, match="gamma must be from 0 to 1"):
        accounting.privacy_at_risk_theorem_9(epsilon, epsilon, Fraction(2), 50, DELTA)


def test_the_conversion_of_a_huge_rho_ends() -> None:
    """The best alpha lies closer to 1 than floating point can say."""
    rho = Fraction(10) ** 40
    epsilon = implied_epsilon(rho, DELTA)
    assert rho < epsilon <= textbook_epsilon(rho, DELTA) + rho / 10**15


@pytest.mark.parametrize(
    ("epsilon", "releases", "delta"),
    [("1/2", 100, "1e-5"), ("1/2", 600, "1e-11"), ("1", 300, "1e-5"), ("1/10", 1000, "1e-11")],
)
def test_the_rounding_of_doubles_takes_no_bound_of_the_library_below_the_exact_optimum(
    epsilon: str, releases: int, delta: str
) -> None:
    each, chance = Fraction(epsilon), Fraction(delta)
    exact = accounting.optimal(each, releases, chance)
    found = pld.epsilon_of_releases(PureDpDiscreteLaplace(each), Count(), releases, chance)
    assert exact is not None
    assert found is not None
    # The optimum itself is rounded up to twelve decimals.
    assert Fraction(found) >= exact - Fraction(2, 10**12)


def test_a_delta_below_the_precision_of_the_library_gets_no_bound_from_it() -> None:
    mechanism = PureDpDiscreteLaplace(Fraction(1, 2))
    assert pld.epsilon_of_releases(mechanism, Count(), 100, Fraction(1, 10**14)) is None
    assert pld.epsilon_of_laplace(Fraction(1, 2), 100, Fraction(1, 10**14)) is None


def test_bounds_of_small_epsilons_keep_their_digits() -> None:
    """Values from mpmath, 30 digits."""
    delta = Fraction(1, 10**5)
    found = accounting.advanced(Fraction(1, 10**9), 1, delta)
    assert float(found) == pytest.approx(4.79852591318808e-9, rel=1e-11)
    found = accounting.zcdp_textbook(Fraction(1, 10**6), 3, delta)
    assert float(found) == pytest.approx(8.31129218134705e-6, rel=1e-11)
    # One randomised response has delta = (e^epsilon - e^epsilon') / (1 + e^epsilon).
    best = accounting.optimal(Fraction(1, 10**4), 1, delta)
    assert best is not None
    assert float(best) == pytest.approx(8.000079996733387e-5, rel=1e-11)
