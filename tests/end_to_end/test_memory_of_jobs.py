"""As many of the largest jobs as a leader steps at once, in flight together: real processes."""

import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest

from aggregator.service.leader.job_creator import MAX_JOB_BYTES
from tests.support.faulty_peer import Call, FaultyPeer
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import Processes
from tests.support.uploader import Uploader, errors_of

pytestmark = [pytest.mark.slow, pytest.mark.bench]

LENGTH = 10_000
TASK = (
    *("--vdaf", "Prio3Histogram", "--length", str(LENGTH), "--mechanism", "None"),
    *("--privacy", "max_releases=1", "--min-batch-size", "2", "--max-reports", "100000"),
)
JOBS = 8
BYTES_OF_REPORT = 160_000
"""At least: a leader's share is 16 bytes for each place."""

REPORTS = JOBS * MAX_JOB_BYTES // BYTES_OF_REPORT
LIMIT = 600
"""MiB that a service may ever have."""


def test_eight_of_the_largest_jobs_in_flight_stay_below_the_bound(tmp_path: Path) -> None:
    all_there = threading.Event()

    def answer(call: Call) -> None:
        if peer.calls >= JOBS:
            all_there.set()
        assert all_there.wait(PATIENCE_SECONDS)
        call.pass_on()

    settings = {
        "concurrency": JOBS,
        "helper_concurrency": JOBS,
        "linger_seconds": 30,
        "request_timeout_seconds": 400,
    }
    with (
        Processes(tmp_path, **settings) as services,
        FaultyPeer(services.urls["helper"], answer) as peer,
        httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as http,
    ):
        services.started_as = subprocess.Popen
        task_id, task_file = services.make_task("survey", *TASK, "--helper", peer.url)
        services.start("helper", "leader")
        uploader = Uploader(services, task_file, http)
        while uploader.accepted < REPORTS:
            sent = uploader.send(50)
            if sent.status_code in (429, 503):
                time.sleep(1)
                continue
            assert errors_of(sent) == []
        services.wait_until_aggregated(task_id, REPORTS)
        for name in ("leader", "helper"):
            peak = services.peak_memory(name)
            print(f"{name}: {peak} MiB at most, {uploader.accepted} reports")  # noqa: T201 - a measurement, with -s
            assert peak < LIMIT
