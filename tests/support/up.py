"""`prio up` as a process of its own, as somebody has it in a terminal."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import ROOT
from tests.support.warm_start import Warm, run_warm

PRIO = (sys.executable, "-m", "aggregator.cli")
FORKING = (sys.executable, "-m", "tests.support.forking")
"""The same, whose services need not load anything."""
LAST_LINE = "Ctrl-C ends all of it.\n"


class Up:
    """A `prio up`.

    Args:
        cwd: Where it is called.
        arguments: What it is given.
        is_cold: Whether its services are started as they usually are.
    """

    def __init__(self, cwd: Path, *arguments: str | Path, is_cold: bool = False) -> None:
        self.said = ""
        self._process = Warm(
            [*(PRIO if is_cold else FORKING), "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd,
            env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def wait_until_up(self) -> None:
        """Wait until it has said its last word, or ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said += line
            if line == LAST_LINE:
                return

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and whatever shares its terminal."""
        os.killpg(self._process.pid, number)

    def end(self) -> int:
        """Wait until it has ended; return its exit status."""
        assert self._process.stdout is not None
        if not self._process.stdout.closed:
            with self._process.stdout as output:
                self.said += output.read()
        return self._process.wait()


@contextmanager
def is_up(cwd: Path, *arguments: str | Path, is_cold: bool = False) -> Iterator[Up]:
    """Run `prio up` while the block lasts, which begins when it is up or has ended."""
    up = Up(cwd, *arguments, is_cold=is_cold)
    try:
        up.wait_until_up()
        yield up
    finally:
        if up._process.poll() is None:
            up.signal(signal.SIGTERM)
        up.end()


def prio(*arguments: str, cwd: Path) -> str:
    """Return what a command prints that succeeds."""
    done = run_warm([*PRIO, *arguments], cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout
