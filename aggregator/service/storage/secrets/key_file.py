"""A file of short-lived keys beside a database, in which a key can be destroyed at once.

A database keeps what was deleted for as long as anybody reads what was there before: in its log, or
in its file until the log is copied there. In this file a key has a slot of its own, and destroying
it overwrites the slot and waits for the disk, no matter what is being read. docs/limits.md says
what else file systems and disks keep of overwritten blocks.

Slots are numbered from 0 and never used again: the number of a destroyed key leads to nothing,
never to the key of something else.

A file that lacks slots which the database names is lost, old or cut, and its keys may be elsewhere:
nothing is put into it, nor is another one made, or the whole file would take the place of new keys
when it comes back.
"""

import contextlib
import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from sqlalchemy import Connection

from aggregator.errors import StoreError
from aggregator.service.storage.secrets.files import sync_path, write_at

SLOT_SIZE = 64
"""Bytes of a sealed key: a fingerprint, a nonce, 32 bytes and a tag."""

_DESTROYED = bytes(SLOT_SIZE)


class KeyGone(StoreError):
    """A slot holds no key: it was destroyed, or the file is not the one that it was put into."""


class KeysMissing(StoreError):
    """The file is not the one that has the store's keys, so that no more are put there."""


class KeyFile:
    """Sealed keys by the number of their slot; several processes may have it open."""

    def __init__(self, path: Path) -> None:
        """Keep keys in the file at `path`, which the first key makes."""
        self._path = path
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    def within(self, _: Connection) -> Self:
        """Return these keys: a file knows no transactions."""
        return self

    def put(self, keys: Sequence[bytes], first_unused: int) -> range:
        """Write keys of `SLOT_SIZE` bytes under the writers' lock; return when they last.

        Args:
            keys: The keys.
            first_unused: The first slot that the database never named, even if the file was lost.

        Returns:
            Their slots.

        Raises:
            KeysMissing: The file is gone, was replaced, or lacks slots that the database named.
        """
        with self._opened(create=not first_unused) as descriptor:
            size = 0 if descriptor is None else os.fstat(descriptor).st_size
            if descriptor is None or size < first_unused * SLOT_SIZE:
                raise KeysMissing(
                    f"{self._path} is missing, old or cut short, and lacks the keys of some "
                    "sums: nothing is counted until it is back; if it is lost for ever, `prio "
                    "store restored --trust-journal` closes their units of time"
                )
            if not self._is_in_place(descriptor):
                raise KeysMissing(
                    f"{self._path} was moved, removed or replaced while it was in use: put it "
                    "back; if you meant the change, start this process again"
                )
            first = -(-size // SLOT_SIZE)
            write_at(descriptor, first * SLOT_SIZE, b"".join(keys))
            os.fsync(descriptor)
        return range(first, first + len(keys))

    def get(self, slot: int) -> bytes:
        """Return a key.

        Raises:
            KeyGone: The slot holds none.
        """
        with self._opened() as descriptor:
            place = slot * SLOT_SIZE
            key = b"" if descriptor is None else os.pread(descriptor, SLOT_SIZE, place)
        if len(key) < SLOT_SIZE or key == _DESTROYED:
            raise KeyGone(f"{self._path} has no key in slot {slot}")
        return key

    def replace(self, slot: int, key: bytes) -> None:
        """Put another ciphertext of the same key into its slot, which lies in one sector.

        Call it in a transaction that names the slot and writes: nobody destroys it meanwhile.
        """
        with self._opened() as descriptor:
            if descriptor is not None:
                write_at(descriptor, slot * SLOT_SIZE, key)
                os.fsync(descriptor)

    def delete(self, slots: Sequence[int]) -> Sequence[int]:
        """Return `slots`: they are to be destroyed when the transaction is committed."""
        return slots

    def held(self) -> list[int]:
        """Return the slots whose keys are not destroyed."""
        with self._opened() as descriptor:
            size = 0 if descriptor is None else os.fstat(descriptor).st_size
            content = b"" if descriptor is None else os.pread(descriptor, size, 0)
        return [
            slot
            for slot in range(-(-len(content) // SLOT_SIZE))
            if any(content[slot * SLOT_SIZE : (slot + 1) * SLOT_SIZE])
        ]

    def destroy(self, slots: Iterable[int]) -> None:
        """Overwrite keys and return when the disk says that it has done so."""
        with self._opened() as descriptor:
            if descriptor is None:
                return
            in_order = enumerate(sorted(slots))
            for _, run in itertools.groupby(in_order, lambda place: place[1] - place[0]):
                numbers = [slot for _, slot in run]
                write_at(descriptor, numbers[0] * SLOT_SIZE, _DESTROYED * len(numbers))
            os.fsync(descriptor)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _is_in_place(self, descriptor: int) -> bool:
        """Return whether the file that we use is the one that the next process will find."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _opened(self, *, create: bool = False) -> Iterator[int | None]:
        """Yield the file's descriptor; None if there is no file and none is to be made.

        Raises:
            StoreError: The file cannot be used; it is named.
        """
        try:
            with self._lock:
                if self._descriptor is None:
                    self._descriptor = _descriptor(self._path, create=create)
            yield self._descriptor
        except OSError as error:
            raise StoreError(f"the store's keys in {self._path}: {error.strerror}") from error


def _descriptor(path: Path, *, create: bool) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if not create:
            return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    sync_path(path.parent)
    return descriptor
