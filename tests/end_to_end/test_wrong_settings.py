"""A helper with wrong settings, over processes: what waits is listed, and every report is counted.

The size is that of one full aggregation job of the leader, and the helper's limit the least.
"""

import csv
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import patience
from tests.support.commands import run_here
from tests.support.processes import COMMANDS, Processes

pytestmark = pytest.mark.slow

HOUR = 3600
REPORTS = 512
NEW_TASK = (
    *("--vdaf", "Prio3Count", "--privacy", "max_releases=1", "--mechanism", "None"),
    *("--min-batch-size", "50", "--max-reports", "100000"),
)
LEAST_BODY = 64 * 2**10


def waiting(services: Processes) -> list[dict[str, object]]:
    done = services.prio("job", "list", "--config", services.configs["leader"], "--json")
    rows: list[dict[str, object]] = json.loads(done.stdout)["jobs"]
    return rows


def wait_until(services: Processes, seen: Callable[[list[dict[str, object]]], bool]) -> None:
    patience.wait_until(lambda: seen(waiting(services)))


def test_reports_outlast_wrong_settings_of_the_helper(tmp_path: Path) -> None:
    csv_file = tmp_path / "answers.csv"
    with csv_file.open("w", newline="") as file:
        csv.writer(file).writerows([["answer"], *([index % 2] for index in range(REPORTS))])
    start = int(time.time()) // HOUR * HOUR - HOUR
    with Processes(tmp_path) as services:
        task_id, task_file = services.make_task("task", *NEW_TASK)
        services.change("helper", max_body_size=LEAST_BODY)
        right = services.configs["helper"].read_text()
        services.change("helper", min_batch_size=100)
        services.start(*COMMANDS)
        services.prio(
            *("upload", task_file, "--csv", csv_file, "--column", "answer", "--time", str(start))
        )
        wait_until(services, lambda rows: any(int(str(row["failures"])) > 1 for row in rows))
        refused = [row for row in waiting(services) if row["failures"]]
        assert all("does not take part" in str(row["reason"]) for row in refused)
        assert sum(int(str(row["reports"])) for row in waiting(services)) == REPORTS

        assert services.stop("helper") == 0
        services.configs["helper"].write_text(right)  # its limit is still less than one job
        services.start("helper")
        for row in waiting(services):
            # The worker may be quicker: a job that it has finished is nothing to try again.
            retry = ("job", "retry", "--config", services.configs["leader"], str(row["job"]))
            done = run_here(*retry)
            assert done.returncode == 0 or "it is finished" in done.stderr, done
        collected = services.prio(
            *("collect", "--config", services.configs["collector"], task_id, "--json"),
            *("--start", str(start), "--end", str(start + HOUR)),
        )
        result = json.loads(collected.stdout)["result"]
        assert (result["report_count"], result["values"]) == (REPORTS, [REPORTS // 2])
        assert waiting(services) == []
