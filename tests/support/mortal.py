"""Runs `prio`, but kills its process (SIGKILL) around the store's write transactions.

    python -m tests.support.mortal FOLDER EVERY leader serve --config ...

A transaction that wrote something has two moments: `before commit`, and `committed` before anybody
outside hears of it. The process dies there

- if the moment is the next one that `FOLDER/armed` lists;
- at every EVERY-th moment, counted over all processes of this service, or never if that is 0. An
  odd number takes both kinds by turns.

Whenever it dies the next one starts, from nothing but its files. Each is forked from a process that
has loaded the program and the kernels and done nothing else, which saves most of the startup.
"""

import ctypes
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from aggregator import cli
from aggregator.cli.service import services as _services  # noqa: F401 - read before the fork
from aggregator.cli.service.warm import _take_through
from aggregator.clock import Clock
from aggregator.entropy import Entropy
from aggregator.service.storage.engine.database import Database, OnTransaction
from aggregator.service.storage.engine.objects import Objects
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.vdaf.instances import vdaf_from_parameters

T = TypeVar("T")

MOMENTS = ("before commit", "committed")
_PR_SET_PDEATHSIG = 1


class Fate:
    """What a test has planned for the processes of one service, kept in a folder."""

    def __init__(self, folder: Path, every: int = 0) -> None:
        self.folder = folder
        self.every = every
        folder.mkdir(exist_ok=True)
        self._moments = folder / "moments"
        self._armed = folder / "armed"
        self._deaths = folder / "deaths"
        self._meeting = threading.Lock()

    def command(self) -> tuple[str, ...]:
        """Return the command to run instead of `prio`."""
        return (sys.executable, "-m", "tests.support.mortal", str(self.folder), str(self.every))

    def moments(self) -> list[tuple[str, str]]:
        """Return the moments so far: a transaction's name and one of `MOMENTS`."""
        return [(name, moment) for name, _, moment in map(_parted, _lines(self._moments))]

    def deaths(self) -> list[tuple[str, str]]:
        """Return the moments at which a process died."""
        return [(name, moment) for name, _, moment in map(_parted, _lines(self._deaths))]

    def arm(self, deaths: Iterable[tuple[str, str]]) -> None:
        """Let processes die when they come to these moments, one after the other."""
        _write(self._armed, [f"{name}\t{moment}" for name, moment in deaths])

    @property
    def is_armed(self) -> bool:
        """Whether a death that was armed is still to come."""
        return bool(_lines(self._armed))

    def meet(self, transaction: str, moment: str) -> None:
        """Come to a moment, and die if that is its fate; one thread after the other.

        Otherwise one could take its death off the list, and die of another's before it is noted.
        """
        with self._meeting:
            self._meet(f"{transaction}\t{moment}")

    def _meet(self, line: str) -> None:
        _append(self._moments, line)
        armed = _lines(self._armed)
        is_due = self.every > 0 and len(_lines(self._moments)) % self.every == 0
        if armed and armed[0] == line:
            _write(self._armed, armed[1:])
            is_due = True
        if is_due:
            _append(self._deaths, line)
            os.kill(os.getpid(), signal.SIGKILL)


class Writing(threading.local):
    """Whether this thread's write transaction has written anything."""

    anything = False


def main(folder: str, every: str, *arguments: str) -> None:
    """Run `prio` with arguments, under a fate, one process after the other."""
    _take_through(vdaf_from_parameters("Prio3Histogram", {"length": 9}), 3)
    while True:
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            live(Fate(Path(folder), int(every)), arguments)
            return
        _, status = os.waitpid(child, 0)
        ended = os.waitstatus_to_exitcode(status)
        if ended != -signal.SIGKILL:
            sys.exit(f"the process ended by itself: {ended}")


def live(fate: Fate, arguments: Iterable[str]) -> None:
    """Run `prio` with arguments, until the fate is met."""
    writing = Writing()
    open_, run_sync = Database.open, Database.run_sync

    def on_transaction(name: str, moment: str) -> None:
        if writing.anything and moment in MOMENTS:
            fate.meet(name, moment)

    def open_watched(
        url: str,
        crypter: Crypter,
        clock: Clock | None = None,
        _: OnTransaction | None = None,
        entropy: Entropy | None = None,
        objects: Objects | None = None,
        **options: bool,
    ) -> Database:
        return open_(url, crypter, clock, on_transaction, entropy, objects, **options)

    def run_watched(database: Database, name: str, work: Callable[[Transaction], T]) -> T:
        def watched(tx: Transaction) -> T:
            before = _changes(tx)
            result = work(tx)
            writing.anything = _changes(tx) != before
            return result

        try:
            return run_sync(database, name, watched)
        finally:
            writing.anything = False

    with (
        patch.object(Database, "open", open_watched),
        patch.object(Database, "run_sync", run_watched),
        patch("sys.argv", ["prio", *arguments]),
    ):
        cli.main()


def _changes(tx: Transaction) -> object:
    """Return what is another after a transaction than at its beginning if it has written."""
    driver = tx.connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        return driver.total_changes  # rows written since the connection was opened
    assigned = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL"
    return tx.connection.exec_driver_sql(assigned).scalar_one()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition("\t")


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


def _write(path: Path, lines: Iterable[str]) -> None:
    """Write a file whole or not at all: its reader may look at any moment."""
    draft = path.with_suffix(".draft")
    draft.write_text("".join(line + "\n" for line in lines))
    draft.rename(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
