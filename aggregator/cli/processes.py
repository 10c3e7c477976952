"""Runs a service as several equal processes: all accept connections at one address, over one store.

The first process only watches the others. It passes the signal to stop on to them, and starts
another in the place of one that was killed.
"""

import ctypes
import os
import signal
import sys
import time

import structlog

log = structlog.get_logger()

_RESTART_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1
_WATCHED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})


def become_one_of(count: int) -> None:
    """Return in each of `count` new processes; the calling process exits when all have ended.

    Call it before there are threads. If one of them ends by itself, all are stopped, and its exit
    status is ours.
    """
    watcher = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    running: set[int] = set()
    status, is_stopping = 0, False
    while True:
        while len(running) < count and not is_stopping:
            child = os.fork()
            if child == 0:
                _begin(watcher)
                return
            running.add(child)
        if signal.sigwait(_WATCHED) != signal.SIGCHLD:
            is_stopping = True
            _stop(running)
        for child, code in _ended():
            running.discard(child)
            if code < 0 and not is_stopping:
                log.warning("a process was killed", signal=-code)
                time.sleep(_RESTART_SECONDS)
            elif not is_stopping:
                status, is_stopping = code, True
                _stop(running)
        if is_stopping and not running:
            sys.exit(status)


def _begin(watcher: int) -> None:
    """Take signals as any process does, and end with the process that watches us."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
    if os.getppid() != watcher:
        sys.exit(1)


def _stop(running: set[int]) -> None:
    for child in running:
        os.kill(child, signal.SIGTERM)


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
