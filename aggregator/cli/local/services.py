"""Services as child processes: awaited while they live, ended with us, reported if they die.

On a slow machine a process may take long before it serves, so nobody gives up on one that lives. If
it dies, its last output is shown.
"""

import ctypes
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from aggregator.cli.process import Ending, ended_by_signals
from aggregator.errors import LocalError
from aggregator.untrusted_text import escaped

TELL_SECONDS = 5.0
"""How often a person is told what the program waits for."""
LAST_LINES = 20
"""How many lines of a dead process's output are shown."""

_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 10.0
_STOP_SECONDS = 30.0  # requests under way may take 20 (`listening.GRACE_SECONDS`)
_LAST_BYTES = 8192
_LONGEST_LINE = 500
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Program:
    """A service to run.

    The output of an earlier run is kept beside its log. The URL answers once the program serves.
    """

    name: str
    command: Sequence[str | Path]
    log: Path
    url: str


@contextmanager
def running(programs: Sequence[Program], hold: Sequence[int] = ()) -> Iterator["Running"]:
    """Run programs until the block ends, which begins when all of them serve.

    SIGINT, SIGTERM and SIGHUP interrupt the block; a second signal ends the programs at once. Each
    of them keeps the descriptors in `hold` open, such as that of a lock. Raises OSError, or
    `LocalError` with the last lines of a program that died.
    """
    with ended_by_signals() as ending:
        services = Running()
        try:
            for each in programs:
                services.start(each, hold)
            services.wait()
            yield services
        finally:
            ending.begin()
            services.stop(ending)


class Running:
    """Programs that are running."""

    def __init__(self) -> None:
        self._processes: list[tuple[Program, subprocess.Popen[bytes]]] = []

    def start(self, program: Program, hold: Sequence[int] = ()) -> None:
        """Start a program that gets no signals from our terminal and ends with us (Linux)."""
        log = program.log
        if log.exists():
            log.replace(log.with_name(f"{log.name}.1"))
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [*program.command],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                pass_fds=hold,
                start_new_session=True,
                preexec_fn=_ending_with(os.getpid()),  # noqa: PLW1509 - two system calls
            )
        finally:
            os.close(descriptor)
        self._processes.append((program, process))

    def wait(self) -> None:
        """Wait until every program serves, and say now and then which one is awaited."""
        began = told = time.monotonic()
        for program, _ in self._processes:
            while not answers(program.url):
                self.check()
                now = time.monotonic()
                if now - told >= TELL_SECONDS:
                    told = now
                    _tell(f"the {program.name} has been starting for {now - began:.0f} s")
                time.sleep(_LOOK_SECONDS)
        self.check()  # another program may have answered in place of one that died

    def watch(self) -> None:
        """Watch the programs until one dies or a signal comes; raises what `check` does."""
        while True:
            self.check()
            time.sleep(_LOOK_SECONDS)

    def check(self) -> None:
        """Raise a `LocalError` that tells how a program died, if one did."""
        for program, process in self._processes:
            code = process.poll()
            if code is not None:
                raise LocalError(_obituary(program, code))

    def stop(self, ending: Ending) -> None:
        """Let the programs finish their work; another signal or too long a wait ends them."""
        for _, process in self._processes:
            process.terminate()
        began = told = time.monotonic()
        for program, process in self._processes:
            while process.poll() is None:
                now = time.monotonic()
                if ending.is_urgent or now - began > _STOP_SECONDS:
                    process.kill()
                    process.wait()
                    _tell(f"the {program.name} was killed while it ended what was under way")
                elif now - told >= TELL_SECONDS:
                    told = now
                    _tell(
                        f"the {program.name} is ending, since {now - began:.0f} s; "
                        "Ctrl-C again kills it"
                    )
                else:
                    time.sleep(_LOOK_SECONDS)


def _ending_with(parent: int) -> Callable[[], None] | None:
    """Return a function that makes a new process end when this one is killed, if supported."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return end_with_parent


def answers(url: str) -> bool:
    """Return whether a service answers; proxies in the environment are ignored."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port, timeout=_ANSWER_SECONDS
    )
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _obituary(program: Program, code: int) -> str:
    """Return how a program died, with its last lines."""
    how = f"exit status {code}" if code >= 0 else f"killed by {_signal_name(-code)}"
    lines = _last_lines(program.log)
    said = "".join(f"\n  {escaped(each)}" for each in lines)
    printed = f"the last lines of {program.log}:{said}" if lines else "it printed nothing"
    return f"the {program.name} died ({how}); {printed}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the signal has no name
        return f"signal {number}"


def _last_lines(log: Path) -> list[str]:
    """Return the last lines of a file, however large it is and whatever it holds."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LAST_BYTES))
            text = file.read(_LAST_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        return [f"(it cannot be read: {error.strerror})"]
    lines = [each for each in text.split("\n") if each.strip()]
    if size > _LAST_BYTES and len(lines) > 1:
        del lines[0]  # its beginning is missing
    return [
        each if len(each) <= _LONGEST_LINE else f"… {each[-_LONGEST_LINE:]}"
        for each in lines[-LAST_LINES:]
    ]


def _tell(what: str) -> None:
    print(f"prio: {what}", file=sys.stderr, flush=True)
