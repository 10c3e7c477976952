"""Each aggregator as several processes over one file, of which some are killed.

test_rounds_of_deaths.py does the same over PostgreSQL servers.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import httpx
import pytest

from tests.support.measured_task import HOUR, make_measured_task
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import free_ports
from tests.support.processes import Processes
from tests.support.sudden_death import Patient, explained, failures_in_logs

pytestmark = pytest.mark.slow

REPORTS = 200
BUCKETS = 5
PROCESSES = 3


def test_processes_over_one_store_count_every_report_once_though_some_are_killed(
    tmp_path: Path,
) -> None:
    start = int(time.time()) // HOUR * HOUR - HOUR
    settings = {
        "request_timeout_seconds": 2,
        "work_interval_seconds": 0.1,
        "aggregation_job_size": 20,
    }
    with Processes(tmp_path, **settings) as services:
        for party in ("leader", "helper"):
            services.options[party] = (f"--processes={PROCESSES}",)
        asked = make_measured_task(services, "task", REPORTS, BUCKETS, start, "--mechanism=None")
        transport = Patient()

        async def upload_and_collect() -> bytes:
            async with httpx.AsyncClient(transport=transport, timeout=30) as http:
                await asked.upload(http, 20)
                for party in ("leader", "helper"):
                    os.kill(services.children(party)[0], signal.SIGKILL)
                return await asked.collect(http)

        with explained(services, transport):
            services.start("leader", "helper")
            assert len(services.children("leader")) == PROCESSES
            asked.assert_right(asked.open(anyio.run(upload_and_collect)))
            asked.assert_counted_once()
            assert transport.failures == []
            assert failures_in_logs(services, "leader", "helper") == []
            for party in ("leader", "helper"):
                assert services.stop(party) == 0


def test_what_is_wrong_with_a_store_is_said_once_whatever_the_number(tmp_path: Path) -> None:
    config = tmp_path / "helper.toml"
    config.write_text(
        f'service.role = "helper"\nservice.database = "{tmp_path}/helper.sqlite"\n'
        f'keys.store_key_file = "{tmp_path}/key"\nservice.listen = "127.0.0.1:{free_ports(1)[0]}"\n'
    )
    (tmp_path / "helper.sqlite").write_bytes(b"this is no database" * 100)
    command = [sys.executable, "-m", "aggregator.cli", "helper", "serve", "--processes=3"]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    said = done.stdout + done.stderr
    assert said.count("helper.sqlite") == 1, said
