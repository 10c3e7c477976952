"""`prio ledger`: releases, totals of tasks and populations, and the bounds that are valid."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.cli.service.parties import AggregatorParty, open_aggregator
from aggregator.cli.service.taking_part import take_part
from aggregator.dap.ids import TaskId
from aggregator.dap.profile import Role
from aggregator.dp import pld
from aggregator.dp.composition import THEOREMS
from aggregator.dp.filters import rho_of_pure
from aggregator.dp.rationals import format_rational
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task import Task
from aggregator.service.runtime import charge_of
from aggregator.service.storage.ledger.charges import charge, reserve
from tests.support.commands import run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.store import units
from tests.support.tasks import LAPLACE, NO_NOISE, TIME_PRECISION, make_task

GAUSSIAN = {"mechanism": "DiscreteGaussian", "rho": "1/8"}


def task_with(number: int, privacy: dict[str, str | int]) -> Task:
    return make_task(privacy=privacy, id=str(TaskId(bytes([number]) * 32)))


def release(party: AggregatorParty, task: Task, start: int, end: int) -> None:
    """Charge for the batches of one unit from start to end, and reserve the one at end."""
    key, cost = task.task_id.value, charge_of(task)
    for unit in range(start, end):
        party.database.run_sync("charge", lambda tx, u=unit: charge(tx, key, units(u, u + 1), cost))
    party.database.run_sync("reserve", lambda tx: reserve(tx, key, units(end, end + 1), cost))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return the helper's service file; it serves tasks of every kind and has released some."""
    file = service_file(tmp_path, "helper")
    patients = {"population": "patients"}
    with open_aggregator(file) as party:
        for number, (privacy, releases) in enumerate(
            [
                ({**LAPLACE, **patients, "max_batches_per_person": 3, "budget": "7/2"}, 5),
                ({**GAUSSIAN, **patients}, 1),
                ({**LAPLACE, "population": "[staff]"}, 0),
                (dict(NO_NOISE), 0),
            ]
        ):
            task = task_with(number, privacy)
            take_part(party, provision(task, SeededEntropy(number))[Role.HELPER])
            release(party, task, 5, 5 + releases)
    return file


def test_the_ledger_adds_up_per_task_and_per_population(config: Path) -> None:
    done = run_here("ledger", "--config", config, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    laplace, gaussian, staff, plain = document["tasks"]
    assert len(laplace["releases"]) == 6
    assert laplace["releases"][0]["start"] == 5 * TIME_PRECISION
    assert [entry["state"] for entry in laplace["releases"]] == ["charged"] * 5 + ["reserved"]
    assert (laplace["number_of_releases"], laplace["epsilon_of_a_person"]) == (6, "3")
    assert laplace["declared"] == {
        "max_batches_per_person": 3,
        "releases": 3,
        "epsilon": "3/2",
        "delta": "0",
        "rho": format_rational(6 * rho_of_pure(Fraction(1, 4))),
    }
    assert (laplace["budget"], laplace["left"], laplace["most_releases"]) == ("7/2", "1/2", 7)
    assert gaussian["declared"] is gaussian["most_releases"] is None
    assert laplace["smallest_valid"]["valid"]
    # Nothing limits the number of Gaussian releases: there is a rho, and no epsilon.
    assert (gaussian["rho_of_a_person"], gaussian["epsilon_of_a_person"]) == ("1/4", None)
    assert [row["name"] for row in gaussian["bounds"] if row["valid"]] == ["odometer"]
    assert staff["epsilon_of_a_person"] == "1/2"
    assert (plain["releases_that_promise_nothing"], plain["bounds"]) == (1, [])

    patients, members = document["populations"]
    assert (patients["population"], members["population"]) == ("patients", "[staff]")
    assert patients["tasks"] == [laplace["task_id"], gaussian["task_id"]]
    assert patients["number_of_releases"] == 8
    assert patients["epsilon_of_a_person"] is None
    both = Fraction(laplace["rho_of_a_person"]) + Fraction(gaussian["rho_of_a_person"])
    assert Fraction(patients["rho_of_a_person"]) == both
    assert tuple(bound["name"] for bound in patients["bounds"]) == THEOREMS
    assert patients["budget"] is None
    assert not patients["closed"]


@pytest.mark.slow
def test_the_tables_name_the_smallest_valid_bound_and_what_is_not_installed(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = run_here("ledger", "--config", config, "--delta", "1e-5").stdout
    said = " ".join(shown.split())
    assert said.startswith("ε 0.5 a batch, 3.5 in all: task")
    assert "at most: epsilon 3 at delta 0 (smallest valid bound: basic)" in said
    assert "at most: epsilon 1/2 at delta 0 (smallest valid bound: basic)" in said
    assert "ε 2.89" not in said  # and the rest on demand
    assert "prio ledger --all prints the bounds of all" in said
    assert "odometer" in run_here("ledger", "--config", config, "--all").stdout
    assert "added up: epsilon 3, delta 0 (in all of 6 releases)" in said
    assert "keeps to it has spent epsilon 3/2, delta 0 in 3 releases, which no aggregator" in said
    assert "budget: epsilon 7/2, 1/2 left" in said
    assert "each aggregator refuses more than 7 releases" in said
    assert "population '[staff]', added up over its tasks: AgIC" in shown
    assert "releases that promise nothing: 1; no epsilon bounds" in shown
    monkeypatch.setattr(pld, "is_available", lambda: False)
    shown = run_here("ledger", "--config", config, "--all").stdout
    assert "prio-aggregator[accounting]" in "".join(shown.split())


def test_exact_sums_are_said_to_have_no_bound_and_never_to_cost_an_epsilon_of_0(
    tmp_path: Path,
) -> None:
    file = service_file(tmp_path, "helper")
    limited = {"population": "patients", "max_batches_per_person": 3}
    with open_aggregator(file) as party:
        for number, privacy in enumerate([{**NO_NOISE, **limited}, {**LAPLACE, **limited}]):
            task = task_with(number, privacy)
            take_part(party, provision(task, SeededEntropy(number))[Role.HELPER])
            release(party, task, 0, 5)
    document = json.loads(run_here("ledger", "--config", file, "--json").stdout)
    exact, noised = document["tasks"]
    (patients,) = document["populations"]
    assert [each["releases_that_promise_nothing"] for each in (exact, noised, patients)] == [
        6,
        0,
        6,
    ]
    tasks, _, population = run_here("ledger", "--config", file).stdout.partition("population")
    assert tasks.count("a person's cost, added up") == 1
    assert "epsilon 0," not in tasks
    assert "releases that promise nothing: 6" in population
    assert "a person's cost, added up: epsilon 3" in population


@pytest.mark.slow
def test_one_task_is_shown_with_its_whole_population(config: Path) -> None:
    everything = json.loads(run_here("ledger", "--config", config, "--json").stdout)
    first = everything["tasks"][0]["task_id"]
    one = json.loads(run_here("ledger", "--config", config, "--task", first, "--json").stdout)
    assert one["tasks"] == everything["tasks"][:1]
    assert one["populations"] == everything["populations"][:1]


@pytest.mark.parametrize("delta", ["0", "1", "0.0", "0.01", "0.999999999999999", "x"])
def test_a_delta_out_of_range_is_refused(config: Path, delta: str) -> None:
    done = run_here("ledger", "--config", config, "--delta", delta)
    assert done.returncode == 2
    assert "delta" in done.stderr


def test_on_a_terminal_something_moves_while_losses_are_added_up(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    told = run_here("ledger", "--config", config, "--json")
    assert "adding up losses" in told.stderr
    assert json.loads(told.stdout)["version"] == 1
