"""Two processes of each aggregator over PostgreSQL, of which one at a time is killed in rounds."""

import time
from pathlib import Path

import anyio
import httpx
import pytest

from tests.support.empty_store import SERVER
from tests.support.measured_task import HOUR, make_measured_task
from tests.support.processes import Processes
from tests.support.sudden_death import (
    Patient,
    ReaperOfOne,
    explained,
    failures_in_logs,
    upload_and_collect,
)

pytestmark = pytest.mark.slow

REPORTS = 240  # of each of two tasks
BUCKETS = 5
REPORTS_PER_REQUEST = 10
PACE_SECONDS = 0.25
REST_SECONDS = (0.5, 1.2)
KILLS = 8
LEAST_KILLS = 4
ROUNDS_ON_DEMAND = range(1, 21)
PARTIES = ("leader", "helper")


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.bench) for each in ROUNDS_ON_DEMAND)]
)
def test_every_report_is_counted_once_whichever_process_dies(
    tmp_path: Path, postgresql_server: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setenv(SERVER, postgresql_server)
    start = int(time.time()) // HOUR * HOUR - HOUR
    settings = {
        "lease_seconds": 3,
        "request_timeout_seconds": 2,
        "work_interval_seconds": 0.2,
        "aggregation_job_size": 20,
    }
    with Processes(tmp_path, **settings) as services:
        for party in PARTIES:
            services.options[party] = ("--processes=2",)
        tasks = [
            make_measured_task(services, name, REPORTS, BUCKETS, start, privacy)
            for name, privacy in (("exact", "--mechanism=None"), ("noised", "--epsilon=1"))
        ]
        transport = Patient(PACE_SECONDS)
        reaper = ReaperOfOne(services, PARTIES, REST_SECONDS, seed)
        with explained(services, reaper, transport):
            services.start(*PARTIES)
            bodies = anyio.run(
                upload_and_collect, tasks, transport, reaper, KILLS, REPORTS_PER_REQUEST
            )

            assert sum(reaper.kills.values()) >= LEAST_KILLS
            assert transport.failures == []
            assert failures_in_logs(services, *PARTIES) == []
            for asked, body in zip(tasks, bodies, strict=True):
                asked.assert_right(asked.open(body))
                asked.assert_counted_once()

            async def again() -> list[bytes]:
                async with httpx.AsyncClient(timeout=30) as http:
                    return [await asked.collect(http) for asked in tasks]

            assert anyio.run(again) == bodies
            for party in PARTIES:
                assert services.stop(party) == 0
                journal = tmp_path / f"{party}.sqlite.journal"
                assert len(journal.read_text().splitlines()) == 1 + len(tasks)
