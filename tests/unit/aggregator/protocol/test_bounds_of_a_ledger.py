"""Which bounds the ledger calls valid, and of how many releases."""

from fractions import Fraction

import pytest

from aggregator.dp import pld
from aggregator.dp.composition import (
    NO_LIMIT,
    NOT_FIXED,
    NOT_INSTALLED,
    SAYS_NOTHING,
    THEOREMS,
    Bound,
    smallest_valid,
)
from aggregator.dp.filters import Filter
from aggregator.dp.zcdp import implied_epsilon
from aggregator.protocol.budget import population_bounds, promise_of_all, releases_of, task_bounds
from aggregator.protocol.task import Task
from tests.support.tasks import LAPLACE, NO_NOISE, make_task

GEOMETRIC = {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1e-5"}
GAUSSIAN = {"mechanism": "DiscreteGaussian", "rho": "1/200"}
DELTA = Fraction(1, 10**6)


def of_task(task: Task, made: int) -> dict[str, Bound]:
    return {row.name: row for row in task_bounds(task, made, DELTA, with_pld=True)}


def smallest(rows: dict[str, Bound]) -> Bound:
    bound = smallest_valid(list(rows.values()))
    assert bound is not None
    return bound


def test_without_a_limit_theorems_for_fixed_plans_are_shown_and_called_not_valid() -> None:
    rows = of_task(make_task(privacy=LAPLACE), 50)
    assert tuple(rows) == THEOREMS
    assert rows["basic"].epsilon == 25
    for name in ("advanced", "optimal (KOV)", "PLD"):
        assert rows[name].epsilon is not None
        assert not rows[name].is_valid
        assert rows[name].note == NOT_FIXED
    for name in ("filter on epsilon", "filter on rho"):
        assert rows[name].epsilon is None
        assert rows[name].note == NO_LIMIT
    assert smallest(rows).name == "odometer"


def test_with_a_limit_every_other_theorem_is_of_all_releases_that_may_come() -> None:
    task = make_task(privacy={**LAPLACE, "max_releases": 50})
    early, late = of_task(task, 3), of_task(task, 50)
    assert (early["basic"].releases, early["basic"].epsilon) == (3, Fraction(3, 2))
    assert smallest(early).name == "basic"
    assert early["Gaussian"].note == SAYS_NOTHING
    constant = [name for name in THEOREMS if name not in {"basic", "odometer", "Gaussian"}]
    for name in constant:
        assert early[name].is_valid
        assert early[name].releases == 50
        assert early[name] == late[name]
    # For a count the optimum is exact; the package's doubles may not look smaller.
    assert smallest(late).name == "optimal (KOV)"


def test_an_unlimited_gaussian_task_adds_up_to_a_rho_and_to_no_epsilon() -> None:
    rows = of_task(make_task({"type": "Prio3Count"}, GAUSSIAN), 100)
    assert [name for name, row in rows.items() if row.is_valid] == ["odometer"]
    assert rows["basic"].epsilon is None
    assert rows["Gaussian"].note == NOT_FIXED
    task = make_task({"type": "Prio3Count"}, {**GAUSSIAN, "max_releases": 100})
    limited = of_task(task, 3)
    assert limited["filter on rho"].epsilon == implied_epsilon(Fraction(1, 2), DELTA)
    assert (limited["Gaussian"].releases, limited["Gaussian"].is_valid) == (100, True)
    assert limited["Gaussian"].epsilon == releases_of(task, 100).epsilon_at(DELTA)


def test_what_clients_declare_neither_fixes_a_number_nor_makes_releases_cheaper() -> None:
    rows = of_task(make_task(privacy={**LAPLACE, "max_batches_per_person": 5}), 50)
    assert (rows["basic"].releases, rows["basic"].epsilon) == (50, 25)
    assert rows["PLD"].note == NOT_FIXED


BOUNDED = make_task(privacy={**LAPLACE, "max_releases": 60})
ALSO_BOUNDED = make_task(privacy={**LAPLACE, "budget": "15"}, id="B" * 42 + "A")
FREE = make_task(privacy=LAPLACE, id="A" * 43)


@pytest.mark.parametrize(
    ("second", "is_closed", "is_planned"),
    [(ALSO_BOUNDED, True, True), (ALSO_BOUNDED, False, False), (FREE, True, False)],
)
def test_a_population_has_a_plan_only_if_it_is_closed_and_each_task_has_a_limit(
    second: Task, *, is_closed: bool, is_planned: bool
) -> None:
    found = population_bounds([(BOUNDED, 60), (second, 30)], DELTA, None, is_closed=is_closed)
    rows = {row.name: row for row in found}
    assert (rows["basic"].releases, rows["basic"].epsilon) == (90, 45)
    for name in ("filter on rho", "advanced", "optimal (KOV)"):
        assert rows[name].is_valid == is_planned


def test_a_populations_budget_is_a_filter_and_makes_no_plan() -> None:
    """Tasks may be added, of whatever mechanism: neither their number nor theirs is fixed."""
    limits = Filter(rho=Fraction(5))
    found = population_bounds([(BOUNDED, 9), (ALSO_BOUNDED, 5)], DELTA, limits, is_closed=False)
    rows = {row.name: row for row in found}
    assert rows["filter on rho"].is_valid
    assert rows["filter on rho"].epsilon == implied_epsilon(Fraction(5), DELTA)
    assert rows["filter on rho"].releases is None
    assert rows["optimal (KOV)"].note == NOT_FIXED


def test_a_theorem_that_gives_no_bound_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    task, delta = make_task(privacy={**GEOMETRIC, "max_releases": 5}), Fraction(1, 1000)
    rows = {row.name: row for row in task_bounds(task, 5, delta, with_pld=True)}
    assert rows["advanced"].note == rows["PLD"].note == SAYS_NOTHING
    monkeypatch.setattr(pld, "is_available", lambda: False)
    rows = {row.name: row for row in task_bounds(task, 5, delta, with_pld=True)}
    assert rows["PLD"].note == NOT_INSTALLED
    assert rows["PLD"].epsilon is None
    assert rows["optimal (KOV)"].is_valid


def test_without_a_release_or_a_promise_there_are_no_bounds() -> None:
    assert task_bounds(make_task(privacy=LAPLACE), 0, DELTA) == []
    assert task_bounds(make_task(privacy=NO_NOISE), 5, DELTA) == []
    assert smallest_valid([]) is None


def test_a_result_says_what_all_releases_of_its_task_cost() -> None:
    bounded = promise_of_all(make_task(privacy={**LAPLACE, "budget": "2"}))
    assert bounded is not None
    assert "refuses more than 4 releases" in bounded
    assert "at most epsilon 2, delta 0" in bounded
    gaussian = promise_of_all(make_task(privacy={**GAUSSIAN, "max_releases": 100}))
    assert gaussian is not None
    assert "at most rho 1/2 and epsilon" in gaussian
    assert gaussian.endswith("delta 1/1000000000.")
    unlimited = promise_of_all(make_task(privacy=LAPLACE))
    assert unlimited is not None
    assert "nothing bounds what all of them cost" in unlimited
    assert promise_of_all(make_task(privacy={**NO_NOISE, "max_releases": 2})) is None
