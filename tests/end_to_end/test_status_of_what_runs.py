"""`prio status` knows whether a party runs, on each database, however its processes ended."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from sqlalchemy import update

from aggregator.cli.service.parties import open_aggregator
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from tests.support.commands import run_here
from tests.support.measured_task import HOUR, make_measured_task
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import COMMANDS, WORKER, Processes

pytestmark = pytest.mark.slow

NO_WORKER = "no worker runs; `prio leader work`, or `prio leader serve --work`, must run"
TASK = (
    *("--vdaf", "Prio3Count", "--epsilon", "1"),
    *("--min-batch-size", "50", "--max-reports", "100000"),
)


@pytest.fixture
def services(tmp_path: Path, engine: str) -> Iterator[Processes]:  # noqa: ARG001  where stores are
    with Processes(tmp_path) as made:
        yield made


def faults_of(services: Processes, party: str) -> list[str]:
    """Return why a party is not well; the command's exit status must agree."""
    done = run_here("status", "--json", "--config", services.configs[party])
    faults: list[str] = json.loads(done.stdout)["faults"]
    assert done.returncode == int(bool(faults)), done
    return faults


def test_a_party_runs_from_its_first_answer_until_its_last_process_has_died(
    services: Processes,
) -> None:
    services.make_task("count", *TASK)
    for party in COMMANDS:
        done = services.prio("status", "--config", services.configs[party], status=1)
        said, why = done.stdout.splitlines()[:2]
        assert said.startswith(f"{party}: not ready")
        assert f"no process of this {party} runs: start `prio {party} serve" in why
    services.start(*COMMANDS)
    for party in COMMANDS:
        assert faults_of(services, party) == []
        services.kill(party)
        wait_until(lambda party=party: faults_of(services, party))
    services.start(*COMMANDS)
    for party in COMMANDS:
        assert faults_of(services, party) == []
        assert services.stop(party) == 0
        assert faults_of(services, party)


def test_what_nobody_does_of_a_leaders_duties_is_named(services: Processes) -> None:
    services.make_task("count", *TASK)
    services.commands["leader"] = ("leader", "serve")
    services.start("leader")
    assert faults_of(services, "leader") == [NO_WORKER]
    services.start(WORKER)
    assert faults_of(services, "leader") == []
    services.kill("leader")
    nobody_serves = ["nobody answers requests; `prio leader serve` must run"]
    wait_until(lambda: faults_of(services, "leader") == nobody_serves)
    # Its own health listener speaks for the work, which goes on.
    assert httpx.get(services.health_url(WORKER) + "/health", trust_env=False).is_success


def test_a_helper_that_defers_needs_somebody_who_works(services: Processes) -> None:
    services.make_task("count", *TASK)
    services.start("helper")
    assert faults_of(services, "helper") == []
    services.read_again("helper", defer_jobs=True)
    said = ["no worker runs; `prio helper work`, or `prio helper serve --work`, must run"]
    wait_until(lambda: faults_of(services, "helper") == said)


def test_several_processes_run_until_the_last_of_them_has_died(services: Processes) -> None:
    services.make_task("count", *TASK)
    services.options["leader"] = ("--processes=3",)
    services.start("leader")
    assert faults_of(services, "leader") == []
    os.kill(services.children("leader")[0], signal.SIGKILL)  # another takes its place
    for _ in range(20):
        assert faults_of(services, "leader") == []
    assert services.stop("leader") == 0
    assert len(faults_of(services, "leader")) == 1


def test_settings_that_are_read_again_leave_nobody_out_of_sight(services: Processes) -> None:
    services.make_task("count", *TASK)
    services.start("leader")

    def turns() -> int:
        return sum(line["event"] == "settings read again" for line in services.log("leader"))

    for turn in range(3):
        services.read_again("leader")
        while turns() == turn:
            assert faults_of(services, "leader") == []
    services.kill("leader")
    wait_until(lambda: faults_of(services, "leader"))


def test_a_leader_that_starts_after_an_outage_is_ready_at_once(services: Processes) -> None:
    start = int(time.time()) // HOUR * HOUR - HOUR
    asked = make_measured_task(services, "task", 50, 2, start, "--mechanism=None")
    services.commands["leader"] = ("leader", "serve")
    services.start("leader", "helper")

    async def upload() -> None:
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as http:
            await asked.upload(http, 50)

    anyio.run(upload)
    assert services.stop("leader") == 0

    def have_waited_for_a_day(tx: Transaction) -> None:
        tx.connection.execute(update(tables.report_groups).values(received_at=tx.now - 86400))

    with open_aggregator(services.configs["leader"]) as party:
        party.database.run_sync("wait", have_waited_for_a_day)
    services.commands["leader"] = COMMANDS["leader"]
    services.start("leader")
    assert faults_of(services, "leader") == []
    assert [line for line in services.log("leader") if line["event"] == "not ready"] == []
