"""A service holds its bounds where the system allows few file descriptors, and says so once."""

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from aggregator.service.web.descriptors import BURST, fitting, needed
from tests.support import hostile
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import Processes

pytestmark = pytest.mark.slow

SILENT = 400
PRIO = (sys.executable, "-m", "aggregator.cli")
LEADER = ("leader", "serve", "--work")
NEW_TASK = ("--vdaf", "Prio3Count", "--privacy", "max_releases=1", "--mechanism", "None")
BATCH = ("--min-batch-size", "2", "--max-reports", "1000")

WITH_A_THIEF = """
import os, pathlib, runpy, sys, threading, time
here = pathlib.Path(sys.argv.pop(1))
def steal():
    held = []
    while True:
        while (here / "steal").exists():
            try:
                held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                time.sleep(0.01)
        while held:
            os.close(held.pop())
        time.sleep(0.05)
threading.Thread(target=steal, daemon=True).start()
runpy.run_module("aggregator.cli", run_name="__main__", alter_sys=True)
"""
"""A service one of whose threads takes every descriptor while a file `steal` exists."""


@pytest.fixture(autouse=True)
def _many_descriptors_of_our_own() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def started(folder: Path, limit: str, program: Sequence[str | Path] = PRIO) -> Iterator[Processes]:
    """Run a leader under a limit as a shell sets it."""
    with Processes(folder) as services:
        services.started_as = subprocess.Popen
        services.programs["leader"] = ("sh", "-c", f'ulimit {limit}; exec "$0" "$@"', *program)
        _, task_file = services.make_task("task", *NEW_TASK, *BATCH)
        assert task_file.name == "task.toml"
        services.start("helper", "leader")
        yield services


@contextmanager
def silence(services: Processes) -> Iterator[None]:
    """Connect often, and never finish a request."""
    with ExitStack() as stack:
        for _ in range(SILENT):
            connection = stack.enter_context(hostile.connect(services.urls["leader"]))
            hostile.send(connection, iter([b"GET /hp"]))
        yield


def assert_well(services: Processes, uploads: int) -> None:
    for _ in range(uploads):
        done = services.prio("upload", services.folder / "task" / "task.toml", "1", "1")
        assert "2 of 2" in done.stdout
    wait_until(lambda: is_well(services), services.log_path("leader"))


def is_well(services: Processes) -> bool:
    try:
        return httpx.get(f"{services.health_url('leader')}/health", trust_env=False).is_success
    except httpx.TransportError:
        return False


def lines(services: Processes, word: str) -> list[str]:
    return [
        str(each)
        for each in services.log("leader")
        if word in str(each["event"]) or word in str(each.get("reason"))
    ]


def open_files(services: Processes) -> list[str]:
    return os.listdir(f"/proc/{services._running['leader'].pid}/fd")  # noqa: PTH208  names


def limit_of(services: Processes) -> int:
    text = Path(f"/proc/{services._running['leader'].pid}/limits").read_text()
    (found,) = re.findall(r"^Max open files +(\d+)", text, re.MULTILINE)
    return int(found)


def test_a_soft_limit_is_raised_to_what_the_bounds_need(tmp_path: Path) -> None:
    with started(tmp_path, "-Sn 256") as services:
        assert limit_of(services) == needed(512, 36) + BURST
        with silence(services):
            assert_well(services, 5)
        assert lines(services, "descriptors") == []


@pytest.mark.parametrize(
    ("processes", "trusted"), [(1, "192.0.2.1"), (2, "127.0.0.1")], ids=["strangers", "by a proxy"]
)
def test_below_a_low_hard_limit_fewer_connections_are_taken_and_that_is_said_once(
    tmp_path: Path, processes: int, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    program = ("env", *PRIO)
    with Processes(tmp_path) as services:
        services.started_as = subprocess.Popen
        services.programs["leader"] = ("sh", "-c", 'ulimit -n 240; exec "$0" "$@"', *program)
        services.commands["leader"] = ("leader", "serve")
        services.options["leader"] = (f"--processes={processes}",)
        services.make_task("task", *NEW_TASK, *BATCH)
        services.start("leader")
        (said,) = lines(services, "fewer connections")
        assert f"'connections': {fitting(512, 36, 240)}" in said
        began = time.monotonic()
        with silence(services):
            services.start("helper")
            assert_well(services, 5)
        minutes = 1 + (time.monotonic() - began) / 60
        assert len(lines(services, "used up")) <= processes * minutes
        assert len(lines(services, "fewer connections")) == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_a_limit_that_leaves_hardly_a_connection_is_refused(tmp_path: Path, processes: int) -> None:
    with Processes(tmp_path) as services:
        least = needed(16, 36)
        command = [*PRIO, *LEADER, f"--processes={processes}"]
        done = subprocess.run(  # noqa: S603  our own command
            [
                *("sh", "-c", f'ulimit -n {least - 1}; exec "$0" "$@"', *command),
                *("--config", services.configs["leader"]),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 2, done
        assert done.stderr.count("max_connections: 512 connections need") == 1, done
        assert f"below {least} it does not start" in done.stderr


def test_descriptors_that_something_else_uses_up_cost_little_and_are_soon_forgotten(
    tmp_path: Path,
) -> None:
    program = (sys.executable, "-c", WITH_A_THIEF, tmp_path)
    with started(tmp_path, "-n 400", program) as services:
        assert_well(services, 1)
        (tmp_path / "steal").touch()
        wait_until(lambda: len(open_files(services)) == limit_of(services))
        size = services.log_path("leader").stat().st_size
        began, used = time.monotonic(), services.cpu_seconds("leader")
        with ExitStack() as stack:
            addresses = (services.urls["leader"], services.health_url("leader"))
            while time.monotonic() < began + 10:
                for address in addresses:
                    stack.enter_context(hostile.connect(address))
                time.sleep(0.05)
            spent = services.cpu_seconds("leader") - used
            seconds = time.monotonic() - began
            os.unlink(tmp_path / "steal")  # noqa: PTH108  as it was made
            assert_well(services, 3)
        # A process that asks in vain again and again takes a whole core.
        assert spent < seconds / 2, (spent, seconds)
        minutes = 1 + (time.monotonic() - began) / 60
        assert 1 <= len(lines(services, "used up")) <= minutes, services.log_path("leader")
        assert services.log_path("leader").stat().st_size - size < 2**16 * minutes
