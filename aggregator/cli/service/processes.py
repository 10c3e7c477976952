"""Runs a service as several processes over one store; those that serve share one address.

The first process only watches the others. It passes on the signals to stop and to read the settings
again. It replaces a process that was killed, or that ended because the store's server was away.

The others are copies of it (`sharing`), or begin as it did where it cannot be copied.
"""

import ctypes
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Callable

from aggregator.cli import sighup
from aggregator.cli.faults import BAD_INPUT, PEER
from aggregator.cli.service.machine import processes_in_memory, usable_cores
from aggregator.cli.service.sharing import FORKS, hindrances
from aggregator.errors import AggregatorError
from aggregator.service.telemetry.lines import log

_RESTART_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1
_TAKEN = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})
_WATCHED = _TAKEN | {signal.SIGHUP}
_TRIAL_SECONDS = 10


MOST_BY_DEFAULT = 4
"""The most processes unless the operator says otherwise: each takes memory and up to 13
connections to a database server."""

_OF_ONE = 2
"""The most cores that one process keeps busy by itself: while a kernel verifies or exchanges keys,
Python answers requests."""

_PLACE = "_PRIO_PLACE"
"""The variable by which a process that was not copied learns its number, and who watches it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Which process of a service this is: its number, from 0, of how many.

    `began` is when it began, by `time.monotonic`.
    """

    number: int
    of: int
    began: float = dataclasses.field(default_factory=time.monotonic)


def processes_by_default() -> int:
    """Return one process for each usable core, but one alone for two cores.

    Handling reports holds Python's lock, so one process does not use many cores. There are fewer if
    the memory of a container or a unit would not hold so many.
    """
    fitting = processes_in_memory()
    most = MOST_BY_DEFAULT if fitting is None else min(MOST_BY_DEFAULT, fitting)
    cores = usable_cores()
    return 1 if cores <= _OF_ONE else min(cores, most)


def place_given() -> int | None:
    """Return the number of this process if another one began it as part of a service.

    It then handles signals as any process does, and ends with the one that watches it.
    """
    given = os.environ.pop(_PLACE, None)
    if given is None:
        return None
    place, watcher = map(int, given.split())
    _begin(watcher)
    return place


def become_one_of(count: int, read_again: Callable[[], bool]) -> int:
    """Return in each of `count` new processes; the calling process exits when all have ended.

    Call it once the store was found to open (`do_apart`) and this process is ready to be shared
    (`sharing`). If a process ends by itself, all are stopped, and its exit status is ours; except
    if it only found the store's server away, or could not start as a replacement while an older one
    goes on. In a new process SIGHUP stays blocked until it is handled (`sighup`).

    Args:
        count: How many.
        read_again: Called on SIGHUP in the watching process: reads the settings again, for
            processes that are started later, and returns whether the others shall do so as well.

    Returns:
        The number of the process, from 0; a replacement has the number of the one it replaces.
    """
    watcher = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    watch = _Watch(read_again)
    while True:
        while len(watch.running) < count and not watch.is_stopping:
            place: int = min({*range(count)} - {*watch.running.values()})
            child = os.fork() if _may_fork() else _begun_anew(place, watcher)
            if child == 0:
                _begin(watcher)
                return place
            watch.started(child, place)
        watch.take(signal.sigwait(_WATCHED))
        watch.look_for_ended()
        if watch.is_stopping and not watch.running:
            sys.exit(watch.status)


class _Watch:
    """The watching process's view of the others.

    `running` are those that have not ended, oldest first, with their numbers; `status` is what to
    exit with when all have ended.
    """

    def __init__(self, read_again: Callable[[], bool]) -> None:
        self.running: dict[int, int] = {}
        self.is_stopping = False
        self.status = 0
        self._places: set[int] = set()  # that were used before
        self._replacing: set[int] = set()
        self._read_again = read_again
        self._terminal = sighup.Terminal()

    def started(self, child: int, place: int) -> None:
        """Record a process that was started, for the first time or as a replacement."""
        self.running[child] = place
        if place in self._places:
            self._replacing.add(child)
        self._places.add(place)

    def take(self, received: int) -> None:
        """Pass a signal on."""
        if received == signal.SIGHUP and not self._terminal.is_gone:
            if not self.is_stopping and self._read_again():
                self._tell(signal.SIGHUP)
        elif received != signal.SIGCHLD:
            self.is_stopping = True
            self._tell(signal.SIGTERM)

    def look_for_ended(self) -> None:
        """Record which processes have ended; a killed process is soon replaced."""
        for child, code in _ended():
            is_oldest = next(iter(self.running), child) == child
            self.running.pop(child, None)
            if self.is_stopping:
                continue
            if code == BAD_INPUT and not is_oldest and child in self._replacing:
                # Such as a file that is broken now and that the others read long ago: they go on.
                log.error("a process could not start in the place of another")  # it has said why
                time.sleep(_RESTART_SECONDS)
            elif _may_be_replaced(code):
                # Where the server is away, one after another tries until one can reach it; the
                # others wait for the server, too.
                time.sleep(_RESTART_SECONDS)
            else:
                self.status, self.is_stopping = code, True
                self._tell(signal.SIGTERM)

    def _tell(self, what: signal.Signals) -> None:
        for child in self.running:
            os.kill(child, what)


def _may_be_replaced(code: int) -> bool:
    """Return whether a process has ended for a temporary reason, and log that."""
    if code < 0:
        log.warning("a process was killed", signal=-code)
        return True
    if code == PEER:
        log.warning("a process could not reach the store")
        return True
    return False


def _may_fork() -> bool:
    if not FORKS:
        return False
    found = hindrances()
    if found:
        log.warning("a process begins anew, and shares no memory with others", because=found)
    return not found


def _begun_anew(place: int, watcher: int) -> int:
    """Begin a process by the arguments of this one."""
    return os.posix_spawn(
        sys.executable,
        # -P: nothing is imported from the folder in which the service was started.
        [sys.executable, "-P", "-m", "aggregator.cli", *sys.argv[1:]],
        {**os.environ, _PLACE: f"{place} {watcher}"},
        setsigmask=signal.pthread_sigmask(signal.SIG_BLOCK, ()) - _TAKEN,
    )


def do_apart(work: Callable[[], bytes]) -> bytes:
    """Return what `work` does in its own process, or exit with that one's status if it fails.

    So a fault is reported once, and not by each of many processes, and this one stays as it is.
    """
    if not FORKS:
        return work()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writing, "wb") as result:
            result.write(work())  # an exception ends this process as it would end any command
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as result:
        returned = result.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        sys.exit(code if code > 0 else 128 - code)
    return returned


def succeeds_apart(work: Callable[[], object]) -> bool:
    """Return whether `work` succeeds in its own process; the log says why not."""
    if not FORKS:
        return _succeeds(work)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(_TRIAL_SECONDS)  # ends it
            status = 0 if _succeeds(work) else 1
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        log.error("settings stay as they were", reason="the store did not open in time")
    return code == 0


def _succeeds(work: Callable[[], object]) -> bool:
    try:
        work()
    except AggregatorError as error:
        log.error("settings stay as they were", reason=str(error))
    except Exception:  # the outermost edge of this trial
        log.exception("settings stay as they were")
    else:
        return True
    return False


def _begin(watcher: int) -> None:
    """Handle signals as any process does, and end with the process that watches us (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TAKEN)
    if os.getppid() != watcher:
        sys.exit(1)


def _ended() -> list[tuple[int, int]]:
    """Return the processes that have ended, each with its exit status, or -SIGNAL if killed."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if child == 0:
            return ended
        ended.append((child, os.waitstatus_to_exitcode(status)))
