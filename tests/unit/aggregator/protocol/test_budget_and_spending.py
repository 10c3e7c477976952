"""What a budget measures for each mechanism, and which bounds the ledger calls valid."""

from collections.abc import Mapping
from fractions import Fraction

import pytest

from aggregator.dap.problems import BudgetExceeded
from aggregator.dp import pld
from aggregator.dp.composition import basic
from aggregator.dp.zcdp import implied_epsilon
from aggregator.protocol.budget import check_budget, cost, horizon, releases_of_a_person
from aggregator.protocol.spending import (
    NOT_FIXED,
    NOT_INSTALLED,
    SAYS_NOTHING,
    THEOREMS,
    ledger_bounds,
    smallest_valid,
)
from aggregator.protocol.task import Task
from tests.support.tasks import LAPLACE, NO_NOISE, make_task

GEOMETRIC = {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1e-5"}
GAUSSIAN = {"mechanism": "DiscreteGaussian", "rho": "1/8", "delta": "1e-9"}
DELTA = Fraction(1, 10**6)


def allowed(task: Task) -> int:
    """Return how many releases the budget lets through."""
    for releases in range(1000):
        try:
            check_budget(task, releases)
        except BudgetExceeded:
            return releases
    raise AssertionError("the budget never ran out")


def test_gaussian_releases_cost_what_their_rhos_imply_together() -> None:
    task = make_task(privacy={**GAUSSIAN, "budget": "10"})
    spent = basic([releases_of_a_person(task, 4)])
    assert spent.rho == Fraction(1, 2)
    assert spent.epsilon == implied_epsilon(Fraction(1, 2), Fraction(1, 10**9))
    assert spent.epsilon < 4 * cost(task, 1)
    # rho + 2 sqrt(rho ln 10^9) passes 10 between rho = 9/8 and 5/4; the bound used is tighter.
    assert allowed(task) == horizon(task)
    most = allowed(task)
    assert cost(task, most) <= 10 < cost(task, most + 1)
    assert most > 10 / cost(task, 1)


def test_truncated_releases_add_up_epsilon_and_the_delta_that_they_attain() -> None:
    task = make_task(privacy={**GEOMETRIC, "budget": "3"})
    assert allowed(task) == horizon(task) == 3
    spent = basic([releases_of_a_person(task, 3)])
    assert spent.epsilon == 3
    assert float(spent.delta) == pytest.approx(3 * 8.181202876e-6, rel=1e-9)
    assert spent.rho is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"max_batches_per_person": 7}, 7),
        ({"budget": "5/2"}, 5),
        ({"budget": "1/3"}, 0),
        ({"budget": "5/2", "max_batches_per_person": 7}, 5),
        ({"budget": "5/2", "max_batches_per_person": 3}, 3),
        ({"budget": "1000000"}, 2_000_000),
    ],
    ids=str,
)
def test_a_task_fixes_the_number_of_a_persons_releases_by_its_bounds(
    settings: Mapping[str, str | int], expected: int | None
) -> None:
    assert horizon(make_task(privacy={**LAPLACE, **settings})) == expected


def test_a_refusal_says_what_is_left() -> None:
    task = make_task(privacy={**LAPLACE, "budget": "6/5"})
    with pytest.raises(BudgetExceeded, match="costs epsilon 1/2; of the task's 6/5, 1/5 is left"):
        check_budget(task, 2)


def test_without_a_fixed_number_the_optimum_is_shown_and_called_not_valid() -> None:
    rows = {row.name: row for row in ledger_bounds([(make_task(privacy=LAPLACE), 50)], DELTA)}
    assert tuple(rows) == THEOREMS
    assert rows["basic"].epsilon == 25
    for name in ("optimal (KOV)", "PLD"):
        epsilon = rows[name].epsilon
        assert epsilon is not None
        assert epsilon < 14
        assert not rows[name].is_valid
        assert rows[name].note == NOT_FIXED
    smallest = smallest_valid(list(rows.values()))
    assert smallest is not None
    assert smallest.name == "zCDP"


def test_with_a_fixed_number_the_optimum_is_of_all_releases_that_may_come() -> None:
    task = make_task(privacy={**LAPLACE, "max_batches_per_person": 50})
    rows = {row.name: row for row in ledger_bounds([(task, 3)], DELTA)}
    assert (rows["basic"].releases, rows["basic"].epsilon) == (3, Fraction(3, 2))
    assert rows["optimal (KOV)"].releases == rows["PLD"].releases == 50
    assert rows["PLD"].is_valid
    early = smallest_valid(list(rows.values()))
    assert early is not None
    assert early.name == "basic"
    late = smallest_valid(ledger_bounds([(task, 400)], DELTA))
    assert late is not None
    # For a count the optimum is exact; the package's doubles may not look smaller.
    assert late.name == "optimal (KOV)"
    assert late.releases == 50


def test_one_task_without_a_bound_leaves_the_populations_number_open() -> None:
    bounded = make_task(privacy={**LAPLACE, "max_batches_per_person": 50})
    free = make_task(privacy=LAPLACE, id="A" * 43)
    rows = {row.name: row for row in ledger_bounds([(bounded, 60), (free, 30)], DELTA)}
    assert (rows["basic"].releases, rows["basic"].epsilon) == (80, 40)
    assert rows["PLD"].note == NOT_FIXED


def test_what_is_not_installed_or_has_nothing_to_say_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = make_task(privacy={**GEOMETRIC, "max_batches_per_person": 5})
    rows = {row.name: row for row in ledger_bounds([(task, 5)], Fraction(1, 1000))}
    assert rows["zCDP"].note == rows["PLD"].note == SAYS_NOTHING
    monkeypatch.setattr(pld, "is_available", lambda: False)
    rows = {row.name: row for row in ledger_bounds([(task, 5)], Fraction(1, 1000))}
    assert rows["PLD"].note == NOT_INSTALLED
    assert rows["PLD"].epsilon is None
    assert rows["optimal (KOV)"].is_valid


def test_nothing_released_and_nothing_promised_have_no_bounds() -> None:
    assert ledger_bounds([(make_task(privacy=LAPLACE), 0)], DELTA) == []
    assert ledger_bounds([(make_task(privacy=NO_NOISE), 5)], DELTA) == []
    assert smallest_valid([]) is None
