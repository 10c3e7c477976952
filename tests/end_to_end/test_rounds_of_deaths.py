"""Anything may be killed, in rounds: HTTP processes, workers, and both PostgreSQL servers."""

import os
import signal
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.measured_task import HOUR, make_measured_task
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.postgresql import new_server
from tests.support.processes import WORKER, Processes
from tests.support.sudden_death import Patient, ReaperOfAll, survive

pytestmark = pytest.mark.slow

BUCKETS = 5
PARTIES = ("leader", "helper")
SERVERS = {"leader": "the leader's server", "helper": "the helper's server"}
KINDS = (*PARTIES, WORKER, *SERVERS.values())

REPORTS, REPORTS_PER_REQUEST, PACE_SECONDS = 240, 10, 0.4
"""Of each of two tasks, so that a round takes longer than a death of each kind."""
REST_SECONDS = (0.3, 1.0)
KILLS, LEAST_KILLS = 7, 4
ROUNDS = range(1)

MANY = int(os.environ.get("PRIO_TEST_REPORTS", "25000"))
"""On demand, also of each of two tasks."""
MANY_PER_REQUEST, MANY_REST_SECONDS, MANY_KILLS = 100, (1.0, 4.0), 1000
ROUNDS_ON_DEMAND = range(1, 21)


def live_a_round(
    folder: Path,
    seed: int,
    reports: int,
    transport: Patient,
    rest_seconds: tuple[float, float],
    kills: int,
    reports_per_request: int,
) -> ReaperOfAll:
    """Upload and collect while processes and servers die; return who has killed them."""
    start = int(time.time()) // HOUR * HOUR - HOUR
    settings = {
        "request_timeout_seconds": 2,
        "work_interval_seconds": 0.2,
        "aggregation_job_size": max(20, reports_per_request),
    }
    with ExitStack() as stack:
        servers = {party: stack.enter_context(new_server()) for party in PARTIES}
        for server in servers.values():
            server.make()
            server.start()
        urls = {party: server.url for party, server in servers.items()}
        services = stack.enter_context(Processes(folder, urls, **settings))
        services.commands["leader"] = ("leader", "serve")
        for party in PARTIES:
            services.options[party] = ("--processes=2",)
        tasks = [
            make_measured_task(services, name, reports, BUCKETS, start, privacy)
            for name, privacy in (("exact", "--mechanism=None"), ("noised", "--epsilon=1"))
        ]
        named = {SERVERS[party]: server for party, server in servers.items()}
        reaper = ReaperOfAll(services, named, KINDS, [WORKER], rest_seconds, seed)
        survive(
            services,
            (*PARTIES, WORKER),
            tasks,
            transport,
            reaper,
            reports_per_request=reports_per_request,
            kills=kills,
        )
        return reaper


@pytest.mark.parametrize("seed", ROUNDS)
def test_every_report_is_counted_once_whatever_dies(tmp_path: Path, seed: int) -> None:
    transport = Patient(PACE_SECONDS, through_outages=True)
    reaper = live_a_round(
        tmp_path, seed, REPORTS, transport, REST_SECONDS, KILLS, REPORTS_PER_REQUEST
    )
    assert sum(reaper.kills.values()) >= LEAST_KILLS, reaper.kills


@pytest.mark.bench
@pytest.mark.parametrize("seed", ROUNDS_ON_DEMAND)
def test_every_one_of_many_reports_is_counted_once_whatever_dies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    transport, began = Patient(through_outages=True), time.monotonic()
    reaper = live_a_round(
        tmp_path, seed, MANY, transport, MANY_REST_SECONDS, MANY_KILLS, MANY_PER_REQUEST
    )
    assert set(reaper.kills) == set(KINDS)
    with capsys.disabled():
        print(  # noqa: T201  what a measurement is for
            f"\n2 x {MANY:,} reports in {time.monotonic() - began:.0f} s; killed "
            f"{dict(reaper.kills)}, answers {dict(transport.statuses)}"
        )


def test_a_process_that_dies_while_the_database_is_away_is_replaced_when_it_is_back(
    tmp_path: Path,
) -> None:
    """A round found it: the one in its place could not start, and all others were stopped."""
    with new_server() as server:
        server.make()
        server.start()
        with Processes(tmp_path, {"helper": server.url}) as services:
            services.options["helper"] = ("--processes=2",)
            services.start("helper")
            log = services.log_path("helper")
            # Each of the two listens at its address and at that for health.
            wait_until(lambda: log.read_text().count('"listening"') == 4)
            dying, other = services.children("helper")
            server.stop()
            os.kill(dying, signal.SIGKILL)
            wait_until(lambda: "could not reach the store" in log.read_text())
            assert other in services.children("helper")
            server.start()
            ready = f"{services.health_url('helper')}/readyz"
            ask = partial(httpx.get, ready, trust_env=False, timeout=PATIENCE_SECONDS)
            wait_until(lambda: ask().is_success)
            wait_until(lambda: len(services.children("helper")) == 2)
            assert other in services.children("helper")
            assert services.stop("helper") == 0
