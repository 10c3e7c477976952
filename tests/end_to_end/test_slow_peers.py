"""One slow or silent party keeps nobody waiting but those who need it: real processes."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aggregator.service.leader.upload_checks import MAX_REPORTS
from tests.support import hostile
from tests.support.faulty_peer import Call, FaultyPeer, dripping
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import WORKER, Processes

pytestmark = pytest.mark.slow

TASK = (
    *("--vdaf", "Prio3Count", "--epsilon", "1"),
    *("--min-batch-size", "2", "--max-reports", "1000"),
)
JOB_SIZE = 50
FLOODED = (*TASK[:-1], "1000000")
PATIENT = """
from aggregator.cli import main
from aggregator.service.transport import client
client.open_client.__defaults__ = (1000,)
main()
"""
"""`prio`, which waits for an answer beyond all patience."""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as made:
        yield made


def test_a_helper_that_drips_keeps_no_other_task_waiting(tmp_path: Path) -> None:
    # Who waited for the one that drips would do so beyond all patience.
    with (
        Processes(tmp_path, request_timeout_seconds=1000) as processes,
        FaultyPeer(processes.urls["helper"], dripping(5)) as slow,
    ):
        _, slow_task = processes.make_task("slow", *TASK, "--helper", slow.url)
        task_id, task = processes.make_task("well", *TASK)
        processes.start("helper", "leader")
        processes.prio("upload", slow_task, "1")
        slow.wait_for_calls(1)
        processes.prio("upload", task, *("1" for _ in range(20)))
        processes.wait_until_aggregated(task_id, 20)
        assert slow.calls == 1


def test_a_helper_that_drips_is_asked_by_one_of_its_many_jobs_at_a_time(tmp_path: Path) -> None:
    small_jobs = {"aggregation_job_size": 1, "request_timeout_seconds": 2}
    with (
        Processes(tmp_path, **small_jobs) as processes,
        FaultyPeer(processes.urls["helper"], dripping(1)) as slow,
    ):
        _, slow_task = processes.make_task("slow", *TASK, "--helper", slow.url)
        task_id, task = processes.make_task("well", *TASK)
        processes.start("helper", "leader")
        processes.prio("upload", slow_task, *("1" for _ in range(40)))
        slow.wait_for_calls(4)

        def is_asked_by_one() -> bool:  # several may have begun before the first had no answer
            before = slow.calls
            time.sleep(2.5)
            return slow.calls - before <= 1

        wait_until(is_asked_by_one)
        began = time.monotonic()
        before = slow.calls
        processes.prio("upload", task, *("1" for _ in range(20)))
        processes.wait_until_aggregated(task_id, 20)
        slow.wait_for_calls(before + 4)
        # Each lasts two seconds, and its job may be asked about again at once.
        assert slow.calls - before <= 1 + (time.monotonic() - began) / 2


def test_two_workers_whose_helper_takes_longer_than_a_lease_do_not_take_turns(
    tmp_path: Path,
) -> None:
    """Three attempts of five seconds would outlast a lease of twelve, and the job change hands."""

    def late(call: Call) -> None:
        number = slow.calls
        if number <= 3:  # what comes then has time for its answer
            call.wait(5)
        if number < 3:
            call.answer(503)
        else:
            call.pass_on()

    leases = {"request_timeout_seconds": 6}
    with (
        Processes(tmp_path, **leases) as processes,
        FaultyPeer(processes.urls["helper"], late) as slow,
    ):
        task_id, task = processes.make_task("slow", *TASK, "--helper", slow.url)
        processes.start("helper", "leader", WORKER)
        processes.prio("upload", task, "1", "1", "1")
        processes.wait_until_aggregated(task_id, 3)
        lines = [line for name in ("leader", WORKER) for line in processes.log(name)]
        finished = [line for line in lines if line["event"] == "aggregation job finished"]
        assert len(finished) == 1
        # A driver that is about to renew its lease may find that it has just given it up itself.
        own_ends = ("job waits", "aggregation job finished")
        given_up = {line["trace_id"] for line in lines if line["event"] in own_ends}
        taken = "job taken by another driver, or deleted"
        assert not [
            line for line in lines if line["event"] == taken and line["trace_id"] not in given_up
        ]


def test_a_leader_that_drips_keeps_no_other_collection_waiting(processes: Processes) -> None:
    with FaultyPeer(processes.urls["leader"], dripping(5)) as slow:
        slow_id, _ = processes.make_task("slow", *TASK, "--leader", slow.url)
        task_id, task = processes.make_task("well", *TASK)
        processes.programs["collector"] = (sys.executable, "-c", PATIENT)
        processes.start("helper", "leader", "collector")
        processes.prio("upload", task, "1", "1", "1")
        hour = int(time.time()) // 3600 * 3600
        token = {"authorization": f"Bearer {processes.collector_token}"}
        api = f"{processes.urls['collector']}api/"
        with httpx.Client(
            base_url=api, headers=token, trust_env=False, timeout=PATIENCE_SECONDS
        ) as client:
            query = {"start": hour - 3600, "end": hour + 3600}
            client.post(f"tasks/{slow_id}/collections?now=true", json=query)
            slow.wait_for_calls(1)
            asked = client.post(f"tasks/{task_id}/collections?now=true", json=query).json()
            url = f"collections/{asked['collection_id']}"
            wait_until(lambda: client.get(url).json()["state"] != "pending")
            assert client.get(url).json()["state"] == "finished"
            assert slow.calls == 1


@pytest.mark.parametrize(
    "count", [pytest.param(5_000), pytest.param(200_000, marks=pytest.mark.bench)]
)
def test_a_flood_of_junk_for_one_task_delays_no_other(tmp_path: Path, count: int) -> None:
    with Processes(tmp_path, aggregation_job_size=JOB_SIZE) as processes:
        flooded_id, flooded = processes.make_task("flooded", *FLOODED)
        task_id, well = processes.make_task("well", *TASK)
        processes.commands["leader"] = ("leader", "serve")  # jobs begin when all has come
        processes.start("helper", "leader")
        url = f"{processes.urls['leader']}tasks/{flooded_id}/reports"
        with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
            for first in range(0, count, MAX_REPORTS):
                body = hostile.undecryptable_reports(flooded, min(MAX_REPORTS, count - first))
                headers = {"content-type": "application/ppm-dap;message=upload-req"}
                assert client.post(url, content=body, headers=headers).content == b""
        processes.prio("upload", well, *("1" for _ in range(20)))
        processes.start(WORKER)
        processes.wait_until_aggregated(task_id, 20)
        finished = [
            line["task"]
            for line in processes.log(WORKER)
            if line["event"] == "aggregation job finished"
        ]
        # As many as are stepped at once, and some that end while others begin.
        assert finished.index(task_id) < count / JOB_SIZE / 2
