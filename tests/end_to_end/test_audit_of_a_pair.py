"""`prio audit pair` against two running aggregators, right and with a fault planted in one.

Each aggregator reads the fault that it has from a file at every release. The false alarm of an
audit is 10^-6; every fault below is found with a probability of 1 - 10^-6 at least.
"""

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.protocol.task_file import task_to_toml
from aggregator.steward.audit.fault import FaultKind
from tests.support.commands import Done
from tests.support.processes import Processes
from tests.support.surveys import VISITS, task_of

pytestmark = pytest.mark.slow

LENGTH = "1021"


@dataclasses.dataclass(frozen=True)
class AuditedPair:
    """Two running aggregators, and the command that audits them."""

    services: Processes
    folder: Path

    def fault_file(self, party: str) -> Path:
        return self.folder / f"{party}-fault"

    def plant(self, **faults: str) -> None:
        for party in ("leader", "helper"):
            self.fault_file(party).write_text(faults.get(party, ""))

    def audit(self, *arguments: str, status: int) -> Done:
        return self.services.prio(
            *("audit", "pair", self.folder / "audit"),
            *("--collector", self.services.configs["collector"], *arguments),
            status=status,
        )

    def answer(self, status: int) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.audit("--json", status=status).stdout)
        return answer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedPair]:
    folder = tmp_path_factory.mktemp("pair")
    with Processes(folder) as services:
        pair = AuditedPair(services, folder)
        for party in ("leader", "helper"):
            faulty = (sys.executable, "-m", "tests.support.faulty_noise")
            services.programs[party] = (*faulty, str(pair.fault_file(party)))
        pair.plant()
        services.start("leader", "helper")
        urls = ("--leader", services.urls["leader"], "--helper", services.urls["helper"])
        made = pair.audit(*urls, "--length", LENGTH, status=2)
        assert "prio task add --config" in made.stderr
        missing = pair.audit(status=2)
        assert "the leader's by `prio task add --config" in missing.stderr
        for party in ("leader", "helper"):
            own = folder / "audit" / f"{party}.toml"
            services.prio("task", "add", "--config", services.configs[party], own)
        yield pair


def test_options_of_another_task_are_refused(pair: AuditedPair) -> None:
    other = pair.audit("--length", "77", status=2)
    assert "length: the task in the folder has 1021, not 77" in other.stderr
    nonsense = pair.audit("--false-alarm", "1", status=2)
    assert "false_alarm must be between 0 and 1" in nonsense.stderr
    other = pair.audit("--epsilon", "2", status=2)
    assert "mechanism, epsilon, privacy: the task in the folder has" in other.stderr


def test_an_honest_pair_passes_even_if_it_was_not_ready_at_first(pair: AuditedPair) -> None:
    pair.plant()
    early = pair.audit("--timeout", "0", status=2)
    assert "the batch was not ready in 0 seconds" in early.stderr
    answer = pair.answer(status=0)
    assert answer["refuted"] is False
    assert answer["faults"] == []
    assert answer["noise_of"] == "both"
    assert [each["likeliest_draws_in_the_sum"] for each in answer["scales"]] == [2]
    assert answer["draws_of_each_aggregator"] == 4 * 1021
    assert answer["false_alarm"] == 1e-6
    assert {check["series"] for check in answer["checks"]} == {"leader", "helper", "sum", "pair"}
    again = pair.audit("--last", status=0)
    assert "the law holds, as far as such an audit can see" in again.stdout


@pytest.mark.parametrize(
    ("party", "fault", "kind", "noise_of"),
    [
        ("helper", "dropped", FaultKind.NO_NOISE, "leader"),
        ("leader", "halved", FaultKind.WRONG_SCALE, "both"),
        ("helper", "repeated", FaultKind.REPEATED, "both"),
        ("leader", "correlated", FaultKind.CORRELATED, "both"),
    ],
)
def test_a_fault_of_one_aggregator_is_found_and_named(
    pair: AuditedPair, party: str, fault: str, kind: FaultKind, noise_of: str
) -> None:
    pair.plant(**{party: fault})
    answer = pair.answer(status=1)
    assert [(each["party"], each["kind"]) for each in answer["faults"]] == [(party, kind)]
    assert answer["noise_of"] == noise_of
    honest = {"leader": "helper", "helper": "leader"}[party]
    assert not any(check["is_refused"] for check in answer["checks"] if check["series"] == honest)
    assert any(check["is_refused"] for check in answer["checks"] if check["series"] == "sum")


@pytest.mark.parametrize(
    ("party", "fault", "kind", "check"),
    [
        ("helper", "silent at the end", FaultKind.NO_NOISE, "silence"),
        ("leader", "reversed", FaultKind.REPEATED, "windows"),
    ],
)
def test_a_fault_that_no_draw_shows_by_itself_is_found_and_named(
    pair: AuditedPair, party: str, fault: str, kind: FaultKind, check: str
) -> None:
    pair.plant(**{party: fault})
    answer = pair.answer(status=1)
    assert [(each["party"], each["kind"]) for each in answer["faults"]] == [(party, kind)]
    refused = {(each["series"], each["name"]) for each in answer["checks"] if each["is_refused"]}
    assert (party, check) in refused


def test_silence_on_the_last_cells_of_a_survey_is_found_on_a_task_like_its_own(
    pair: AuditedPair,
) -> None:
    labels = json.dumps([f"label {number}" for number in range(11)])
    questions = "".join(
        f'[[question]]\nname = "{name}"\nkind = "choice"\nlabels = {labels}\n' for name in "abc"
    )
    age = '[[question]]\nname = "age"\nkind = "number"\nlow = 0\nhigh = 100\n'
    survey = pair.folder / "survey.toml"
    survey.write_text(task_to_toml(task_of(VISITS + age + questions)))
    pair.plant(helper="silent at the end")
    folder = pair.folder / "like-a-survey"
    urls = (
        *("--leader", pair.services.urls["leader"]),
        *("--helper", pair.services.urls["helper"]),
    )
    config = ("--collector", pair.services.configs["collector"])
    pair.services.prio("audit", "pair", folder, *config, *urls, "--task", survey, status=2)
    for party in ("leader", "helper"):
        own = folder / f"{party}.toml"
        pair.services.prio("task", "add", "--config", pair.services.configs[party], own)
    answer = json.loads(
        pair.services.prio("audit", "pair", folder, *config, "--json", status=1).stdout
    )
    # Whether a number was given, and three questions, of one scale; the number of another.
    assert [each["sections"] for each in answer["scales"]] == [[0, 2, 3, 4], [1]]
    (fault,) = answer["faults"]
    assert (fault["sections"], fault["party"]) == ([0, 2, 3, 4], "helper")
    assert fault["kind"] == FaultKind.NO_NOISE
