"""Whatever a leader answers, its collector gets on, with this collection and all others.

Real processes: one collector has a task with each kind of leader at once. `test_slow_peers` has the
leader whose fault does not end.
"""

import subprocess
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support.faults import LEADER_FAULTS, LEADER_LIES
from tests.support.faulty_peer import Call, Fault, FaultyPeer
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import Processes

pytestmark = pytest.mark.slow

TASK = (
    *("--vdaf", "Prio3Count", "--epsilon", "1"),
    *("--min-batch-size", "2", "--max-reports", "1000"),
)
FAULTS = {**LEADER_FAULTS, **LEADER_LIES}
SMALL = {"bomb", "counts-too-many", "deep-problem", "endless", "garbled-result", "redirect", "well"}
HOUR = 3600
LIMIT = 600
"""MiB that a service may ever have."""


def to_collections(fault: Fault) -> Fault:
    """Return a fault that is only the collector's: uploads go their way."""

    def answer(call: Call) -> None:
        if "collection_jobs" in call.path:
            fault(call)
        else:
            call.pass_on()

    return answer


class Desk:
    """The collector's API, and the collection of each task that was asked for."""

    def __init__(self, services: Processes, client: httpx.Client) -> None:
        self.services = services
        self._client = client
        self._asked: dict[str, str] = {}

    def ask(self, name: str, task_id: str, batch: Mapping[str, int]) -> None:
        url = f"tasks/{task_id}/collections?now=true"
        answer = self._client.post(url, json=batch).json()
        self._asked[name] = answer["collection_id"]

    def wait_for(self, names: set[str], seconds: float) -> dict[str, dict[str, object]]:
        """Return the collections, once they have ended."""
        deadline = time.monotonic() + seconds
        while True:
            found = {
                name: self._client.get(f"collections/{self._asked[name]}").json() for name in names
            }
            waiting = {k: v["reason"] for k, v in found.items() if v["state"] == "pending"}
            if not waiting:
                return found
            assert time.monotonic() < deadline, waiting
            time.sleep(0.5)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(SMALL, id="small"),
        pytest.param(FAULTS.keys(), id="full", marks=pytest.mark.bench),
    ],
)
def test_a_collector_gets_on_whatever_its_leaders_answer(
    tmp_path: Path, names: AbstractSet[str]
) -> None:
    with ExitStack() as stack:
        services = stack.enter_context(Processes(tmp_path))
        services.started_as = subprocess.Popen
        tasks: dict[str, str] = {}
        files: list[Path] = []
        for name in sorted(names):
            fault = to_collections(FAULTS[name]())
            peer = stack.enter_context(FaultyPeer(services.urls["leader"], fault))
            tasks[name], file = services.make_task(name, *TASK, "--leader", peer.url)
            files.append(file)
        services.start("helper", "leader", "collector")
        begin = int(time.time()) // HOUR * HOUR
        for file in files:
            services.prio("upload", file, "1", "0", "1")
        for each in tasks.values():
            services.wait_until_aggregated(each, 3)

        services.forget_peak_memory("collector")
        client = stack.enter_context(
            httpx.Client(
                base_url=f"{services.urls['collector']}api/",
                headers={"authorization": f"Bearer {services.collector_token}"},
                trust_env=False,
                timeout=PATIENCE_SECONDS,
            )
        )
        desk = Desk(services, client)
        batch = {"start": begin, "end": (int(time.time()) // HOUR + 1) * HOUR}
        for name, task_id in sorted(tasks.items()):
            desk.ask(name, task_id, batch)
        desk.wait_for({"well"}, PATIENCE_SECONDS)
        ended = desk.wait_for(set(names), PATIENCE_SECONDS)

        for name in names - LEADER_LIES.keys():
            result = ended[name]["result"]
            assert isinstance(result, dict), (name, ended[name]["problem"])
            assert result["report_count"] == 3, name
        for name in names & LEADER_LIES.keys():
            problem = ended[name]["problem"]
            assert isinstance(problem, dict), name
            assert problem["title"] == "the result cannot be used", (name, problem)
        assert services.peak_memory("collector") < LIMIT
        log = services.log("collector")
        assert not [line for line in log if line["level"] == "error" or "exception" in line]
