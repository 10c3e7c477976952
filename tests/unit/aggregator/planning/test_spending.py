"""Which bounds the ledger calls valid, and of how many releases."""

from fractions import Fraction

import pytest

from aggregator.dp import pld
from aggregator.planning.spending import (
    NOT_FIXED,
    NOT_INSTALLED,
    SAYS_NOTHING,
    THEOREMS,
    ledger_bounds,
    smallest_valid,
)
from tests.support.tasks import LAPLACE, NO_NOISE, make_task

GEOMETRIC = {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1e-5"}
DELTA = Fraction(1, 10**6)


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
    task = make_task(privacy={**LAPLACE, "max_releases": 50})
    rows = {row.name: row for row in ledger_bounds([(task, 3)], DELTA)}
    assert (rows["basic"].releases, rows["basic"].epsilon) == (3, Fraction(3, 2))
    assert rows["optimal (KOV)"].releases == rows["PLD"].releases == 50
    assert rows["PLD"].is_valid
    early = smallest_valid(list(rows.values()))
    assert early is not None
    assert early.name == "basic"
    late = smallest_valid(ledger_bounds([(task, 50)], DELTA))
    assert late is not None
    # For a count the optimum is exact; the package's doubles may not look smaller.
    assert late.name == "optimal (KOV)"
    assert late.releases == 50


def test_what_clients_declare_neither_fixes_a_number_nor_makes_releases_cheaper() -> None:
    task = make_task(privacy={**LAPLACE, "max_batches_per_person": 5})
    rows = {row.name: row for row in ledger_bounds([(task, 50)], DELTA)}
    assert (rows["basic"].releases, rows["basic"].epsilon) == (50, 25)
    assert rows["PLD"].note == NOT_FIXED


def test_one_task_without_a_bound_leaves_the_populations_number_open() -> None:
    bounded = make_task(privacy={**LAPLACE, "max_releases": 60})
    free = make_task(privacy=LAPLACE, id="A" * 43)
    rows = {row.name: row for row in ledger_bounds([(bounded, 60), (free, 30)], DELTA)}
    assert (rows["basic"].releases, rows["basic"].epsilon) == (90, 45)
    assert rows["PLD"].note == NOT_FIXED


def test_a_theorem_that_gives_no_bound_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = make_task(privacy={**GEOMETRIC, "max_releases": 5})
    rows = {row.name: row for row in ledger_bounds([(task, 5)], Fraction(1, 1000))}
    assert rows["zCDP"].note == rows["PLD"].note == SAYS_NOTHING
    monkeypatch.setattr(pld, "is_available", lambda: False)
    rows = {row.name: row for row in ledger_bounds([(task, 5)], Fraction(1, 1000))}
    assert rows["PLD"].note == NOT_INSTALLED
    assert rows["PLD"].epsilon is None
    assert rows["optimal (KOV)"].is_valid


def test_without_a_release_or_a_promise_there_are_no_bounds() -> None:
    assert ledger_bounds([(make_task(privacy=LAPLACE), 0)], DELTA) == []
    assert ledger_bounds([(make_task(privacy=NO_NOISE), 5)], DELTA) == []
    assert smallest_valid([]) is None
