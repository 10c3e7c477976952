"""A file of short-lived keys beside a database, in which a key can be destroyed at once.

A database keeps what was deleted for as long as anybody reads what was there before: in its log, or
in its file until the log is copied there. In this file a key has a slot of its own, and destroying
it overwrites the slot and waits for the disk, no matter what is being read. docs/limits.md says
what else file systems and disks keep of overwritten blocks.

Slots are numbered from 0 and never used again: the number of a destroyed key leads to nothing,
never to the key of something else.
"""

import contextlib
import dataclasses
import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from aggregator.errors import StoreError
from aggregator.service.config import NotPlain, open_plain
from aggregator.service.storage.secrets.files import sync_path, write_at

SLOT_SIZE = 64
"""Bytes of a sealed key: a fingerprint, a nonce, 32 bytes and a tag."""

_DESTROYED = bytes(SLOT_SIZE)
_MARK = b"the next slots hold keys that may not be committed: "
"""How a mark begins; the number of these keys follows, most significant byte first.

A file that goes on behind the slots that the database knows is either beside an older copy of the
database, whose newest may come back, or a process died before it had committed what the new keys
are for. The mark tells the two apart: it is destroyed when the keys are committed.
"""


class KeyGone(StoreError):
    """A slot holds no key: it was destroyed, or the file is not the one that it was put into."""


class KeysMissing(StoreError):
    """The file is not the one that has the store's keys, so that no more are put there."""


class KeysAhead(StoreError):
    """The file has keys of sums that the database does not know: it is a copy from before them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """What is not destroyed.

    Attributes:
        slots: The slots of keys and of marks, in order.
        uncommitted: Those of them with keys that may not have been committed, and of their marks.
    """

    slots: Sequence[int] = ()
    uncommitted: frozenset[int] = frozenset()


class KeyFile:
    """Sealed keys by the number of their slot; several processes may have it open."""

    def __init__(self, path: Path) -> None:
        """Keep keys in the file at `path`, which the first key makes."""
        self._path = path
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """What messages call these keys: the file."""
        return f"the key file {self._path}"

    def put(self, keys: Sequence[bytes], named: int, known: int) -> range:
        """Write keys of `SLOT_SIZE` bytes under the writers' lock; return when they last.

        Their mark is in the slot before the first.

        Args:
            keys: The keys.
            named: The first slot behind all that the database names.
            known: The first behind all that it has ever named, even if the file was lost since.

        Returns:
            Their slots.

        Raises:
            KeysMissing: The file is gone, was replaced, or lacks slots that the database named.
        """
        with self._opened(create=not named) as descriptor:
            size = 0 if descriptor is None else os.fstat(descriptor).st_size
            if descriptor is None or size < named * SLOT_SIZE:
                # The file is lost, old or cut, and its keys may be elsewhere. Were new keys put
                # here, the whole file would take their place when it comes back.
                raise KeysMissing(
                    f"{self._path} is missing, old or cut short, and lacks the keys of some "
                    "sums: nothing is counted until it is back; if it is lost for ever, `prio "
                    "store after-restore --trust-journal` closes their units of time"
                )
            if not self._is_in_place(descriptor):
                raise KeysMissing(
                    f"{self._path} was moved, removed or replaced while it was in use: put it "
                    "back; if you meant the change, start this process again"
                )
            mark = max(-(-size // SLOT_SIZE), known)
            for slot, content in ((mark, _mark(len(keys))), (mark + 1, b"".join(keys))):
                write_at(descriptor, slot * SLOT_SIZE, content)
                os.fsync(descriptor)  # no key lasts before its mark does
        return range(mark + 1, mark + 1 + len(keys))

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

    def end(self) -> int:
        """Return the first slot behind the file, 0 if there is none."""
        with self._opened() as descriptor:
            return 0 if descriptor is None else -(-os.fstat(descriptor).st_size // SLOT_SIZE)

    def held(self, first: int = 0) -> Held:
        """Return what is not destroyed, from the slot `first` on."""
        with self._opened() as descriptor:
            size = 0 if descriptor is None else os.fstat(descriptor).st_size
            start = first * SLOT_SIZE
            left = max(0, size - start)
            content = b"" if descriptor is None else os.pread(descriptor, left, start)
        slots: list[int] = []
        uncommitted: set[int] = set()
        for place in range(0, len(content), SLOT_SIZE):
            key, slot = content[place : place + SLOT_SIZE], first + place // SLOT_SIZE
            if any(key):
                slots.append(slot)
            if len(key) < SLOT_SIZE:  # of a write that was cut off: nobody can use it
                uncommitted.add(slot)
            elif key.startswith(_MARK):
                count = int.from_bytes(key[len(_MARK) :], "big")
                uncommitted.update(range(slot, slot + 1 + min(count, len(content) // SLOT_SIZE)))
        return Held(slots, frozenset(uncommitted))

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
            KeysMissing: In its place is something else.
            StoreError: The file cannot be used; it is named.
        """
        try:
            with self._lock:
                if self._descriptor is None:
                    self._descriptor = _descriptor(self._path, create=create)
            yield self._descriptor
        except NotPlain as error:
            raise KeysMissing(
                f"the store's keys in {self._path}: it {error.strerror}; if the file is lost for "
                "ever, `prio store after-restore --trust-journal` then closes what it had the keys "
                "of"
            ) from error
        except OSError as error:
            raise StoreError(f"the store's keys in {self._path}: {error.strerror}") from error


def _mark(count: int) -> bytes:
    """Return what is in the slot before `count` keys until they are committed."""
    return _MARK + count.to_bytes(SLOT_SIZE - len(_MARK), "big")


def _descriptor(path: Path, *, create: bool) -> int | None:
    try:
        return open_plain(path, os.O_RDWR)
    except FileNotFoundError:
        if not create:
            return None
    descriptor = open_plain(path, os.O_RDWR | os.O_CREAT)
    sync_path(path.parent)
    return descriptor
