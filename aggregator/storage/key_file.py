"""A file of short-lived keys beside a database, in which a key can be destroyed at once.

A database keeps what was deleted for as long as anybody reads what was there before: in its log, or
in its file until the log is copied there. In this file a key has a slot of its own, and destroying
it overwrites the slot and waits for the disk, whoever reads what. What else file systems and disks
keep of overwritten blocks is said in docs/limits.md.

Slots are numbered from 0 and never used again: whoever still holds the number of a destroyed key
finds nothing there, and not the key of something else.
"""

import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from aggregator.errors import StoreError

SLOT_SIZE = 64
"""Bytes of a sealed key: a fingerprint, a nonce, 32 bytes and a tag."""

_DESTROYED = bytes(SLOT_SIZE)


class KeyGone(StoreError):
    """A slot holds no key: it was destroyed, or the file is not the one that it was put into."""


class KeyFile:
    """Sealed keys by the number of their slot; several processes may have it open."""

    def __init__(self, path: Path) -> None:
        """Keep keys in the file at `path`, which the first key makes."""
        self._path = path
        self._descriptor: int | None = None

    def next_slot(self) -> int:
        """Return the first slot that was never used; ask and `put` under the writers' lock."""
        descriptor = self._open()
        return 0 if descriptor is None else -(-os.fstat(descriptor).st_size // SLOT_SIZE)

    def put(self, first: int, keys: Sequence[bytes]) -> None:
        """Write keys of `SLOT_SIZE` bytes to the slots from `first` on; return when they last."""
        descriptor = self._open() or self._create()
        _write(descriptor, first * SLOT_SIZE, b"".join(keys))
        os.fsync(descriptor)

    def get(self, slot: int) -> bytes:
        """Return a key.

        Raises:
            KeyGone: The slot holds none.
        """
        descriptor = self._open()
        key = b"" if descriptor is None else os.pread(descriptor, SLOT_SIZE, slot * SLOT_SIZE)
        if len(key) < SLOT_SIZE or key == _DESTROYED:
            raise KeyGone(f"{self._path} has no key in slot {slot}")
        return key

    def held(self) -> list[int]:
        """Return the slots whose keys are not destroyed."""
        descriptor = self._open()
        if descriptor is None:
            return []
        size = os.fstat(descriptor).st_size
        content = os.pread(descriptor, size, 0)
        return [
            slot
            for slot in range(-(-size // SLOT_SIZE))
            if any(content[slot * SLOT_SIZE : (slot + 1) * SLOT_SIZE])
        ]

    def destroy(self, slots: Iterable[int]) -> None:
        """Overwrite keys and return when the disk says that it has done so."""
        descriptor = self._open()
        if descriptor is None:
            return
        in_order = enumerate(sorted(slots))
        for _, run in itertools.groupby(in_order, lambda place: place[1] - place[0]):
            numbers = [slot for _, slot in run]
            _write(descriptor, numbers[0] * SLOT_SIZE, _DESTROYED * len(numbers))
        os.fsync(descriptor)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int | None:
        """Return the file's descriptor; None if there is no file yet."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
        return self._descriptor

    def _create(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return self._descriptor


def _write(descriptor: int, place: int, content: bytes) -> None:
    while content:
        written = os.pwrite(descriptor, content, place)
        content, place = content[written:], place + written
