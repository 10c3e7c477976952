"""The journal of releases in a file: one line per release, appended and synced to the disk.

Each line ends with a checksum of itself and of all lines before it, so a line that was changed or
removed is noticed. A power cut may leave a part of a line at the end: its share has not left, for
nobody was told that it was written, and the next one takes its place.

When a sync fails, the kernel may drop what it could not write and report success to whoever syncs
next. So lines count as on the disk only if the same process has written and then synced them: those
that it finds there it writes once more.

A file that is damaged is rebuilt from those of its lines that can be read, and stays beside its
successor. Whoever uses it notices that another file has its name, and reads that from the start.
"""

import errno
import fcntl
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from aggregator.service.storage.ledger.journal import (
    Choice,
    DamagedJournal,
    JournalError,
    Release,
    Released,
    checksum,
    checksum_in,
    from_line,
    release_in,
    to_line,
)

_HEADER = b"prio journal of releases, version 1"
_MENDED = "`prio store restored --journal-damaged` mends it"


class JournalFile:
    """A journal that the processes of one machine append to, one at a time (`flock`)."""

    def __init__(self, path: Path) -> None:
        """Keep the journal in the file at `path`."""
        self._path = path
        self._lock = threading.Lock()
        self._file: tuple[int, int] | None = None  # which one we have read
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._read = 0  # bytes of whole lines that we know
        self._checksum = b""
        self._releases: list[Release] = []
        self._of_task: defaultdict[bytes, Released] = defaultdict(Released)
        self._shares: set[tuple[bytes, bytes]] = set()

    @property
    def name(self) -> str:
        """What messages call it: its path."""
        return str(self._path)

    def exists(self) -> bool:
        """Return whether the file is there, with its beginning: another process may be making it.

        Raises:
            JournalError: It cannot be looked at.
        """
        try:
            return self._path.stat().st_size > len(_HEADER)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unusable(error) from error

    def create(self) -> None:
        """Make the file, readable by its owner only, unless it is there.

        Raises:
            JournalError: It cannot be made.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            _sync_folder(self._path.parent)
        except OSError as error:
            raise self._unusable(error) from error
        with self._opened(fcntl.LOCK_EX) as descriptor:
            if not self._read:
                os.ftruncate(descriptor, 0)
                _write(descriptor, 0, _HEADER + b"\n")
                os.fsync(descriptor)

    def releases(self) -> Sequence[Release]:
        """Return all releases, oldest first.

        Raises:
            JournalError: The file is not there, cannot be read, or was changed.
        """
        with self._opened(fcntl.LOCK_SH):
            return list(self._releases)

    def holds(self, task_id: bytes, share_sha256: bytes) -> bool:
        """Return whether we have seen the release of this share in the file."""
        return (task_id, share_sha256) in self._shares

    def append(self, releases: Iterable[Release]) -> None:
        """Write those that are not there; return when the disk has them.

        Raises:
            Contradiction: One of them contradicts another.
            JournalError: The file cannot be written.
        """
        with self._opened(fcntl.LOCK_EX) as descriptor:
            if not self._read:
                raise JournalError(f"the journal of releases {self._path} has no beginning")
            lines, before, added = list[bytes](), self._checksum, list[Release]()
            try:
                for release in releases:
                    if self._of_task[release.task_id].add(release):
                        line, before = to_line(release, before)
                        lines.append(line)
                        added.append(release)
                if lines:
                    content = b"".join(lines)
                    os.ftruncate(descriptor, self._read)  # less a line that was never synced
                    _write(descriptor, self._read, content)
                    os.fsync(descriptor)
            except BaseException:
                self._begin_anew()  # the file says what was written of it
                raise
            for release in added:
                self._keep(release)
            self._read += sum(map(len, lines))
            self._checksum = before

    def rebuild(self, choose: Choice) -> None:
        """Put a file in its place with what `choose` returns.

        Raises:
            JournalError: No line of the file is of a journal, or it cannot be written.
        """
        with self._locked(fcntl.LOCK_EX) as descriptor:
            self._begin_anew()
            first, *lines = os.pread(descriptor, os.fstat(descriptor).st_size, 0).split(b"\n")
            found, changed = _readable([first, *lines])
            if first not in (b"", _HEADER) and not found:
                raise JournalError(
                    f"{self._path} is no journal of releases: no line of it is one's. Does "
                    "release_journal name another file? If not, move it away first"
                )
            before = checksum(b"", _HEADER)
            content = [_HEADER + b"\n"]
            for release in choose(found, changed):
                line, before = to_line(release, before)
                content.append(line)
            successor = self._path.with_name(f"{self._path.name}.new")
            try:
                _make(successor, b"".join(content))
                damaged = self._path.with_name(f"{self._path.name}.damaged")
                damaged.unlink(missing_ok=True)
                damaged.hardlink_to(self._path)
                successor.replace(self._path)
                _sync_folder(self._path.parent)
            except OSError as error:
                raise self._unusable(error) from error

    def check(self) -> None:
        """Look whether a release could be written.

        Raises:
            JournalError: It could not: the file is not there, was changed, or its disk is full.
        """
        with self._opened(fcntl.LOCK_SH) as descriptor:
            if not os.fstatvfs(descriptor).f_bavail:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Do nothing: the file is open only while it is used."""

    @contextmanager
    def _opened(self, kind: int) -> Iterator[int]:
        """Yield the file, locked, when all of its lines are known."""
        with self._locked(kind) as descriptor:
            self._read_on(descriptor)
            yield descriptor

    @contextmanager
    def _locked(self, kind: int) -> Iterator[int]:
        """Yield the file, locked: the one that has its name, whoever has replaced it meanwhile."""
        with self._lock:
            descriptor = None
            try:
                while descriptor is None or _identity(descriptor) != _identity(self._path):
                    if descriptor is not None:
                        # Forgotten first: if the next open fails, its number may be another's.
                        replaced, descriptor = descriptor, None
                        os.close(replaced)
                    descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
                    fcntl.flock(descriptor, kind)
                if self._file != _identity(descriptor):
                    self._begin_anew()
                    self._file = _identity(descriptor)
                yield descriptor
            except OSError as error:
                raise self._unusable(error) from error
            finally:
                if descriptor is not None:
                    os.close(descriptor)

    def _read_on(self, descriptor: int) -> None:
        """Take the lines that others have written, or that we could not sync."""
        size = os.fstat(descriptor).st_size
        if size < self._read:
            raise DamagedJournal(
                f"the journal of releases {self._path} has become shorter: `prio status` writes "
                "what it has lost once more, from the store"
            )
        whole, end, _ = os.pread(descriptor, size - self._read, self._read).rpartition(b"\n")
        if end:
            _write(descriptor, self._read, whole + end)
            os.fsync(descriptor)
            for line in whole.split(b"\n"):
                self._take(line)
                self._read += len(line) + 1

    def _take(self, line: bytes) -> None:
        if not self._read:
            if line != _HEADER:
                raise DamagedJournal(
                    f"{self._path} is no journal of releases: if its beginning was damaged, "
                    f"{_MENDED}"
                )
            self._checksum = checksum(b"", line)
            return
        try:
            release, self._checksum = from_line(line, self._checksum)
            self._of_task[release.task_id].add(release)
        except JournalError as error:
            number = len(self._releases) + 2
            raise DamagedJournal(
                f"the journal of releases {self._path} is damaged: line {number}: {error}; "
                f"{_MENDED}"
            ) from error
        self._keep(release)

    def _keep(self, release: Release) -> None:
        self._releases.append(release)
        if release.share_sha256 is not None:
            self._shares.add((release.task_id, release.share_sha256))

    def _unusable(self, error: OSError) -> JournalError:
        return JournalError(f"the journal of releases {self._path}: {error.strerror}")


def _readable(lines: Sequence[bytes]) -> tuple[list[Release], list[Release]]:
    """Return the releases in lines that can be read, and those of them that were changed.

    Each line is held to the checksum that the one before it states: so one damaged line puts no
    doubt on all that follow.
    """
    found, changed, before = list[Release](), list[Release](), checksum(b"", _HEADER)
    for line in lines:
        with suppress(JournalError):
            release = release_in(line)
            found.append(release)
            if checksum(before, line.rpartition(b" ")[0]) != checksum_in(line):
                changed.append(release)
        before = checksum_in(line) or before
    return found, changed


def _identity(file: int | Path) -> tuple[int, int]:
    found = file.stat() if isinstance(file, Path) else os.fstat(file)
    return found.st_dev, found.st_ino


def _make(path: Path, content: bytes) -> None:
    """Make a file, readable by its owner only, that is on the disk."""
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        _write(descriptor, 0, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, place: int, content: bytes) -> None:
    while content:
        written = os.pwrite(descriptor, content, place)
        content, place = content[written:], place + written
