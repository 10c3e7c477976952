"""Services as processes of this one: waited for while they live, ended with it, missed if they die.

However slow a machine is, a process that lives may still become a service: nothing but its end
decides that it does not. What it printed last is then shown.
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

from aggregator.cli.interrupts import Ending, ended_by_signals
from aggregator.errors import LocalError
from aggregator.words import escaped

TELL_SECONDS = 5.0
"""How often a person hears what is waited for."""
LAST_LINES = 20
"""How many lines are shown of what a process printed that died."""

_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 10.0
_STOP_SECONDS = 30.0  # what is under way may take 20 (`listening.GRACE_SECONDS`)
_LAST_BYTES = 8192
_LONGEST_LINE = 500
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Program:
    """A service to run.

    Attributes:
        name: Whose it is, such as "leader".
        command: The program and its arguments.
        log: The file that gets what it prints; what an earlier one printed is kept beside it.
        url: Answers once it serves.
    """

    name: str
    command: Sequence[str | Path]
    log: Path
    url: str


@contextmanager
def running(programs: Sequence[Program], hold: Sequence[int] = ()) -> Iterator["Running"]:
    """Run programs until the block ends, which begins when all of them serve.

    SIGINT, SIGTERM and SIGHUP interrupt the block; another one ends the programs at once.

    Args:
        programs: The services.
        hold: File descriptors that each of them keeps open, such as that of a lock.

    Raises:
        LocalError: One of them died; the message has its last lines.
        OSError: A log cannot be written, or no process made.
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
    """Programs that run."""

    def __init__(self) -> None:
        self._processes: list[tuple[Program, subprocess.Popen[bytes]]] = []

    def start(self, program: Program, hold: Sequence[int] = ()) -> None:
        """Start a program, which gets no signal of our terminal, and ends with us (Linux)."""
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
        """Wait until every program serves, and say now and then what is waited for."""
        began = told = time.monotonic()
        for program, _ in self._processes:
            while not answers(program.url):
                self.check()
                now = time.monotonic()
                if now - told >= TELL_SECONDS:
                    told = now
                    _tell(f"the {program.name} is starting, since {now - began:.0f} s")
                time.sleep(_LOOK_SECONDS)
        self.check()  # something else may have answered in the place of one that died

    def watch(self) -> None:
        """Look after the programs until one dies, or a signal comes; raises as `check`."""
        while True:
            self.check()
            time.sleep(_LOOK_SECONDS)

    def check(self) -> None:
        """Raise a `LocalError` that says how a program died, if one did."""
        for program, process in self._processes:
            code = process.poll()
            if code is not None:
                raise LocalError(_obituary(program, code))

    def stop(self, ending: Ending) -> None:
        """Let the programs end what is under way; a further signal or too long a wait ends it."""
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
    """Return what makes a new process end when this one is killed, where the system can do so."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return end_with_parent


def answers(url: str) -> bool:
    """Return whether a service answers, whatever proxies the environment names."""
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
    except ValueError:  # one of those without names
        return f"signal {number}"


def _last_lines(log: Path) -> list[str]:
    """Return the last lines of a file, however large it is and whatever is in it."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LAST_BYTES))
            text = file.read(_LAST_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        return [f"(it cannot be read: {error.strerror})"]
    lines = [each for each in text.split("\n") if each.strip()]
    if size > _LAST_BYTES and len(lines) > 1:
        del lines[0]  # of which the beginning is missing
    return [
        each if len(each) <= _LONGEST_LINE else f"… {each[-_LONGEST_LINE:]}"
        for each in lines[-LAST_LINES:]
    ]


def _tell(what: str) -> None:
    print(f"prio: {what}", file=sys.stderr, flush=True)
