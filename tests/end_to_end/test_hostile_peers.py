"""Whatever a helper answers, no report is lost by it and no other task waits: real processes.

One leader works for a task of each kind of helper at once. `test_slow_peers` has helpers whose
trouble does not end.
"""

import json
import subprocess
import threading
import time
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.hostile_peers import SLOW_TO_END, TROUBLES, once
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import Processes
from tests.support.slow_peers import Call, SlowPeer

pytestmark = pytest.mark.slow

TASK = (
    *("--vdaf", "Prio3Count", "--epsilon", "1"),
    *("--min-batch-size", "2", "--max-reports", "1000"),
)
SETTINGS = {"request_timeout_seconds": 1000}
"""Who waited for a helper that is silent would do so beyond all patience."""
LIMIT = 600
"""MiB that a service may ever have."""


def aggregation(services: Processes, task_id: str) -> dict[str, int]:
    shown = services.prio("task", "show", "--config", services.configs["leader"], task_id)
    counts: dict[str, int] = json.loads(shown.stdout)["reports"]["aggregation"]
    return counts


def wait_until_aggregated(services: Processes, tasks: dict[str, str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    for name, task_id in tasks.items():
        while (counts := aggregation(services, task_id)) != {"aggregated": 3}:
            assert time.monotonic() < deadline, (name, counts)
            time.sleep(0.5)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(TROUBLES.keys() - SLOW_TO_END, id="small"),
        pytest.param(TROUBLES.keys(), id="full", marks=pytest.mark.bench),
    ],
)
def test_reports_outlast_whatever_a_helper_answers_and_keep_no_other_waiting(
    tmp_path: Path, names: Collection[str]
) -> None:
    is_well = threading.Event()

    def silent(call: Call) -> None:
        """Say nothing before the reports of the one that is well are counted, and end then."""
        is_well.wait(PATIENCE_SECONDS)
        call.write([])

    troubles = {**TROUBLES, "silent": once(silent)}
    with ExitStack() as stack:
        services = stack.enter_context(Processes(tmp_path, **SETTINGS))
        services.started_as = subprocess.Popen
        tasks: dict[str, str] = {}
        files: list[Path] = []
        for name in sorted(names):
            prefix = "behind/a/proxy" if name == "well" else ""
            peer = stack.enter_context(SlowPeer(services.urls["helper"], troubles[name](), prefix))
            tasks[name], file = services.make_task(name, *TASK, "--helper", peer.url)
            files.append(file)
        services.start("helper", "leader")
        for file in files:
            services.prio("upload", file, "1", "0", "1")
        wait_until_aggregated(services, {"well": tasks["well"]})
        is_well.set()
        wait_until_aggregated(services, tasks)
        log = services.log_path("leader").read_text()
        assert [line for line in log.splitlines() if "Traceback" in line] == []
        assert services.peak_memory("leader") < LIMIT
