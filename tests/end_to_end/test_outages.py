"""A minute without a database, a helper or answers, a failover, and clocks that jump; on demand.

`pytest -m bench tests/end_to_end/test_outages.py`. Each begins while reports are being uploaded;
`PRIO_TEST_REPORTS` says how many, of each of two tasks.
"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support import shifted
from tests.support.empty_store import SERVER
from tests.support.measured_task import HOUR, MeasuredTask, make_measured_task
from tests.support.postgresql import Server, execute, new_server, url_of_both
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.sudden_death import Action, Outage, Patient, survive

pytestmark = [pytest.mark.bench, pytest.mark.slow]

REPORTS = int(os.environ.get("PRIO_TEST_REPORTS", "25000"))
REPORTS_PER_REQUEST = 100
SECONDS = 60.0
PARTIES = ("leader", "helper")
BUCKETS = 5
SETTINGS = {
    "request_timeout_seconds": 2,
    "work_interval_seconds": 0.2,
    "aggregation_job_size": 100,
}
REPLICATED = ("wal_level=replica", "max_wal_senders=5")


def tasks_of(services: Processes) -> list[MeasuredTask]:
    start = int(time.time()) // HOUR * HOUR - HOUR
    return [
        make_measured_task(services, name, REPORTS, BUCKETS, start, privacy)
        for name, privacy in (("exact", "--mechanism=None"), ("noised", "--epsilon=1"))
    ]


def live_through(
    services: Processes, begin: Action, end: Action, seconds: float = SECONDS
) -> Outage:
    """Upload and collect through an outage, after which there must have been work left."""
    outage = Outage(begin, end, seconds)
    transport = Patient(through_outages=True)
    survive(
        services,
        PARTIES,
        tasks_of(services),
        transport,
        outage,
        reports_per_request=REPORTS_PER_REQUEST,
    )
    assert outage.was_over is False, "all was done before it ended"
    return outage


@pytest.mark.parametrize("party", PARTIES)
def test_a_database_that_refuses_connections_for_a_minute(tmp_path: Path, party: str) -> None:
    with new_server() as server:
        server.make()
        server.start()
        with Processes(tmp_path, {party: server.url}, **SETTINGS) as services:
            live_through(services, server.stop, server.start)


@contextmanager
def behind_a_proxy(folder: Path) -> Iterator[tuple[Processes, Proxy]]:
    """Give services of which clients and the leader reach the helper by a proxy."""
    with Processes(folder, **SETTINGS) as services:
        port = int(services.urls["helper"].rstrip("/").rpartition(":")[2])
        with Proxy(port) as proxy:
            services.urls["helper"] = f"http://127.0.0.1:{proxy.port}/"
            yield services, proxy


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep both stores in files, or on a server."""
    if request.param == "postgresql":
        monkeypatch.setenv(SERVER, request.getfixturevalue("postgresql_server"))


@pytest.mark.usefixtures("store")
def test_a_helper_that_is_unreachable_for_a_minute(tmp_path: Path) -> None:
    with behind_a_proxy(tmp_path) as (services, proxy):
        live_through(services, proxy.close, proxy.reopen)


@pytest.mark.usefixtures("store")
def test_a_network_that_drops_the_helpers_answers_for_a_minute(tmp_path: Path) -> None:
    with behind_a_proxy(tmp_path) as (services, proxy):
        live_through(services, proxy.deafen, proxy.undeafen)
        assert proxy.dropped


def test_a_failover_to_a_replica_that_is_promoted_in_the_middle(tmp_path: Path) -> None:
    with ExitStack() as stack:
        primary, standby = (stack.enter_context(new_server(REPLICATED)) for _ in range(2))
        primary.make()
        primary.start()
        standby.copy(primary)
        standby.start()
        execute(
            primary.url,
            "ALTER SYSTEM SET synchronous_standby_names = 'standby'",
            "SELECT pg_reload_conf()",
        )
        url = url_of_both(primary, standby)
        services = stack.enter_context(Processes(tmp_path, dict.fromkeys(PARTIES, url), **SETTINGS))
        live_through(services, primary.kill, standby.promote, seconds=5.0)
        assert_refuses_writes_no_more(standby)


def assert_refuses_writes_no_more(server: Server) -> None:
    execute(server.url, "CREATE DATABASE proof")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("seconds", [HOUR, -HOUR], ids=["ahead", "back"])
@pytest.mark.parametrize("party", PARTIES)
def test_a_clock_that_jumps_an_hour_and_back(tmp_path: Path, party: str, seconds: int) -> None:
    with Processes(tmp_path, **SETTINGS) as services:
        ahead = tmp_path / "ahead"
        shifted.jump(ahead, 0)
        services.programs[party] = shifted.command(ahead)
        live_through(
            services,
            lambda: shifted.jump(ahead, seconds),
            lambda: shifted.jump(ahead, 0),
            seconds=5.0,
        )
