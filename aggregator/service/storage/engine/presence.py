"""How a party's services show that they run, so that others can ask the store who does.

Whoever runs holds a shared lock for each of its duties, on files beside an SQLite store or on a
PostgreSQL server. The system, or the server, releases the locks of a process that dies, however it
dies. So nothing is written while a service runs, and no clock decides.
"""

import errno
import fcntl
import math
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from aggregator.errors import StoreError
from aggregator.service.config import open_plain


class Duty(StrEnum):
    """What a party's services do: answer requests, and drive jobs."""

    SERVE = "serve"
    WORK = "work"


Present = Mapping[Duty, float]
"""The duties that somebody does now, and for how many seconds; infinite if nobody knows."""


class Presence(Protocol):
    """The locks by which one process shows which duties it does."""

    def keep(self) -> None:
        """Take the locks if they are not held, at first or because they were lost.

        Raises:
            StoreError: They cannot be taken.
        """

    def close(self) -> None:
        """Release them."""


class PresenceFiles:
    """Locks on files beside a store, one for each duty.

    A file holds the moment from which on somebody has done its duty without a gap, by the clock
    that counts from the machine's start.
    """

    def __init__(self, store: Path, duties: Collection[Duty]) -> None:
        """Show the duties beside the store's file once `keep` is called."""
        self._store = store
        self._duties = duties
        self._held: dict[Duty, int] = {}

    def keep(self) -> None:
        """Lock the files, and make those that are not there."""
        for duty in self._duties:
            try:
                if not self._is_held(duty):
                    self._release(duty)
                    self._held[duty] = _locked(self._store, duty)
            except OSError as error:
                path = error.filename or _file(self._store, duty)
                raise StoreError(f"{path} cannot be locked: {error.strerror}") from error

    def close(self) -> None:
        """Release the locks, and leave the files."""
        for duty in self._duties:
            self._release(duty)

    def _is_held(self, duty: Duty) -> bool:
        """Return whether the file that we have locked is still the one at its path."""
        if duty not in self._held:
            return False
        with suppress(FileNotFoundError):
            there = _file(self._store, duty).stat()
            return os.path.samestat(there, os.fstat(self._held[duty]))
        return False

    def _release(self, duty: Duty) -> None:
        if duty in self._held:
            os.close(self._held.pop(duty))


def present_beside(store: Path) -> Present:
    """Return the duties that somebody shows beside a store's file.

    Raises:
        StoreError: We may not look.
    """
    found = {}
    try:
        with _turn(store, os.O_RDONLY):
            for duty in Duty:
                with suppress(FileNotFoundError), _opened(_file(store, duty), os.O_RDONLY) as file:
                    if not _is_free(file):
                        found[duty] = _seconds_since(os.pread(file, 64, 0))
    except FileNotFoundError:  # no service has run yet
        return {}
    except OSError as error:
        path = error.filename or _file(store, "look")
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    return found


def _file(store: Path, what: str) -> Path:
    return store.with_name(f"{store.name}.{what}")


def _locked(store: Path, duty: Duty) -> int:
    """Lock a duty's file, and write the time into it if nobody else has locked it."""
    with _turn(store, os.O_RDWR | os.O_CREAT):
        descriptor = _open(_file(store, duty), os.O_RDWR | os.O_CREAT)
        try:
            is_first = _is_free(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if is_first:
                with suppress(OSError):  # a full disk; that it runs is said all the same
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, f"{time.monotonic()}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


@contextmanager
def _turn(store: Path, flags: int) -> Iterator[None]:
    """Look alone: to look is to take a lock, which another who looks would mistake for a duty's."""
    with _opened(_file(store, "look"), flags) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = _open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int) -> int:
    """Open a file that a link does not lead elsewhere: what it leads to is not ours to write."""
    if path.is_symlink():
        raise OSError(
            errno.ELOOP, "is a link, and a file of its own is needed: remove it", str(path)
        )
    return open_plain(path, flags | os.O_NOFOLLOW)


def _is_free(descriptor: int) -> bool:
    """Return whether nobody holds the file's lock; call it in one's turn."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def _seconds_since(text: bytes) -> float:
    with suppress(ValueError):
        seconds = time.monotonic() - float(text)
        if seconds >= 0:
            return seconds
    return math.inf
