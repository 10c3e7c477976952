"""The way of README and docs/operations/deploy.md, by the command line, over three processes."""

import csv
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.bounds import assert_near
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import COMMANDS, WORKER, Processes, run_prio

pytestmark = pytest.mark.slow

HOUR = 3600
BUCKETS = ("excellent", "good", "fair", "poor")
ANSWERS = [BUCKETS[index * index % 4] for index in range(90)]
NEW_TASK = (
    *("--vdaf", "Prio3Histogram", "--length", "4", "--epsilon", "1"),
    *("--min-batch-size", "50", "--max-reports", "100000"),
)


@dataclass(frozen=True)
class Line:
    """Three running services and a task with the reports of one hour at the leader."""

    services: Processes
    task_id: str
    task_file: Path
    csv_file: Path
    start: int

    @property
    def interval(self) -> tuple[str, ...]:
        return "--start", str(self.start), "--end", str(self.start + HOUR)

    def upload(self, *arguments: str | Path, status: int = 0, task: Path | None = None) -> str:
        """Upload, and return all that was printed."""
        done = self.services.prio("upload", task or self.task_file, *arguments, status=status)
        return done.stdout + done.stderr

    def collect(self, *arguments: str, status: int = 0, task_id: str | None = None) -> str:
        """Collect, and return all that was printed."""
        config = self.services.configs["collector"]
        done = self.services.prio(
            "collect", "--config", config, task_id or self.task_id, *arguments, status=status
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    folder = tmp_path_factory.mktemp("line")
    csv_file = folder / "answers.csv"
    with csv_file.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "health"])
        writer.writerows(enumerate(ANSWERS))
    # The hour before this one: no report falls into the next hour while the test runs.
    start = int(time.time()) // HOUR * HOUR - HOUR
    with Processes(folder) as services:
        services.started_as = subprocess.Popen  # a start is part of what is tested here
        task_id, task_file = services.make_task("task", *NEW_TASK)
        services.start(*COMMANDS, WORKER)
        made = Line(services, task_id, task_file, csv_file, start)
        uploaded = run_prio(
            *("upload", task_file, "--csv", csv_file, "--column", "health"),
            *("--buckets", ",".join(BUCKETS), "--time", str(start)),
        )
        assert f"{len(ANSWERS)} of {len(ANSWERS)} reports accepted" in uploaded.stdout
        yield made
        for name in (*COMMANDS, WORKER):
            assert services.stop(name) == 0


def test_what_was_uploaded_comes_out_within_the_noise_and_stays_the_same(line: Line) -> None:
    counts = Counter(ANSWERS)
    config = line.services.configs["collector"]
    collected = run_prio("collect", "--config", config, line.task_id, *line.interval, "--json")
    assert collected.returncode == 0, collected.stderr
    first = json.loads(collected.stdout)
    result = first["result"]
    assert result["report_count"] == len(ANSWERS)
    truth = [counts[bucket] for bucket in BUCKETS]
    assert_near(result["values"], truth, line.task_file.read_text())
    assert result["privacy"]["epsilon"] == "1"

    again = json.loads(line.collect(*line.interval, "--json"))
    assert again == first
    table = line.collect(*line.interval, "--buckets", ",".join(BUCKETS))
    for bucket, value in zip(BUCKETS, result["values"], strict=True):
        assert any(bucket in row and f"{value:,}" in row for row in table.splitlines())


def test_both_aggregators_have_counted_every_report_once_and_charged_once(line: Line) -> None:
    line.collect(*line.interval)
    for party in ("leader", "helper"):
        config = line.services.configs[party]
        assert line.services.counts(line.task_id, party) == {"aggregated": len(ANSWERS)}
        spent = json.loads(line.services.prio("ledger", "--config", config, "--json").stdout)
        (task,) = [each for each in spent["tasks"] if each["task_id"] == line.task_id]
        assert [release["state"] for release in task["releases"]] == ["charged"]
        assert task["epsilon_of_a_person"] == "1"
        assert line.task_id in line.services.prio("task", "list", "--config", config).stdout


def test_the_collector_service_shows_the_same_result_as_the_command(line: Line) -> None:
    collected = json.loads(line.collect(*line.interval, "--json"))
    url = f"{line.services.urls['collector']}api/tasks/{line.task_id}/collections"
    token = {"authorization": f"Bearer {line.services.collector_token}"}
    assert (
        collected
        in httpx.get(url, headers=token, timeout=PATIENCE_SECONDS).raise_for_status().json()
    )
    assert httpx.get(url, timeout=PATIENCE_SECONDS).status_code == 401
    rebound = httpx.get(url, headers=token | {"host": "evil.example"}, timeout=PATIENCE_SECONDS)
    assert rebound.status_code == 421


def test_an_unknown_task_is_refused(line: Line) -> None:
    text = line.task_file.read_text()
    other = line.services.folder / "other.toml"
    other.write_text(text.replace(line.task_id, "A" * 43))
    assert "not known" in line.upload("1", task=other, status=3)
    said = line.collect(*line.interval, task_id="A" * 43, status=2)
    assert f"no task {'A' * 43}" in said
    assert "task id" in line.collect(*line.interval, task_id="short", status=2)


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [(b"\0\1\2", 400, "invalidMessage"), (bytes(65 * 2**20), 413, "message-too-large")],
    ids=["truncated", "oversized"],
)
def test_a_body_that_is_not_an_upload_is_refused(
    line: Line, body: bytes, status: int, problem: str
) -> None:
    answer = httpx.post(
        f"{line.services.urls['leader']}tasks/{line.task_id}/reports",
        content=body,
        headers={"Content-Type": "application/ppm-dap;message=upload-req"},
        timeout=PATIENCE_SECONDS,
    )
    assert (answer.status_code, answer.json()["type"].rsplit(":")[-1]) == (status, problem)


def test_a_report_from_the_future_is_refused_by_name(line: Line) -> None:
    in_a_week = str(line.start + 7 * 24 * HOUR)
    said = line.upload("0", "1", "--time", in_a_week, status=1)
    assert "0 of 2 reports accepted" in said
    assert "2 refused: report_too_early" in said


def test_a_batch_below_the_minimum_is_refused_and_its_reports_stay(line: Line) -> None:
    earlier = line.start - 10 * HOUR
    line.upload("0", "--time", str(earlier))
    interval = ("--start", str(earlier), "--end", str(earlier + HOUR))
    assert "fewer than min_batch_size = 50" in line.collect(*interval, status=3)
    line.upload(*["1"] * 49, "--time", str(earlier))
    assert json.loads(line.collect(*interval, "--json"))["result"]["report_count"] == 50


def test_a_second_collection_of_the_same_reports_is_refused(line: Line) -> None:
    line.collect(*line.interval)
    wider = ("--start", str(line.start - HOUR), "--end", str(line.start + HOUR))
    assert "collected before" in line.collect(*wider, status=3)


def test_a_late_report_of_a_collected_batch_is_refused_by_name(line: Line) -> None:
    line.collect(*line.interval)
    said = line.upload("3", "--time", str(line.start), status=1)
    assert "1 refused: batch_collected (the batch of that time was collected)" in said


def test_an_interval_off_the_time_precision_is_refused(line: Line) -> None:
    said = line.collect("--start", str(line.start + 1), "--end", str(line.start + HOUR), status=2)
    assert "start: must be a multiple" in said
    assert "start: missing" in line.collect(status=2)
    assert "end: missing" in line.collect("--start", str(line.start), status=2)


@pytest.mark.parametrize(
    ("measurement", "message"),
    [("4", "0 to 3"), ("-1", "0 to 3"), ("two", "must be an integer, not 'two'")],
)
def test_a_measurement_out_of_range_stops_the_upload_before_it_starts(
    line: Line, measurement: str, message: str
) -> None:
    said = line.upload("0", "--", measurement, status=2)
    assert "measurement 2" in said
    assert message in said


def test_a_cell_that_is_not_a_number_is_named_by_its_line(line: Line, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("bucket\n1\n2\nmany\n")
    said = line.upload("--csv", table, "--column", "bucket", status=2)
    assert "line 4" in said
    assert "'many'" in said
    assert "'size'" in line.upload("--csv", table, "--column", "size", status=2)
    assert "No such file" in line.upload("--csv", tmp_path / "no.csv", "--column", "x", status=2)


def test_an_aggregator_that_is_not_there_is_reported(line: Line, tmp_path: Path) -> None:
    elsewhere = tmp_path / "task.toml"
    text = line.task_file.read_text()
    elsewhere.write_text(text.replace(line.services.urls["leader"], "http://127.0.0.1:9/"))
    assert "127.0.0.1" in line.upload("1", task=elsewhere, status=3)


def test_another_partys_file_is_refused(line: Line) -> None:
    services = line.services
    wrong = line.task_file.with_name("helper.toml")
    done = services.prio("task", "add", "--config", services.configs["leader"], wrong, status=2)
    assert "leader's file" in done.stderr
    add = ("task", "add", "--config", services.configs["leader"], line.task_file)
    assert "[secrets]" in services.prio(*add, status=2).stderr
