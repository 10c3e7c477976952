"""Both aggregators killed again and again while reports are uploaded, verified and collected.

They keep their stores in files; test_rounds_of_deaths.py does the same with PostgreSQL servers.
"""

import json
import time
from pathlib import Path

import anyio
import httpx
import pytest

from tests.support.measured_task import HOUR, make_measured_task
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import COMMANDS, Processes
from tests.support.sudden_death import (
    Patient,
    Reaper,
    explained,
    failures_in_logs,
    upload_and_collect,
)

pytestmark = pytest.mark.slow

REPORTS = 600  # of each of two tasks
BUCKETS = 6
REPORTS_PER_REQUEST = 20
KILLS = 8
LEAST_KILLS = 5
"""A batch that is there earlier was uploaded too quickly for this test to say anything."""
PACE_SECONDS = 0.2
"""Between a client's requests, so that a quick machine has no fewer deaths in the middle."""


def test_every_report_is_counted_once_whenever_an_aggregator_dies(tmp_path: Path) -> None:
    start = int(time.time()) // HOUR * HOUR - HOUR
    settings = {
        "request_timeout_seconds": 2,
        "work_interval_seconds": 0.2,
        "aggregation_job_size": 40,
    }
    with Processes(tmp_path, **settings) as services:
        exact = make_measured_task(services, "exact", REPORTS, BUCKETS, start, "--mechanism=None")
        noised = make_measured_task(services, "noised", REPORTS, BUCKETS, start, "--epsilon=1")
        transport = Patient(PACE_SECONDS)
        reaper = Reaper(services, ("leader", "helper"), (0.1, 0.8))
        with explained(services, reaper, transport):
            services.start("leader", "helper")
            bodies = anyio.run(
                upload_and_collect, [exact, noised], transport, reaper, KILLS, REPORTS_PER_REQUEST
            )

            assert sum(reaper.kills.values()) >= LEAST_KILLS
            transport.assert_no_failure()
            assert failures_in_logs(services, "leader", "helper") == []
            values = [asked.open(body) for asked, body in zip((exact, noised), bodies, strict=True)]
            for asked, found in zip((exact, noised), values, strict=True):
                asked.assert_right(found)
                asked.assert_counted_once()

            # Nothing is drawn again: after another death the sealed bytes are the same.
            for party in ("leader", "helper"):
                services.kill(party)
            services.start(*COMMANDS)

            async def again() -> list[bytes]:
                async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as http:
                    return [await asked.collect(http) for asked in (exact, noised)]

            assert anyio.run(again) == bodies
            done = services.prio(
                "collect",
                *("--config", services.configs["collector"], noised.task_id),
                *("--start", str(start), "--end", str(start + HOUR), "--json"),
            )
            assert json.loads(done.stdout)["result"]["values"] == values[1]
