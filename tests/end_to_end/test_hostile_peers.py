"""Whatever a helper answers, no report is lost by it and no other task waits: real processes.

One leader works for a task of each kind of helper at once. `test_slow_peers` has helpers whose
fault does not end.
"""

import itertools
import subprocess
import threading
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.faults import FAULTS, SLOW_TO_END, once
from tests.support.faulty_peer import Call, FaultyPeer
from tests.support.flat import repeat_until_flat
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import Processes

pytestmark = pytest.mark.slow

TASK = (
    *("--vdaf", "Prio3Count", "--epsilon", "1"),
    *("--min-batch-size", "2", "--max-reports", "1000"),
)
SETTINGS = {"request_timeout_seconds": 1000}
"""Who waited for a helper that is silent would do so beyond all patience."""
LIMIT = 600
"""MiB that a service may ever have."""


def wait_until_aggregated(services: Processes, tasks: dict[str, str], reports: int) -> None:
    for name, task_id in tasks.items():
        services.wait_until_aggregated(task_id, reports)
        assert services.counts(task_id) == {"aggregated": reports}, name


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(FAULTS.keys() - SLOW_TO_END, id="small"),
        pytest.param(FAULTS.keys(), id="full", marks=pytest.mark.bench),
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

    faults = {**FAULTS, "silent": once(silent)}
    with ExitStack() as stack:
        services = stack.enter_context(Processes(tmp_path, **SETTINGS))
        services.started_as = subprocess.Popen
        tasks: dict[str, str] = {}
        peers: dict[str, FaultyPeer] = {}
        files: list[Path] = []
        for name in sorted(names):
            prefix = "behind/a/proxy" if name == "well" else ""
            peer = FaultyPeer(services.urls["helper"], faults[name](), prefix)
            peers[name] = stack.enter_context(peer)
            tasks[name], file = services.make_task(name, *TASK, "--helper", peer.url)
            files.append(file)
        services.start("helper", "leader")
        rounds = itertools.count(1)

        def attack() -> None:
            is_well.clear()
            reports = 3 * next(rounds)
            for name, peer in peers.items():
                peer.fault = faults[name]()
            for file in files:
                services.prio("upload", file, "1", "0", "1")
            wait_until_aggregated(services, {"well": tasks["well"]}, reports)
            is_well.set()
            wait_until_aggregated(services, tasks, reports)

        assert repeat_until_flat(services, "leader", attack) < LIMIT
        log = services.log_path("leader").read_text()
        assert [line for line in log.splitlines() if "Traceback" in line] == []
