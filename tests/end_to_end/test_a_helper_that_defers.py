"""A helper of two processes, a front and a worker, which die where a job that waits could be lost.

`tests/integration/test_a_helper_that_defers.py` has the rest, in memory.
"""

import time
from pathlib import Path

import anyio
import httpx
import pytest
from sqlalchemy import func, select, update

from aggregator.cli.service.parties import open_aggregator
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from tests.support.measured_task import HOUR, make_measured_task
from tests.support.mortal import Fate
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import HELPER_WORKER, Processes
from tests.support.sudden_death import Patient, explained, failures_in_logs

pytestmark = pytest.mark.slow

REPORTS = 40
BUCKETS = 5
DEATHS = {
    "helper": [
        ("defer aggregation job", "before commit"),
        ("defer aggregation job", "committed"),
    ],
    HELPER_WORKER: [
        ("lease deferred jobs", "committed"),
        ("commit aggregation job", "before commit"),
        ("commit aggregation job", "committed"),
    ],
}
"""In this order: what was leased when a worker died, the next one has first."""


def let_leases_run_out(tx: Transaction) -> None:
    """Do what time does to the leases of a worker that is dead."""
    tx.connection.execute(update(tables.deferred_jobs).values(lease_expires_at=0))


def waiting(tx: Transaction) -> int:
    query = select(func.count()).select_from(tables.deferred_jobs)
    return int(tx.connection.execute(query).scalar_one())


def test_a_front_and_a_worker_that_die_answer_every_job_once(tmp_path: Path) -> None:
    start = int(time.time()) // HOUR * HOUR - HOUR
    settings = {
        "request_timeout_seconds": 2,
        "work_interval_seconds": 0.1,
        "aggregation_job_size": REPORTS // 2,
    }
    with Processes(tmp_path, **settings) as services:
        fates = {name: Fate(tmp_path / f"{name}-fate") for name in DEATHS}
        for name, fate in fates.items():
            services.programs[name] = fate.command()
            services.change(name, defer_jobs=True)
        asked = make_measured_task(services, "task", REPORTS, BUCKETS, start, "--mechanism=None")
        transport = Patient()

        async def upload_and_collect() -> bytes:
            async with httpx.AsyncClient(transport=transport, timeout=30) as http:
                await asked.upload(http, REPORTS)
                await until_dead(services, fates)
                return await asked.collect(http)

        with explained(services, transport):
            services.start("leader", *DEATHS)
            for name, fate in fates.items():
                fate.arm(DEATHS[name])
            asked.assert_right(asked.open(anyio.run(upload_and_collect)))
            asked.assert_counted_once()
            assert transport.failures == []
            assert failures_in_logs(services, "leader", *DEATHS) == []
        for name, fate in fates.items():
            assert fate.deaths() == DEATHS[name]
        with open_aggregator(services.configs["helper"]) as party:
            assert party.database.read_sync("waiting", waiting) == 0


async def until_dead(services: Processes, fates: dict[str, Fate]) -> None:
    """Wait for all deaths; no lease of a dead worker is waited for."""
    buried, deadline = 0, time.monotonic() + PATIENCE_SECONDS
    while any(fate.is_armed for fate in fates.values()) or buried < len(DEATHS[HELPER_WORKER]):
        assert time.monotonic() < deadline, "not everybody died"
        await anyio.sleep(0.1)
        dead = len(fates[HELPER_WORKER].deaths())
        if dead > buried:
            buried = dead
            with open_aggregator(services.configs["helper"]) as party:
                party.database.run_sync("let leases run out", let_leases_run_out)
