"""Runs a service as several equal processes: all accept connections at one address, over one store.

The first process only watches the others. It passes the signal to stop on to them, and starts
another in the place of one that was killed, until one of those can reach the store: while its
server is away the others wait for it, too.
"""

import ctypes
import os
import signal
import sys
import time

import structlog

from aggregator.cli.faults import PEER

log = structlog.get_logger()

_RESTART_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1
_WATCHED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})


def become_one_of(count: int) -> None:
    """Return in each of `count` new processes; the calling process exits when all have ended.

    Call it before there are threads. If one of them ends by itself, all are stopped, and its exit
    status is ours; but one that took another's place may find the store's server away.
    """
    watcher = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    running: set[int] = set()
    first: set[int] = set()
    status, is_stopping = 0, False
    while True:
        while len(running) < count and not is_stopping:
            child = os.fork()
            if child == 0:
                _begin(watcher)
                return
            running.add(child)
            if len(first) < count:
                first.add(child)
        if signal.sigwait(_WATCHED) != signal.SIGCHLD:
            is_stopping = True
            _stop(running)
        for child, code in _ended():
            running.discard(child)
            if is_stopping:
                continue
            if _may_be_replaced(code, is_first=child in first):
                time.sleep(_RESTART_SECONDS)
            else:
                status, is_stopping = code, True
                _stop(running)
        if is_stopping and not running:
            sys.exit(status)


def _may_be_replaced(code: int, *, is_first: bool) -> bool:
    """Return whether a process has ended for a reason that passes, and log that."""
    if code < 0:
        log.warning("a process was killed", signal=-code)
        return True
    if code == PEER and not is_first:
        log.warning("a process could not reach the store")
        return True
    return False


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
