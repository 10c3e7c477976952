"""What a budget measures for each mechanism."""

import math
from collections.abc import Mapping
from fractions import Fraction

import pytest

from aggregator.dap.problems import BudgetExceeded
from aggregator.dp.filters import Cost
from aggregator.dp.zcdp import implied_epsilon
from aggregator.protocol.budget import check_budget, cost, declared_releases, horizon, releases_of
from aggregator.protocol.task import Task
from tests.support.tasks import LAPLACE, make_task

GEOMETRIC = {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1e-5"}
GAUSSIAN = {"mechanism": "DiscreteGaussian", "rho": "1/8", "delta": "1e-9"}


def allowed(task: Task) -> int:
    """Return how many releases the budget lets through."""
    for releases in range(1000):
        try:
            check_budget(task, releases)
        except BudgetExceeded:
            return releases
    raise AssertionError("the budget never ran out")


def test_gaussian_releases_cost_less_together_than_apart_and_than_their_rhos_imply() -> None:
    task = make_task(privacy={**GAUSSIAN, "budget": "10"})
    assert releases_of(task, 4).cost == Cost(None, Fraction(1, 2))
    assert cost(task, 4) < implied_epsilon(Fraction(1, 2), Fraction(1, 10**9))
    assert cost(task, 4) < 4 * cost(task, 1)
    assert allowed(task) == horizon(task)
    most = allowed(task)
    assert cost(task, most) <= 10 < cost(task, most + 1)
    assert most > 10 / cost(task, 1)


def test_truncated_releases_add_up_epsilon_and_the_delta_that_they_attain() -> None:
    task = make_task(privacy={**GEOMETRIC, "budget": "3"})
    assert allowed(task) == horizon(task) == 3
    spent = releases_of(task, 3).cost
    assert spent is not None
    assert spent.epsilon == 3
    assert float(spent.delta) == pytest.approx(3 * 8.181202876e-6, rel=1e-9)
    # But for the edges it is two mechanisms of epsilon = 1/2, each tanh(1/4)/2-zCDP.
    assert float(spent.rho) == pytest.approx(3 * math.tanh(1 / 4), rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"max_batches_per_person": 7}, None),
        ({"budget": "5/2"}, 5),
        ({"budget": "1/3"}, 0),
        ({"budget": "5/2", "max_batches_per_person": 7}, 5),
        ({"budget": "5/2", "max_batches_per_person": 3}, 5),
        ({"max_releases": 7}, 7),
        ({"max_releases": 7, "max_batches_per_person": 3}, 7),
        ({"budget": "5/2", "max_releases": 7}, 5),
        ({"budget": "5/2", "max_releases": 3}, 3),
        ({"budget": "1000000"}, 2_000_000),
    ],
    ids=str,
)
def test_the_number_of_releases_is_what_aggregators_enforce(
    settings: Mapping[str, str | int], expected: int | None
) -> None:
    task = make_task(privacy={**LAPLACE, **settings})
    assert horizon(task) == expected
    if expected is None:
        check_budget(task, 10**6)
    elif expected < 1000:
        assert allowed(task) == expected


THE_WORKED_EXAMPLE = {
    "mechanism": "PureDpDiscreteLaplace",
    "epsilon": "4/25",
    "max_batches_per_person": 4,
    "budget": "16/25",
}


@pytest.mark.parametrize("number", [5, 6, 101, 1_000_001])
@pytest.mark.parametrize(
    "privacy",
    [
        THE_WORKED_EXAMPLE,
        {**LAPLACE, "max_batches_per_person": 1, "budget": "2"},
        {**GEOMETRIC, "max_batches_per_person": 4, "budget": "4"},
        {**GAUSSIAN, "max_batches_per_person": 4, "budget": "13/2"},
        {**GAUSSIAN, "max_batches_per_person": 4, "budget": "100", "max_releases": 4},
        {"mechanism": "None", "max_batches_per_person": 1, "max_releases": 4},
    ],
    ids=str,
)
def test_the_fifth_release_is_refused_whatever_clients_declare(
    privacy: Mapping[str, str | int], number: int
) -> None:
    task = make_task(privacy=privacy)
    for made in range(4):
        check_budget(task, made)
    with pytest.raises(BudgetExceeded):
        check_budget(task, number - 1)


def test_what_a_person_has_spent_who_keeps_to_the_bound_is_a_declaration() -> None:
    task = make_task(privacy=THE_WORKED_EXAMPLE)
    assert cost(task, 100) == 16
    for made, counted in ((0, 0), (3, 3), (4, 4), (100, 4)):
        declared = declared_releases(task, made)
        assert declared is not None
        assert declared.count == counted
    assert declared_releases(make_task(privacy=LAPLACE), 3) is None


def test_a_refusal_says_what_is_left() -> None:
    task = make_task(privacy={**LAPLACE, "budget": "6/5"})
    with pytest.raises(BudgetExceeded, match="costs epsilon 1/2; of the task's 6/5, 1/5 is left"):
        check_budget(task, 2)


def test_a_refusal_by_number_says_how_many_the_task_allows() -> None:
    task = make_task(privacy={**LAPLACE, "max_releases": 2})
    with pytest.raises(BudgetExceeded, match="max_releases: all 2 releases that the task allows"):
        check_budget(task, 2)


def test_releases_that_are_free_at_their_delta_still_have_a_last_one() -> None:
    free = {"mechanism": "DiscreteGaussian", "rho": "1/1000000", "delta": "9/1000"}
    task = make_task(privacy={**free, "budget": "1"})
    assert cost(task, 1) == 0
    most = horizon(task)
    assert most is not None
    assert cost(task, most) <= 1 < cost(task, most + 1)


def test_a_budget_never_ends_where_there_is_nothing_to_protect() -> None:
    lonely = {"type": "Prio3Histogram", "length": 1, "chunk_length": 1}
    task = make_task(lonely, {**LAPLACE, "budget": "1"})
    assert horizon(task) is None
    check_budget(task, 10**6)
