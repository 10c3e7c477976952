"""A leader-selected task by the command line, over three processes of which the leader dies."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aggregator.collector import Collector
from tests.support.bounds import assert_near
from tests.support.processes import COMMANDS, Processes

pytestmark = pytest.mark.slow

SIZE = 20
NEW_TASK = (
    *("--vdaf", "Prio3Histogram", "--length", "4", "--epsilon", "1"),
    *("--batch-mode", "leader-selected"),
    *("--min-batch-size", str(SIZE), "--max-reports", "1000", "--privacy", "max_releases=2"),
)


@dataclass(frozen=True)
class Line:
    """Three running services and a leader-selected task."""

    services: Processes
    task_id: str
    task_file: Path

    def upload(self, *measurements: str) -> None:
        done = self.services.prio("upload", self.task_file, *measurements)
        assert f"{len(measurements)} of {len(measurements)} reports accepted" in done.stdout

    def collect(self, *arguments: str, status: int = 0) -> str:
        """Collect the next batch, and return all that was printed."""
        config = self.services.configs["collector"]
        done = self.services.prio(
            "collect", "--config", config, self.task_id, *arguments, status=status
        )
        return done.stdout + done.stderr

    def check(self, document: str, truth: list[int]) -> list[int]:
        """Check a batch's result and return its values."""
        result = json.loads(document)["result"]
        assert result["report_count"] == SIZE
        values: list[int] = result["values"]
        assert_near(values, truth, self.task_file.read_text())
        return values


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with Processes(tmp_path) as services:
        task_id, task_file = services.make_task("task", *NEW_TASK)
        services.start(*COMMANDS)
        yield Line(services, task_id, task_file)


def test_each_collection_gets_the_next_batch_and_each_batch_is_released_once(line: Line) -> None:
    line.upload(*["0"] * SIZE, *["1"] * (SIZE - 1))
    collected = [line.check(line.collect("--json"), [SIZE, 0, 0, 0])]
    line.services.kill("leader")
    line.services.start("leader")
    assert "was not ready" in line.collect("--timeout", "3", status=3)
    line.upload("2")
    line.upload(*["3"] * SIZE)  # before the second release, after which none are accepted
    config = line.services.configs["collector"]
    with Collector.open(config) as notebook:
        found = notebook.collect_next(notebook.task(line.task_id))
    collected.append(line.check(json.dumps(found.document), [0, SIZE - 1, 1, 0]))
    kept = json.loads(
        line.services.prio("collector", "results", "--config", config, line.task_id).stdout
    )
    assert [each["state"] for each in kept] == ["finished", "finished"]
    assert [each["result"]["values"] for each in kept] == collected

    assert "max_releases: all 2 releases that the task allows" in line.collect(status=3)
    batches = []
    for party in ("leader", "helper"):
        config = line.services.configs[party]
        spent = json.loads(line.services.prio("ledger", "--config", config, "--json").stdout)
        releases = spent["tasks"][0]["releases"]
        assert [release["state"] for release in releases] == ["charged", "charged"]
        batches.append([release["batch_id"] for release in releases])
    assert batches[0] == batches[1]
    assert len(set(batches[0])) == 2

    named = line.collect("--start", "0", "--end", "3600", status=2)
    assert "start: the task is leader_selected" in named
