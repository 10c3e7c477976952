"""The journal of releases in a file: whose it is, then one line per release.

A line is appended and synced to the disk before its share leaves. Each ends with a checksum of
itself and of all lines before it, so a changed or removed line is noticed. A power cut may leave
part of a line at the end: its share has not left, since nobody was told that the line was written,
and the next line overwrites it.

When a sync fails, the kernel may drop what it could not write and report success to the next caller
that syncs. So a process counts only those lines as on the disk that it has written and then synced
itself; it writes the lines that it finds there once more.

A damaged file is rebuilt from its readable lines, and kept beside its successor. Processes that use
it notice that the name now belongs to another file, and read that from the start.
"""

import errno
import fcntl
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from aggregator.service.config import check_plain, open_plain
from aggregator.service.storage.ledger.journal import (
    Choice,
    DamagedJournal,
    ForeignJournal,
    JournalError,
    Owner,
    Release,
    Released,
    checksum,
    checksum_in,
    from_line,
    owner_in,
    release_in,
    to_header,
    to_line,
)
from aggregator.service.storage.secrets.files import sync_path, write_at

HEADER_SIZE = len(to_header(Owner("leader", 0))[0])
"""The bytes of a first line, the same for either role."""

_MENDED = "`prio store after-restore --journal-damaged` mends it"


class JournalFile:
    """A journal that the processes of one machine append to, one at a time (`flock`)."""

    def __init__(self, path: Path) -> None:
        """Keep the journal in the file at `path`."""
        self._path = path
        self._lock = threading.Lock()
        self._file: tuple[int, int] | None = None  # the file that we have read
        self._owner: Owner | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._read = 0  # bytes of whole lines that we know
        self._checksum = b""
        self._releases: list[Release] = []
        self._of_task: defaultdict[bytes, Released] = defaultdict(Released)
        self._shares: set[tuple[bytes, bytes]] = set()

    @property
    def name(self) -> str:
        """Its name in messages: the path."""
        return str(self._path)

    def exists(self) -> bool:
        """Return whether the file has its first line; another process may be creating it.

        Raises:
            JournalError: The file cannot be examined.
        """
        try:
            return check_plain(self._path) and self._path.stat().st_size >= HEADER_SIZE
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unusable(error) from error

    def create(self, owner: Owner) -> None:
        """Create the file, readable by its user only, unless it exists.

        Raises:
            JournalError: It cannot be created.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(open_plain(self._path, os.O_CREAT | os.O_WRONLY))
            sync_path(self._path.parent)
        except OSError as error:
            raise self._unusable(error) from error
        with self._opened(fcntl.LOCK_EX) as descriptor:
            if not self._read:
                os.ftruncate(descriptor, 0)
                write_at(descriptor, 0, to_header(owner)[0])
                os.fsync(descriptor)

    def owner(self) -> Owner:
        """Return whose the file says that it is.

        Raises:
            DamagedJournal: Its first line was changed.
            JournalError: The file is missing, or cannot be read.
        """
        with self._locked(fcntl.LOCK_SH) as descriptor:
            return self._owner_in(os.pread(descriptor, HEADER_SIZE, 0).partition(b"\n")[0])

    def belongs_to(self, owner: Owner) -> None:
        """From now on, take only the file of this store for ours."""
        with self._lock:
            self._owner = owner
            self._begin_anew()

    def releases(self) -> Sequence[Release]:
        """Return all releases, oldest first.

        Raises:
            JournalError: The file is missing, cannot be read, or was changed.
        """
        with self._opened(fcntl.LOCK_SH):
            return list(self._releases)

    def holds(self, task_id: bytes, share_sha256: bytes) -> bool:
        """Return whether we have seen the release of this share in the file."""
        return (task_id, share_sha256) in self._shares

    def append(self, releases: Iterable[Release]) -> None:
        """Write the releases that are missing; return once they are on the disk.

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
                    os.ftruncate(descriptor, self._read)  # cut off what was never synced
                    write_at(descriptor, self._read, content)
                    os.fsync(descriptor)
            except BaseException:
                self._begin_anew()  # read anew from the file what was written
                raise
            for release in added:
                self._keep(release)
            self._read += sum(map(len, lines))
            self._checksum = before

    def rebuild(self, owner: Owner, choose: Choice) -> None:
        """Replace the file by one with the releases that `choose` returns.

        Raises:
            ForeignJournal: It is that of another store than its owner's.
            JournalError: No line of the file looks like a journal's, or it cannot be written.
        """
        with self._locked(fcntl.LOCK_EX) as descriptor:
            self._begin_anew()
            first, *lines = os.pread(descriptor, os.fstat(descriptor).st_size, 0).split(b"\n")
            found, changed = _readable([first, *lines])
            theirs = None
            with suppress(JournalError):
                theirs = owner_in(first)
            if theirs is not None and theirs != owner:
                raise ForeignJournal(self.name, theirs, owner)
            if theirs is None and first and not found:
                raise JournalError(
                    f"{self._path} is no journal of releases: none of its lines is a release. Does "
                    "release_journal name another file? If not, move it away first"
                )
            header, before = to_header(owner)
            content = [header]
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
                sync_path(self._path.parent)
            except OSError as error:
                raise self._unusable(error) from error

    def check(self) -> None:
        """Check that a release could be written.

        Raises:
            JournalError: It could not: the file is missing or was changed, or its disk is full.
        """
        with self._opened(fcntl.LOCK_SH) as descriptor:
            if not os.fstatvfs(descriptor).f_bavail:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Do nothing: the file is open only while it is used."""

    @contextmanager
    def _opened(self, kind: int) -> Iterator[int]:
        """Yield the file's descriptor, locked, once all its lines have been read."""
        with self._locked(kind) as descriptor:
            self._read_on(descriptor)
            yield descriptor

    @contextmanager
    def _locked(self, kind: int) -> Iterator[int]:
        """Yield the locked descriptor of the file at the path, even if it was just replaced."""
        with self._lock:
            descriptor = None
            try:
                while descriptor is None or _identity(descriptor) != _identity(self._path):
                    if descriptor is not None:
                        # Cleared before closing: the number may soon be another file's.
                        replaced, descriptor = descriptor, None
                        os.close(replaced)
                    descriptor = open_plain(self._path, os.O_RDWR)
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
        """Read the lines that others have written, or that we could not sync."""
        size = os.fstat(descriptor).st_size
        if size < self._read:
            raise DamagedJournal(
                f"the journal of releases {self._path} has become shorter: `prio status` writes "
                "what it has lost once more, from the store"
            )
        whole, end, _ = os.pread(descriptor, size - self._read, self._read).rpartition(b"\n")
        if not (end or self._read) and size >= HEADER_SIZE:
            raise self._no_journal()
        if end:
            write_at(descriptor, self._read, whole + end)
            os.fsync(descriptor)
            for line in whole.split(b"\n"):
                self._take(line)
                self._read += len(line) + 1

    def _take(self, line: bytes) -> None:
        if not self._read:
            owner = self._owner_in(line)
            if self._owner is not None and owner != self._owner:
                raise ForeignJournal(self.name, owner, self._owner)
            self._checksum = checksum_in(line)
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

    def _owner_in(self, line: bytes) -> Owner:
        try:
            return owner_in(line)
        except JournalError as error:
            raise self._no_journal() from error

    def _no_journal(self) -> DamagedJournal:
        return DamagedJournal(
            f"{self._path} is no journal of releases: if its beginning was damaged, {_MENDED}"
        )

    def _keep(self, release: Release) -> None:
        self._releases.append(release)
        if release.share_sha256 is not None:
            self._shares.add((release.task_id, release.share_sha256))

    def _unusable(self, error: OSError) -> JournalError:
        return JournalError(f"the journal of releases {self._path}: {error.strerror}")


def _readable(lines: Sequence[bytes]) -> tuple[list[Release], list[Release]]:
    """Return the releases in readable lines, and those among them that were changed.

    Each line is checked against the checksum that the line before it states, so one damaged line
    casts no doubt on those that follow.
    """
    found, changed, before = list[Release](), list[Release](), b""
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
    """Write a file, readable by its owner only, and sync it to the disk."""
    descriptor = open_plain(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    try:
        write_at(descriptor, 0, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
