"""Leader, helper and collector as processes of their own on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import httpx

from aggregator.service.config import TABLES, TUNING, table_of
from tests.support.commands import Done, run_here
from tests.support.empty_store import settings_of
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.ports import free_ports
from tests.support.warm_start import Warm

COMMANDS = {
    "leader": ("leader", "serve", "--work"),
    "helper": ("helper", "serve"),
    "collector": ("collector", "serve"),
}
WORKER = "worker"
"""A second process that drives the leader's jobs, on the same store."""
HELPER_WORKER = "helper-worker"
"""A second process of the helper, which answers the jobs that it has put off."""
_OF_PARTY = {WORKER: "leader", HELPER_WORKER: "helper"}

ROOT = Path(__file__).parents[2]


class Processes:
    """Three services over stores in one folder, each on the same port whenever it is started.

    Args:
        folder: The folder.
        servers: The URL of the PostgreSQL server that keeps a role's store, if not all have one.
        leader_settings: More settings of the leader.
    """

    def __init__(
        self, folder: Path, servers: Mapping[str, str] | None = None, **leader_settings: float
    ) -> None:
        self.folder = folder
        self.configs: dict[str, Path] = {}
        self.urls: dict[str, str] = {}
        self.programs: dict[str, Sequence[str]] = {}
        """The command that runs a service instead of `prio`, if a test sets one."""
        self.commands: dict[str, Sequence[str]] = {
            **COMMANDS,
            WORKER: ("leader", "work"),
            HELPER_WORKER: ("helper", "work"),
        }
        self.options: dict[str, Sequence[str]] = dict.fromkeys(
            ("leader", "helper", *_OF_PARTY), ("--processes=1",)
        )
        """What follows the command of a service; tests share the machine's cores."""
        self.started_as: type[subprocess.Popen[bytes]] = Warm
        """How a service is started; `subprocess.Popen` if a test is about that, or about memory."""
        self._health: dict[str, str] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        # One for all, because making a client reads every certificate of the system.
        self._http = httpx.Client(timeout=30)
        names = (*COMMANDS, *_OF_PARTY)
        kept = servers or {}
        stores = {role: settings_of(folder / f"{role}.sqlite", kept.get(role)) for role in COMMANDS}
        ports = iter(free_ports(2 * len(names)))
        for name in names:
            role = _OF_PARTY.get(name, name)
            port, health_port = next(ports), next(ports)
            self.urls[name] = f"http://127.0.0.1:{port}/"
            self._health[name] = f"http://127.0.0.1:{health_port}/health"
            settings: dict[str, str | float] = {
                "role": role,
                **stores[role],
                "listen": f"127.0.0.1:{port}",
                "health_listen": f"127.0.0.1:{health_port}",
                "log_format": "json",
            }
            if role == "collector":
                settings.pop("release_journal", None)
                settings["token_file"] = "collector.sqlite.token"  # noqa: S105 - its name
            if role == "leader":
                settings["linger_seconds"] = 0
                settings |= leader_settings
            self.configs[name] = folder / f"{name}.toml"
            self.configs[name].write_text(_tables(settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self.kill(name)
        self._http.close()

    def start(self, *names: str) -> None:
        """Start services and wait until each answers."""
        for name in names:
            with self.log_path(name).open("ab") as log:
                self._running[name] = self.started_as(
                    [
                        *self.programs.get(name, _PRIO),
                        *self.commands[name],
                        *self.options.get(name, ()),
                        "--config",
                        self.configs[name],
                    ],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        for name in names:
            self._wait_until_healthy(name)

    def kill(self, name: str) -> None:
        """Kill a service without warning (SIGKILL)."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def children(self, name: str) -> list[int]:
        """Return the processes that a running service has started (Linux)."""
        pid = self._running[name].pid
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]

    def exit_status(self, name: str) -> int | None:
        """Return the exit status of a service, -9 if it was killed; None while it runs."""
        return self._running[name].poll()

    def change(self, name: str, **settings: str | float) -> None:
        """Change settings in a service's file."""
        tables = tomllib.loads(self.configs[name].read_text())
        before = {key: value for table in tables.values() for key, value in table.items()}
        self.configs[name].write_text(_tables(before | settings))

    def store_path(self, name: str) -> Path:
        """Return the file of a service's store, if it is a file."""
        database: str = tomllib.loads(self.configs[name].read_text())["service"]["database"]
        return self.configs[name].parent / database

    def read_again(self, name: str, **settings: str | float) -> None:
        """Change settings in a service's file, and tell it so (SIGHUP)."""
        self.change(name, **settings)
        self._running[name].send_signal(signal.SIGHUP)

    def stop(self, name: str) -> int:
        """Ask a service to stop; return its exit status."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE_SECONDS)

    def health_url(self, name: str) -> str:
        """Return the address of a service's health listener."""
        return self._health[name].removesuffix("/health")

    def prio(self, *arguments: str | Path, status: int = 0, stdin: str = "") -> Done:
        """Run a command in this process and check its exit status."""
        done = run_here(*arguments, stdin=stdin)
        assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def counts(
        self, task_id: str, party: str = "leader", stage: str = "aggregation"
    ) -> Counter[str]:
        """Return what became of a task's reports, and of how many."""
        shown = self.prio("task", "show", "--config", self.configs[party], task_id)
        return Counter(json.loads(shown.stdout)["reports"][stage])

    def wait_until_aggregated(self, task_id: str, count: int) -> None:
        """Wait until the leader has aggregated so many reports of a task."""
        wait_until(lambda: self.counts(task_id)["aggregated"] >= count, task_id, count)

    def cpu_seconds(self, name: str) -> float:
        """Return how much of a processor a running service has used (Linux)."""
        fields = (
            Path(f"/proc/{self._running[name].pid}/stat").read_text().rpartition(")")[2].split()
        )
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    @property
    def collector_token(self) -> str:
        """The token that the collector service made beside its store."""
        return (self.folder / "collector.sqlite.token").read_text().strip()

    def peak_memory(self, name: str) -> int:
        """Return the most memory that a running service ever had, in MiB (Linux)."""
        return self._mebibytes(name, "VmHWM:")

    def memory(self, name: str) -> int:
        """Return the memory that a running service has now, in MiB (Linux)."""
        return self._mebibytes(name, "VmRSS:")

    def _mebibytes(self, name: str, field: str) -> int:
        assert self.started_as is not Warm, "it would have what others use as well"
        status = Path(f"/proc/{self._running[name].pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(field))
        return int(line.split()[1]) // 2**10

    def forget_peak_memory(self, name: str) -> None:
        """Reset the peak to what a running service has now (Linux)."""
        Path(f"/proc/{self._running[name].pid}/clear_refs").write_text("5")

    def log_path(self, name: str) -> Path:
        """Return the file to which a service writes its log."""
        return self.folder / f"{name}.log"

    def log(self, name: str) -> list[Mapping[str, object]]:
        """Return a service's log, one object per line.

        It may be about to write one: what does not end is no line yet.
        """
        lines = self.log_path(name).read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def make_task(self, name: str, *arguments: str) -> tuple[str, Path]:
        """Make a task as its parties would, one after the other; return its id and file."""
        config = self.prio("collector", "config", "--config", self.configs["collector"])
        desk = self.folder / name
        made = self.prio(
            "task",
            "new",
            *("--out", desk),
            *("--leader", self.urls["leader"], "--helper", self.urls["helper"]),
            *("--collector-config", config.stdout.strip()),
            *arguments,
        )
        task_id = made.stdout.strip()
        for party in COMMANDS:
            added = self.prio(
                "task", "add", "--config", self.configs[party], desk / f"{party}.toml"
            )
            assert added.stdout.strip() == task_id
        return task_id, desk / "task.toml"

    def _wait_until_healthy(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self._running[name].poll() is None:
            try:
                if self._http.get(self._health[name]).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        status, tail = self._running[name].poll(), self.log_path(name).read_text()[-4000:]
        raise AssertionError(f"the {name} did not start, status {status}:\n{tail}")


_PRIO = (sys.executable, "-m", "aggregator.cli")


def _tables(settings: Mapping[str, object]) -> str:
    """Return a service file."""
    lines = []
    for table in (*TABLES, TUNING):
        own = {name: value for name, value in settings.items() if table_of(name) == table}
        # A JSON string is a TOML string, and so is a number.
        lines += [f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in own.items())]
    return "\n".join([*lines, ""])


def run_prio(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, as a shell would."""
    return subprocess.run(  # noqa: S603 - our own command
        [*_PRIO, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env=os.environ | {"COLUMNS": "120"},
    )
