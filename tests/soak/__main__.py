"""All faults at once, for as long as is asked for: `make soak`, or `python -m tests.soak`.

Round after round a pair takes two tasks' reports, aggregates and releases them, while its processes
die, its helper and its answers are lost, its clocks jump, bytes of its objects change, its disk
fills and bytes of its stores change or its database servers are killed, and strangers hold more
connections than there are. The stores are files in one round and on servers in the next. After each
round every report was counted once by both aggregators, each batch was released once, and whoever
asks again gets the same bytes; or the run ends with what was not so, and the seed of its round.
"""

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import anyio
import pytest

from tests.support import shifted
from tests.support.measured_task import HOUR, make_measured_task
from tests.support.postgresql import new_server
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.sudden_death import Patient, explained, stop_and_compare, upload_and_collect
from tests.support.trouble import Trouble

PARTIES = ("leader", "helper")
BUCKETS = 5
REPORTS, REPORTS_PER_REQUEST, PACE_SECONDS = 600, 20, 0.3
"""Of each of two tasks."""
FAULTS = 30
"""In one round; what is left then is done in peace."""
DISK_BYTES = 64 * 2**20
SETTINGS = {
    "request_timeout_seconds": 2,
    "work_interval_seconds": 0.2,
    "aggregation_job_size": 40,
}


def live_a_round(folder: Path, seed: int, *, on_servers: bool) -> Counter[str]:
    """Live through a round; return how often what went wrong."""
    start = int(time.time()) // HOUR * HOUR - HOUR
    with contextlib.ExitStack() as stack:
        servers = {}
        if on_servers:
            servers = {party: stack.enter_context(new_server()) for party in PARTIES}
            for server in servers.values():
                server.make()
                server.start()
        urls = {party: server.url for party, server in servers.items()}
        services = stack.enter_context(Processes(folder, urls, **SETTINGS))
        disk = None if on_servers else stack.enter_context(_disk_that_fills())
        clocks = {party: folder / f"{party}.ahead" for party in PARTIES}
        for party, clock in clocks.items():
            shifted.jump(clock, 0)
            services.programs[party] = shifted.command(clock)
            if disk is not None:
                services.change(
                    party,
                    database=str(disk.folder / f"{party}.sqlite"),
                    release_journal=f"{party}.sqlite.journal",
                )
        objects = folder / "objects"
        services.change("leader", report_bodies=f"file://{objects}")
        stack.enter_context(patch.dict(os.environ, {shifted.LEAST_OBJECT: "1"}))
        port = int(services.urls["helper"].rstrip("/").rpartition(":")[2])
        proxy = stack.enter_context(Proxy(port))
        services.urls["helper"] = f"http://127.0.0.1:{proxy.port}/"
        tasks = [
            make_measured_task(services, name, REPORTS, BUCKETS, start, privacy)
            for name, privacy in (("exact", "--mechanism=None"), ("noised", "--epsilon=1"))
        ]
        transport = Patient(PACE_SECONDS, through_outages=True)
        trouble = Trouble(services, PARTIES, proxy, clocks, disk, servers, objects, seed)
        with explained(services, trouble, transport):
            services.start(*PARTIES)
            bodies = anyio.run(
                upload_and_collect, tasks, transport, trouble, FAULTS, REPORTS_PER_REQUEST
            )
            assert transport.failures == []
            stop_and_compare(services, PARTIES, tasks, bodies)
        return trouble.counts


def _has_postgresql() -> bool:
    try:
        with new_server():
            return True
    except pytest.skip.Exception:
        return False


@contextlib.contextmanager
def _disk_that_fills() -> Iterator[SmallDisk | None]:
    """Yield a small disk, or nothing where none may be mounted."""
    with contextlib.ExitStack() as stack:
        try:
            disk = stack.enter_context(small_disk(DISK_BYTES))
        except pytest.skip.Exception:
            disk = None
        yield disk


def soak(seconds: float, seed: int) -> str:
    """Live rounds for this many seconds, one at least; return what was done in one line."""
    began, counts, rounds = time.monotonic(), Counter[str](), 0
    while not rounds or time.monotonic() - began < seconds:
        on_servers = bool(rounds % 2) and _has_postgresql()
        with tempfile.TemporaryDirectory(prefix="prio-soak-") as name:
            try:
                counts += live_a_round(Path(name), seed + rounds, on_servers=on_servers)
            except BaseException as error:
                error.add_note(f"in the round of seed {seed + rounds}, {on_servers=}")
                raise
        rounds += 1
        print(f"round {rounds}, seed {seed + rounds - 1}: nothing lost", file=sys.stderr)  # noqa: T201  what it is for
    done = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    return (
        f"{rounds} rounds in {time.monotonic() - began:.0f} s, {2 * rounds * REPORTS:,} reports, "
        f"{2 * rounds} results; {done}; lost: nothing"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="All faults at once.")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))  # noqa: S311  no secret
    given = parser.parse_args()
    print(soak(given.seconds, given.seed))  # noqa: T201  what it is for
