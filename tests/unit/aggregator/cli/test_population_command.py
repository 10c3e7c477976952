"""`prio population`: one budget over all tasks that ask the same people."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aggregator.cli.service.parties import open_aggregator
from aggregator.cli.service.taking_part import take_part
from aggregator.dap.ids import TaskId
from aggregator.dap.problems import BudgetExceeded
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task import Task
from aggregator.service.runtime import charge_of, check_limits
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.charges import charge
from tests.support.commands import run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.store import units
from tests.support.tasks import LAPLACE, NO_NOISE, make_task

GAUSSIAN = {"mechanism": "DiscreteGaussian", "rho": "1/20"}
GEOMETRIC = {"mechanism": "TruncatedGeometric", "epsilon": "1/2", "delta": "1e-6"}


def patients(number: int, privacy: Mapping[str, str | int]) -> Task:
    return make_task(
        privacy={**privacy, "population": "patients"}, id=str(TaskId(bytes([number]) * 32))
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return service_file(tmp_path, "helper")


def fix(config: Path, *options: str) -> None:
    done = run_here("population", "patients", "--config", config, *options)
    assert done.returncode == 0, done.stderr


def add(config: Path, task: Task) -> None:
    with open_aggregator(config) as party:
        take_part(party, provision(task, SeededEntropy(task.task_id.value))[Role.HELPER])


def release(config: Path, task: Task, start: int = 0) -> None:
    """Make a release as the services do: the limits are checked where it is charged."""
    with open_aggregator(config) as party:

        def make(tx: Transaction) -> None:
            check_limits(tx, task)
            charge(tx, task.task_id.value, units(start, start + 1), charge_of(task))

        party.database.run_sync("release batch", make)


def of_patients(config: Path) -> dict[str, Any]:
    (found,) = json.loads(run_here("ledger", "--config", config, "--json").stdout)["populations"]
    assert isinstance(found, dict)
    return found


def test_releases_of_two_tasks_share_one_budget(config: Path) -> None:
    fix(config, "--epsilon", "1.2")
    first, second = patients(1, LAPLACE), patients(2, LAPLACE)
    add(config, first)
    add(config, second)
    release(config, first)
    release(config, second)
    for task in (first, second):
        with pytest.raises(BudgetExceeded, match="epsilon 1 of 6/5, and the release 1/2"):
            release(config, task, 1)
    found = of_patients(config)
    assert found["number_of_releases"] == 2
    assert found["budget"] == {"epsilon": "6/5", "rho": None, "delta": "0"}


def test_a_budget_of_rho_counts_noise_of_every_kind(config: Path) -> None:
    fix(config, "--rho", "1/6")
    laplace, gaussian = patients(1, LAPLACE), patients(2, GAUSSIAN)
    add(config, laplace)
    add(config, gaussian)
    release(config, laplace)  # two mechanisms of epsilon = 1/4 each, rho = tanh(1/8)/2 together
    release(config, gaussian)
    release(config, gaussian, 1)
    with pytest.raises(BudgetExceeded, match=r"rho .* of 1/6, and the release 1/20"):
        release(config, gaussian, 2)
    valid = {row["name"]: row for row in of_patients(config)["bounds"] if row["valid"]}
    assert set(valid) == {"odometer", "filter on rho"}  # no plan: another task may be added


@pytest.mark.parametrize(
    ("limits", "privacy", "message"),
    [
        (["--epsilon", "2"], GAUSSIAN, "epsilon 0 of 2, and the release none"),
        (["--epsilon", "2"], NO_NOISE, "which cannot count the mechanism None"),
        (["--rho", "2"], GEOMETRIC, "delta 0 of 0, and the release"),
        (["--epsilon", "1/3"], LAPLACE, "epsilon 0 of 1/3, and the release 1/2"),
    ],
)
def test_a_task_that_a_populations_budget_can_never_pay_for_is_refused(
    config: Path, limits: list[str], privacy: Mapping[str, str | int], message: str
) -> None:
    fix(config, *limits)
    with pytest.raises(ParameterError, match=message):
        add(config, patients(1, privacy))
    assert json.loads(run_here("ledger", "--config", config, "--json").stdout)["tasks"] == []


def test_a_budget_that_an_existing_task_cannot_keep_is_refused_and_changes_nothing(
    config: Path,
) -> None:
    add(config, patients(1, GAUSSIAN))
    done = run_here("population", "patients", "--config", config, "--epsilon", "2")
    assert done.returncode == 2
    assert "the release none" in done.stderr
    assert of_patients(config)["budget"] is None


def test_a_task_comes_too_late_if_the_budget_has_nothing_left_for_it(config: Path) -> None:
    fix(config, "--epsilon", "1/2")
    first = patients(1, LAPLACE)
    add(config, first)
    release(config, first)
    with pytest.raises(ParameterError, match="epsilon 1/2 of 1/2"):
        add(config, patients(2, LAPLACE))
    add(config, first)  # the same again changes nothing


def place(number: int, where: int, privacy: Mapping[str, str | int] = LAPLACE) -> Task:
    return patients(number, {**privacy, "group": "a question", "group_place": where})


@pytest.mark.slow
def test_a_groups_costliest_place_is_counted_and_the_ledger_says_who_keeps_to_one(
    config: Path,
) -> None:
    fix(config, "--epsilon", "3/2")
    first, second, other = place(1, 0), place(2, 1), patients(3, LAPLACE)
    for task in (first, second, other):
        add(config, task)
    for task in (first, second, other):
        release(config, task)
    release(config, first, 1)
    release(config, second, 1)
    for task in (first, second, other):
        with pytest.raises(BudgetExceeded, match="epsilon 3/2 of 3/2, and the release 1/2"):
            release(config, task, 2)
    found = of_patients(config)
    assert (found["number_of_releases"], found["most_releases_of_a_person"]) == (5, 3)
    assert found["epsilon_of_a_person"] == "3/2"
    assert found["groups"]["places"] == {"a question": 2}
    assert found["groups"]["in_all_places"]["epsilon"] == "5/2"
    shown = " ".join(run_here("ledger", "--config", config).stdout.split())
    assert "clients keep people to one, which no aggregator can check" in shown
    assert "a person in all places has spent epsilon 5/2" in shown
    assert "epsilon 3/2, delta 0 (in 3 of 5 releases)" in shown


def test_a_task_of_a_place_that_is_there_already_adds_up_with_it(config: Path) -> None:
    fix(config, "--epsilon", "1")
    again = place(2, 0)
    for task in (place(1, 0), again, place(3, 1)):
        add(config, task)
        release(config, task)
    with pytest.raises(BudgetExceeded, match="epsilon 1 of 1"):
        release(config, again, 1)


@pytest.mark.parametrize(
    ("task", "differs"),
    [
        (place(2, 1, {**LAPLACE, "epsilon": "1"}), "mechanism"),
        (
            make_task(
                privacy={**LAPLACE, "group": "a question", "group_place": 1},
                id=str(TaskId(bytes([2]) * 32)),
            ),
            "population",
        ),
        (
            make_task(
                {"type": "Prio3Count"},
                {**LAPLACE, "population": "patients", "group": "a question", "group_place": 1},
                id=str(TaskId(bytes([2]) * 32)),
            ),
            "type of measurement",
        ),
    ],
    ids=["mechanism", "population", "type"],
)
def test_a_designer_cannot_call_tasks_of_other_people_or_kinds_a_group(
    config: Path, task: Task, differs: str
) -> None:
    add(config, place(1, 0))
    with pytest.raises(ParameterError, match=f"group: .* has another {differs} than task"):
        add(config, task)


def test_what_is_fixed_about_a_population_cannot_change_after_its_first_release(
    config: Path,
) -> None:
    task = patients(1, LAPLACE)
    fix(config, "--epsilon", "3")
    add(config, task)
    fix(config, "--epsilon", "2")
    release(config, task)
    done = run_here("population", "patients", "--config", config, "--epsilon", "100")
    assert done.returncode == 2
    assert "have made releases" in done.stderr
    assert of_patients(config)["budget"]["epsilon"] == "2"


def test_a_closed_population_takes_no_task_after_its_first_release_and_has_a_plan(
    config: Path,
) -> None:
    fix(config, "--closed")
    first, second = (patients(number, {**LAPLACE, "max_releases": 9}) for number in (1, 2))
    add(config, first)
    add(config, second)
    release(config, first)
    with pytest.raises(Conflict, match="closed"):
        add(config, patients(3, {**LAPLACE, "max_releases": 9}))
    rows = {row["name"]: row for row in of_patients(config)["bounds"]}
    assert rows["optimal (KOV)"]["valid"]
    assert rows["optimal (KOV)"]["releases"] == 18


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --epsilon, --rho or --closed"),
        (["--delta", "1e-6"], "give --epsilon, --rho or --closed"),
        (["--epsilon", "0"], "epsilon must be positive"),
        (["--rho", "1", "--delta", "1/100"], "delta must be below 1/100"),
    ],
)
def test_bad_limits_are_refused_by_name(config: Path, options: list[str], message: str) -> None:
    done = run_here("population", "patients", "--config", config, *options)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "name: must not be empty"), ("a\x1b[2J", "name: must be one line, without control")],
)
def test_a_name_that_no_task_can_have_is_refused(config: Path, name: str, message: str) -> None:
    done = run_here("population", name, "--config", config, "--epsilon", "1")
    assert done.returncode == 2
    assert message in done.stderr
