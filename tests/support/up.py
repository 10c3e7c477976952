"""`prio up` as a process of its own, as somebody has it in a terminal."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import ROOT

PRIO = (sys.executable, "-m", "aggregator.cli")
LAST_LINE = "Ctrl-C ends all of it.\n"


class Up:
    """A `prio up`.

    Args:
        cwd: Where it is called.
        arguments: What it is given.
    """

    def __init__(self, cwd: Path, *arguments: str | Path) -> None:
        self.said = ""
        self._process = subprocess.Popen(  # noqa: S603  our own command
            [*PRIO, "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd,
            env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"},
            start_new_session=True,
            preexec_fn=_take_signals,  # noqa: PLW1509  two calls
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


def _take_signals() -> None:
    """Whoever started the tests may ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def is_up(cwd: Path, *arguments: str | Path) -> Iterator[Up]:
    """Run `prio up` while the block lasts, which begins when it is up or has ended."""
    up = Up(cwd, *arguments)
    try:
        up.wait_until_up()
        yield up
    finally:
        if up._process.poll() is None:
            up.signal(signal.SIGTERM)
        up.end()
