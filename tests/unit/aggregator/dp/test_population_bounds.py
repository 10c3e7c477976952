"""What the releases of several tasks cost together."""

from fractions import Fraction

import pytest

from aggregator.dp import accounting, pld
from aggregator.dp.composition import bounds
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.mechanisms import Mechanism, NoPrivacy, PureDpDiscreteLaplace
from aggregator.dp.population import TaskReleases, joint_bounds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.zcdp import implied_epsilon
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit, Count, Histogram, Sum, SumVec

DELTA = Fraction(1, 10**5)
HISTOGRAM = Histogram(8, 3)
HALF = PureDpDiscreteLaplace(Fraction(1, 2))


@pytest.mark.parametrize(
    ("mechanism", "circuit"),
    [
        (HALF, Count()),
        (HALF, HISTOGRAM),
        (HALF, SumVec(3, 5, 2)),
        (TruncatedGeometric(Fraction(1), Fraction(1, 10**7)), HISTOGRAM),
        (DiscreteGaussian(Fraction(1, 10)), SumVec(4, 9, 6)),
    ],
    ids=["count", "histogram", "sum_vec", "geometric", "gaussian"],
)
@pytest.mark.parametrize("is_fixed", [False, True])
def test_of_one_task_it_says_what_is_said_of_its_releases(
    mechanism: Mechanism,
    circuit: Circuit,
    is_fixed: bool,  # noqa: FBT001 - a parameter
) -> None:
    one = bounds(mechanism, circuit, 20, DELTA, is_fixed=is_fixed)
    joint = joint_bounds([TaskReleases(mechanism, circuit, 20)], DELTA, is_fixed=is_fixed)
    assert {bound.name: bound for bound in one}.items() <= {b.name: b for b in joint}.items()
    assert set(joint) - set(one) <= {bound for bound in joint if bound.name == "basic"}


def test_splitting_a_task_in_two_changes_no_bound() -> None:
    whole = joint_bounds([TaskReleases(HALF, HISTOGRAM, 20)], DELTA, is_fixed=True, with_pld=True)
    halves = [TaskReleases(HALF, HISTOGRAM, 12), TaskReleases(HALF, HISTOGRAM, 8)]
    split = joint_bounds(halves, DELTA, is_fixed=True, with_pld=True)
    assert [bound.name for bound in split] == [bound.name for bound in whole]
    for one, other in zip(split, whole, strict=True):
        assert float(one.epsilon) == pytest.approx(float(other.epsilon), rel=1e-6)


def test_tasks_of_different_epsilons_add_up_and_the_optimum_takes_the_larger() -> None:
    tenth = PureDpDiscreteLaplace(Fraction(1, 10))
    tasks = [TaskReleases(HALF, Count(), 30), TaskReleases(tenth, Sum(7), 50)]
    found = {bound.name: bound for bound in joint_bounds(tasks, DELTA, is_fixed=True)}
    assert found["basic"].epsilon == 20
    assert found["basic"].delta == 0
    rho = 30 * Fraction(1, 8) + 50 * Fraction(1, 200)
    assert found["zCDP"].epsilon == implied_epsilon(rho, DELTA)
    assert found["optimal (KOV)"].epsilon == accounting.optimal(Fraction(1, 2), 80, DELTA)
    # 15 (e^0.5 - 1) + 5 (e^0.1 - 1) + sqrt(2 ln(10^5) (30/4 + 50/100))
    assert float(found["advanced"].epsilon) == pytest.approx(23.828954499711, rel=1e-9)


def test_the_library_composes_different_tasks_below_the_sum_of_their_bounds() -> None:
    tasks = [
        TaskReleases(HALF, Count(), 20),
        TaskReleases(DiscreteGaussian(Fraction(1, 50)), Count(), 5),
    ]
    found = {
        bound.name: bound for bound in joint_bounds(tasks, DELTA, is_fixed=True, with_pld=True)
    }
    alone = pld.epsilon_of_releases(HALF, Count(), 20, DELTA)
    assert alone is not None
    assert alone < float(found["PLD"].epsilon) < float(found["zCDP"].epsilon)


def test_truncated_noise_among_them_leaves_only_the_sums() -> None:
    geometric = TruncatedGeometric(Fraction(1), Fraction(1, 10**7))
    tasks = [TaskReleases(HALF, Count(), 2), TaskReleases(geometric, HISTOGRAM, 3)]
    (bound,) = joint_bounds(tasks, DELTA)
    assert (bound.name, bound.epsilon) == ("basic", 4)
    assert bound.delta == 3 * geometric.exact_delta(HISTOGRAM)
    assert joint_bounds(tasks, Fraction(1, 10**9)) == []


def test_one_task_without_noise_leaves_no_bound_and_one_without_a_secret_costs_nothing() -> None:
    half = TaskReleases(HALF, Count(), 2)
    assert joint_bounds([half, TaskReleases(NoPrivacy(), Count(), 1)], DELTA) == []
    nothing = TaskReleases(HALF, Histogram(1, 1), 5)
    assert joint_bounds([half, nothing], DELTA) == joint_bounds([half], DELTA)
    (bound,) = joint_bounds([nothing], DELTA)
    assert (bound.name, bound.epsilon) == ("nothing to protect", 0)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1)])
def test_a_delta_out_of_range_is_refused(delta: Fraction) -> None:
    with pytest.raises(ParameterError, match="delta must be between 0 and 1"):
        joint_bounds([], delta)
