"""The journal of releases, in a file and in a table: it lasts, and contradicts no release."""

import dataclasses
import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from aggregator.protocol.batches import Batch
from aggregator.service.storage.ledger.charges import Charge
from aggregator.service.storage.ledger.journal import (
    Contradiction,
    ForeignJournal,
    Journal,
    JournalError,
    Owner,
    Release,
    journal_faults,
)
from aggregator.service.storage.ledger.journal_file import JournalFile
from aggregator.service.storage.ledger.journal_table import JournalTable
from tests.support.empty_store import new_place
from tests.support.racers import run_at_once
from tests.support.store import TASK_ID, TENTH, units

OWNER = Owner("leader", 2)
FIRST = Release(TASK_ID, units(0, 10), bytes(32), TENTH, 7)
SECOND = Release(TASK_ID, units(10, 11), None, Charge("None", None, "påtients"), 8)
THIRD = Release(bytes(32), units(3, 4), b"\x01" * 32, TENTH, 9)


@pytest.fixture(params=["file", "table"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal]:
    """Return what opens one and the same journal."""
    if request.param == "file":
        return lambda: JournalFile(tmp_path / "journal")
    url = new_place(tmp_path / "journal.sqlite")
    return lambda: JournalTable(url)


def test_what_is_appended_is_there_for_whoever_opens_it_next(
    opened: Callable[[], Journal],
) -> None:
    journal = opened()
    assert not journal.exists()
    journal.create(OWNER)
    journal.create(OWNER)
    journal.append([FIRST, SECOND])
    other = opened()
    assert other.exists()
    other.append([THIRD, FIRST])
    assert not journal.holds(THIRD.task_id, b"\x01" * 32)
    assert list(journal.releases()) == [FIRST, SECOND, THIRD]
    assert journal.holds(THIRD.task_id, b"\x01" * 32)
    assert not journal.holds(TASK_ID, b"\x01" * 32)
    for each in (journal, other):
        each.close()


def test_a_journal_that_is_not_there_is_named(opened: Callable[[], Journal]) -> None:
    journal = opened()
    (fault,) = journal_faults(journal)
    assert journal.name in fault
    journal.create(OWNER)
    assert journal_faults(journal) == []
    journal.close()


def test_a_journal_that_was_changed_or_has_no_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    journal = JournalFile(path)
    journal.create(OWNER)
    journal.append([FIRST, SECOND])
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    (fault,) = journal_faults(journal)
    assert f"{path} has become shorter: `prio status` writes what it has lost once more" in fault
    path.write_bytes(content)
    assert journal_faults(journal) == []
    full = os.statvfs_result([4096, 4096, 9, 0, 0, 9, 9, 9, 0, 255])
    monkeypatch.setattr(os, "fstatvfs", lambda _: full)
    assert journal_faults(journal) == [
        f"no result leaves: the journal of releases {path}: No space left on device"
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"share_sha256": b"\x02" * 32},
        {"share_sha256": None},
        {"batch": units(9, 12)},
        {"batch": units(4, 5)},
        {"batch": units(0, 30)},
    ],
    ids=["other noise", "no share", "overlap at the end", "part", "whole"],
)
def test_a_second_release_of_any_part_of_a_batch_is_refused(
    opened: Callable[[], Journal], change: dict[str, bytes | Batch | None]
) -> None:
    journal = opened()
    journal.create(OWNER)
    journal.append([FIRST])
    with pytest.raises(Contradiction, match="was released before"):
        journal.append([SECOND, dataclasses.replace(FIRST, **change)])
    assert FIRST in journal.releases()
    journal.append([FIRST, dataclasses.replace(FIRST, task_id=b"\x09" * 32, **change)])
    journal.close()


def test_of_many_who_write_down_releases_of_one_batch_one_succeeds(
    opened: Callable[[], Journal],
) -> None:
    journals = [opened() for _ in range(6)]
    journals[0].create(OWNER)
    written: list[int] = []

    def write(number: int) -> None:
        try:
            journals[number].append([dataclasses.replace(FIRST, share_sha256=bytes([number]) * 32)])
        except Contradiction:
            return
        written.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    run_at_once(threads)
    (winner,) = written
    assert [each.share_sha256 for each in journals[0].releases()] == [bytes([winner]) * 32]
    for each in journals:
        each.close()


def made(path: Path) -> tuple[JournalFile, Path]:
    journal = JournalFile(path / "journal")
    journal.create(OWNER)
    journal.append([FIRST, SECOND, THIRD])
    return journal, path / "journal"


def test_a_file_is_its_owners_only(tmp_path: Path) -> None:
    _, file = made(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"prio journal"])
def test_a_file_without_its_beginning_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(content)
    journal = JournalFile(path)
    assert not journal.exists()
    journal.create(OWNER)
    assert journal.exists()
    journal.append([FIRST])
    assert list(JournalFile(path).releases()) == [FIRST]


def test_a_line_that_was_cut_off_by_a_power_cut_is_written_anew(tmp_path: Path) -> None:
    _, file = made(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    journal = JournalFile(file)
    assert list(journal.releases()) == [FIRST, SECOND]
    journal.append([THIRD])
    assert file.read_bytes() == whole


@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_changed_line_is_named(tmp_path: Path, line: int) -> None:
    _, file = made(tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b"charged_at", b"chargedxat")
    file.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match=f"{file} is damaged: line {line + 1}"):
        JournalFile(file).releases()


def test_a_removed_line_is_noticed(tmp_path: Path) -> None:
    _, file = made(tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:1] + lines[2:]))
    with pytest.raises(JournalError, match="line 2"):
        JournalFile(file).releases()


BROKEN: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int]] = {
    "a byte of a release": (
        lambda lines: [*lines[:2], lines[2].replace(b"task", b"tusk"), lines[3]],
        2,
    ),
    "a byte of a checksum": (lambda lines: [*lines[:2], lines[2][:-2] + b"?\n", lines[3]], 3),
    "the first line": (lambda lines: [b"?" * (len(lines[0]) - 1), b"\n", *lines[1:]], 3),
    "a line removed": (lambda lines: [*lines[:2], lines[3]], 2),
    "zeros in the middle": (lambda lines: [*lines[:2], bytes(len(lines[2])), lines[3]], 1),
    "the end, zeros": (lambda lines: [*lines[:3], bytes(len(lines[3]))], 2),
}


@pytest.mark.parametrize(("broken", "readable"), BROKEN.values(), ids=BROKEN)
def test_a_damaged_file_is_rebuilt_of_all_that_can_be_read_beside_whoever_uses_it(
    tmp_path: Path, broken: Callable[[list[bytes]], list[bytes]], readable: int
) -> None:
    _, file = made(tmp_path)
    begun = JournalFile(file)
    begun.append([THIRD])
    whole = file.read_bytes()
    damaged = b"".join(broken(whole.splitlines(keepends=True)))
    file.write_bytes(damaged)
    found: list[Release] = []

    def choose(lines: Sequence[Release], _: Sequence[Release]) -> Sequence[Release]:
        found.extend(lines)
        return [FIRST, SECOND, THIRD]

    JournalFile(file).rebuild(OWNER, choose)
    assert len(found) == readable
    assert {FIRST, SECOND, THIRD} >= set(found)
    assert file.read_bytes() == whole
    assert (tmp_path / "journal.damaged").read_bytes() == damaged
    assert list(begun.releases()) == [FIRST, SECOND, THIRD]
    begun.append([dataclasses.replace(THIRD, batch=units(50, 60))])
    assert len(JournalFile(file).releases()) == 4


def test_a_file_that_is_no_journal_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "leader.toml"
    file.write_text("role = 'leader'\n")
    with pytest.raises(JournalError, match="none of its lines is a release"):
        JournalFile(file).rebuild(OWNER, lambda *_: [FIRST])
    assert file.read_text() == "role = 'leader'\n"


def test_another_file_is_not_taken_for_a_journal(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    file.write_text("something else\n")
    with pytest.raises(JournalError, match="is no journal of releases"):
        JournalFile(file).releases()


def test_what_could_not_be_written_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, _ = made(tmp_path)
    another = dataclasses.replace(THIRD, batch=units(50, 51), share_sha256=b"\x05" * 32)

    def full(_descriptor: int, _content: bytes, _place: int) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", full)
        with pytest.raises(JournalError, match="No space left"):
            journal.append([another])
    assert not journal.holds(another.task_id, b"\x05" * 32)
    journal.append([another])
    assert list(JournalFile(tmp_path / "journal").releases()) == [FIRST, SECOND, THIRD, another]


class Disk:
    """What a power cut would leave of the file that journals write; the kernel forgets on failure.

    A failed sync leaves the pages clean and in memory, as ext4 does, so that the next one succeeds
    and writes nothing.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.content = b""
        self.failures = 0
        """How many of the next syncs fail."""
        self._dirty: list[tuple[int, int]] = []
        self._pwrite, self._fsync = os.pwrite, os.fsync
        monkeypatch.setattr("os.pwrite", self._write)
        monkeypatch.setattr("os.fsync", self._sync)

    def _write(self, descriptor: int, content: bytes, place: int) -> int:
        written = self._pwrite(descriptor, content, place)
        self._dirty.append((place, place + written))
        return written

    def _sync(self, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return
        dirty, self._dirty = self._dirty, []
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, "Input/output error")
        size = os.fstat(descriptor).st_size
        content = bytearray(self.content[:size].ljust(size, b"\0"))
        for start, end in dirty:
            content[start:end] = os.pread(descriptor, end - start, start)
        self.content = bytes(content)


@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize("goes_on", ["the same process", "another", "another that reads first"])
def test_a_release_whose_sync_failed_is_on_the_disk_once_it_is_called_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, goes_on: str
) -> None:
    disk = Disk(monkeypatch)
    journal, file = made(tmp_path)
    assert disk.content == file.read_bytes()
    another = dataclasses.replace(THIRD, batch=units(50, 51), share_sha256=b"\x05" * 32)
    disk.failures = failures
    with pytest.raises(JournalError, match="Input/output error"):
        journal.append([another])
    if goes_on != "the same process":
        journal = JournalFile(file)
    attempts = [journal.releases] if goes_on == "another that reads first" else []
    for attempt in [*attempts, lambda: journal.append([another])]:
        while disk.failures:
            with pytest.raises(JournalError, match="Input/output error"):
                attempt()
        attempt()
    assert disk.content == file.read_bytes()
    assert list(JournalFile(file).releases()) == [FIRST, SECOND, THIRD, another]


def test_a_journal_that_was_replaced_and_cannot_be_opened_again_is_closed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = JournalFile(tmp_path / "journal")
    journal.create(OWNER)
    (tmp_path / "successor").touch()
    real_open, real_close = os.open, os.close
    opened, closed = list[int](), list[int]()

    def replaced(_descriptor: int, _kind: int) -> None:
        (tmp_path / "successor").replace(tmp_path / "journal")

    def open_once(path: Path, flags: int, _mode: int) -> int:
        if opened:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        opened.append(real_open(path, flags))
        return opened[0]

    def close(descriptor: int) -> None:
        closed.append(descriptor)
        if closed.count(descriptor) == 1:  # later the number may be another thread's file
            real_close(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr("aggregator.service.storage.ledger.journal_file.fcntl.flock", replaced)
        patch.setattr(os, "open", open_once)
        patch.setattr(os, "close", close)
        with pytest.raises(JournalError, match="Too many open files"):
            journal.releases()
    assert closed == opened


@pytest.mark.parametrize("other", [Owner("helper", 2), Owner("leader", 3)])
def test_the_journal_of_another_store_is_called_that_and_is_not_written_to(
    opened: Callable[[], Journal], other: Owner
) -> None:
    theirs = opened()
    theirs.create(other)
    theirs.append([FIRST])
    ours = opened()
    assert ours.owner() == other
    ours.belongs_to(OWNER)
    said = f"is that of {other}, and this is the leader's store 00000002: bring the journal"
    with pytest.raises(ForeignJournal, match=said):
        ours.releases()
    with pytest.raises(ForeignJournal, match=said):
        ours.rebuild(OWNER, lambda *_: [SECOND])
    assert said in journal_faults(ours)[0]
    theirs.belongs_to(other)
    assert list(theirs.releases()) == [FIRST]
    for each in (ours, theirs):
        each.close()


def test_a_running_process_notices_another_store_s_journal_in_the_place_of_its_own(
    tmp_path: Path,
) -> None:
    for name, owner in (("journal", OWNER), ("theirs", Owner("helper", 9))):
        JournalFile(tmp_path / name).create(owner)
    journal = JournalFile(tmp_path / "journal")
    journal.belongs_to(OWNER)
    journal.append([FIRST])
    (tmp_path / "theirs").replace(tmp_path / "journal")
    with pytest.raises(ForeignJournal, match="is that of the helper's store 00000009"):
        journal.append([SECOND])
    assert b"batch" not in (tmp_path / "journal").read_bytes()


def test_noise_without_a_line_is_no_journal_that_was_just_begun(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    file.write_bytes(b"x" * 4000)
    with pytest.raises(JournalError, match="is no journal of releases"):
        JournalFile(file).releases()
