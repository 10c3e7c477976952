"""Where a client's reports wait until they are settled: one file, or this process's memory.

A record holds both shares of a report, and so the answer, until the report has an outcome. Then the
record is overwritten in the file, and the write-ahead log, which held it too, is emptied. Whatever
else a client must remember of a person is here too, and stays for ever, but not what they answered:
a claim says what became of a report, a contribution that there was one, a place or a toss which
task of several the person is in.
"""

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from aggregator.client.held_permits import Execute
from aggregator.client.records import COLUMNS, Entry, Outcome, Record, State
from aggregator.client.remembered import insert, refusal
from aggregator.errors import ConfigurationError, LocalError

T = TypeVar("T")

MAX_BYTES = 2**30
"""How large the file may become, unless the application says otherwise."""

_PAGE = 4096
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PATIENCE = 30
"""Seconds to wait for another process's transaction."""
_OWNER_ONLY = 0o600
_TABLES = """
CREATE TABLE IF NOT EXISTS records (
    key BLOB PRIMARY KEY, task BLOB NOT NULL, claim TEXT, created INTEGER NOT NULL,
    time INTEGER NOT NULL, public_share BLOB NOT NULL, leader_share BLOB NOT NULL,
    helper_share BLOB NOT NULL, sealed_to BLOB, body BLOB NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL DEFAULT 0,
    declined TEXT NOT NULL DEFAULT '', opening BLOB, signature BLOB
) STRICT;
CREATE INDEX IF NOT EXISTS records_by_turn ON records (task, due, created);
CREATE TABLE IF NOT EXISTS claims (
    task BLOB NOT NULL, claim TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (task, claim)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS digests (
    key BLOB PRIMARY KEY, digest BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS hpke_keys (
    task BLOB PRIMARY KEY, configs BLOB NOT NULL, fetched INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tosses (
    question BLOB NOT NULL, person TEXT NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (question, person)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS contributions (
    asked BLOB NOT NULL, person TEXT NOT NULL, time INTEGER NOT NULL,
    window_start INTEGER NOT NULL, window_end INTEGER NOT NULL, most INTEGER NOT NULL,
    reports INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (asked, person, time, window_start, window_end, most)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS permits (
    holder TEXT NOT NULL, domain BLOB NOT NULL, window_number INTEGER NOT NULL,
    number INTEGER NOT NULL, opening BLOB, blinded BLOB, inverse BLOB, signature BLOB,
    PRIMARY KEY (holder, domain, window_number, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS places (
    person TEXT NOT NULL, name TEXT NOT NULL, place INTEGER NOT NULL,
    PRIMARY KEY (person, name)
) STRICT, WITHOUT ROWID;
"""

_VERSION = 5
"""What `_TABLES` are; kept as `user_version`."""

_TOSS = "SELECT number FROM tosses WHERE question = ? AND person = ?"


class OutboxFull(LocalError):
    """There is no room for one more report: the bound of the file, or the disk."""


class AlreadyAnswered(LocalError):
    """The claim has a report, or the person as many as the task allows."""


class Outbox:
    """Reports in one SQLite file, which threads and processes may share, or in memory.

    Args:
        path: The file, made for the owner only if it is missing; None for the memory of this
            process, with which everything is forgotten.
        max_bytes: How large it may become.

    Raises:
        ConfigurationError: The file cannot be used; the message says why.
    """

    def __init__(self, path: Path | str | None, max_bytes: int = MAX_BYTES) -> None:
        # Absolute, since the application may change its folder.
        self.path = None if path is None else Path(path).absolute()
        self._lock = threading.Lock()
        try:
            if self.path is not None:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, _OWNER_ONLY))
            # Transactions are begun here, not by the library.
            self._connection = sqlite3.connect(
                self.path or ":memory:",
                timeout=_PATIENCE,
                isolation_level=None,
                check_same_thread=False,
            )
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"the outbox {self.path}: {error}") from error
        try:
            self._prepare(max_bytes)
        except BaseException:
            self._connection.close()
            raise
        self._opened = self._file()

    def _prepare(self, max_bytes: int) -> None:
        with self._translated():
            is_new = self._is_new()  # before anything is written, if only a setting
            execute = self._connection.execute
            execute(f"PRAGMA page_size = {_PAGE}")
            execute("PRAGMA journal_mode = WAL")
            execute("PRAGMA synchronous = FULL")  # a record is on the disk when `add` returns
            # `settle` empties the log, which takes a group of people without a sync in between.
            execute("PRAGMA wal_autocheckpoint = 8192")
            execute("PRAGMA secure_delete = ON")  # answers are overwritten, not only unlinked
            execute(f"PRAGMA max_page_count = {max(16, max_bytes // _PAGE)}")
            if is_new:  # it needs room, and waits for who writes
                self._connection.executescript(
                    f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT"
                )

    def _is_new(self) -> bool:
        """Return whether the file has no tables yet; refuse one that is no outbox of ours."""
        execute = self._connection.execute
        execute("BEGIN")  # or another process could make the tables in between
        (version,) = execute("PRAGMA user_version").fetchone()
        found = execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        tables = {name for (name,) in found}
        execute("COMMIT")
        if tables and "records" not in tables:
            raise ConfigurationError(
                f"the outbox {self.path}: is a database of another program, which was left as it "
                "is: name another file"
            )
        if tables and version != _VERSION:
            raise ConfigurationError(
                f"the outbox {self.path}: was made by another version of this program (outbox "
                f"version {version}, and this one knows {_VERSION}): use that one, which sends "
                "what waits"
            )
        return not tables

    def _file(self) -> tuple[int, int] | None:
        """Return the device and inode of the file at the path, None if there is none."""
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def add(self, entries: Sequence[Entry]) -> None:
        """Store entries, all of them or none.

        Raises `AlreadyAnswered` if a claim has a report, or a person as many as are allowed, and
        `OutboxFull`.
        """
        with self._transaction() as execute:
            for entry in entries:
                if (reason := refusal(execute, entry)) is not None:
                    raise AlreadyAnswered(reason)
                insert(execute, entry)

    def add_new(self, entries: Sequence[Entry]) -> list[bool]:
        """Store those entries that `add` would not refuse; return for each whether it is stored.

        Raises `OutboxFull`, and then none is.
        """
        with self._transaction() as execute:
            stored = []
            for entry in entries:
                stored.append(refusal(execute, entry) is None)
                if stored[-1]:
                    insert(execute, entry)
            return stored

    def refusals(self, entries: Sequence[Entry]) -> list[str | None]:
        """Return why `add` would refuse each entry, whose records need only a task and a claim."""
        with self._transaction() as execute:
            return [refusal(execute, entry) for entry in entries]

    def due(self, task: bytes, now: int | None, limit: int = -1) -> list[Record]:
        """Return records that are due, the oldest first; all records if `now` is None."""
        return self.records(self.due_keys(task, now, limit))

    def due_keys(self, task: bytes, now: int | None, limit: int = -1) -> list[bytes]:
        """Return the keys of what `due` returns."""
        with self._transaction() as execute:
            rows = execute(
                "SELECT key FROM records WHERE task = ? AND due <= ? ORDER BY due, created LIMIT ?",
                (task, 2**62 if now is None else now, limit),
            ).fetchall()
        return [bytes(key) for (key,) in rows]

    def records(self, keys: Sequence[bytes]) -> list[Record]:
        """Return those records that are still there."""
        select = f"SELECT {COLUMNS} FROM records WHERE key = ?"  # noqa: S608  names of our own fields
        with self._transaction() as execute:
            rows = [execute(select, (key,)).fetchone() for key in keys]
        return [Record(*row) for row in rows if row is not None]

    def seal(
        self, records: Sequence[Record], sealed_to: bytes, bodies: Sequence[bytes]
    ) -> list[Record]:
        """Store what records are sealed to, unless another process was quicker.

        Returns the records as they are stored now, sealed here or elsewhere, without settled ones.
        """
        rows = []
        with self._transaction() as execute:
            for record, body in zip(records, bodies, strict=True):
                execute(
                    "UPDATE records SET sealed_to = ?, body = ? WHERE key = ? AND sealed_to IS ?",
                    (sealed_to, body, record.key, record.sealed_to),
                )
                rows += execute(
                    f"SELECT {COLUMNS} FROM records WHERE key = ?",  # noqa: S608  names of our own fields
                    (record.key,),
                ).fetchall()
        return [Record(*row) for row in rows]

    def settle(self, outcomes: Sequence[tuple[Record, Outcome]]) -> None:
        """Delete records, and say in their claims what became of them; what is settled stays so."""
        if not outcomes:
            return
        with self._transaction() as execute:
            for record, outcome in outcomes:
                execute("DELETE FROM digests WHERE key = ?", (record.key,))
                gone = execute("DELETE FROM records WHERE key = ?", (record.key,)).rowcount
                if gone and record.claim is not None:
                    execute(
                        "UPDATE claims SET state = ?, reason = ? WHERE task = ? AND claim = ?",
                        (outcome.state.value, outcome.reason, record.task, record.claim),
                    )
        self._empty_log()

    def postpone(self, records: Sequence[Record]) -> None:
        """Count a failed attempt for each record; store when it is due and was declined."""
        with self._transaction() as execute:
            for each in records:
                execute(
                    "UPDATE records SET attempts = attempts + 1, due = ?, declined = ? "
                    "WHERE key = ?",
                    (each.due, each.declined, each.key),
                )

    def waiting(self, task: bytes) -> int:
        """Return how many records of a task wait."""
        with self._transaction() as execute:
            counted = execute("SELECT count(*) FROM records WHERE task = ?", (task,)).fetchone()
        return int(counted[0])

    def tasks(self) -> list[tuple[bytes, int, int]]:
        """Return each task with records, how many wait and when the next is due; earliest first."""
        with self._transaction() as execute:
            rows = execute(
                "SELECT task, count(*), min(due) AS next FROM records GROUP BY task ORDER BY next"
            ).fetchall()
        return [(bytes(task), int(count), int(due)) for task, count, due in rows]

    def claimed(self, task: bytes, claim: str) -> Outcome | None:
        """Return what became of a claim; None if there is none."""
        return self.claimed_all([(task, claim)])[0]

    def claimed_all(self, claims: Sequence[tuple[bytes, str | None]]) -> list[Outcome | None]:
        """Return what became of each claim of a task; None of those that there are not."""
        with self._transaction() as execute:
            select = "SELECT state, reason FROM claims WHERE task = ? AND claim = ?"
            found = [execute(select, each).fetchone() for each in claims]
        return [None if row is None else Outcome(State(row[0]), row[1]) for row in found]

    def waiting_claims(self) -> set[tuple[bytes, str | None]]:
        """Return the task and the claim of each record that has one."""
        with self._transaction() as execute:
            rows = execute("SELECT task, claim FROM records WHERE claim IS NOT NULL").fetchall()
        return {(bytes(task), claim) for task, claim in rows}

    def waiting_keys(self) -> dict[bytes, bytes]:
        """Return the task of each record."""
        with self._transaction() as execute:
            return dict(execute("SELECT key, task FROM records").fetchall())

    def keep_tosses(self, tosses: Mapping[tuple[bytes, str], int]) -> list[int]:
        """Keep tosses, by question and person, unless one is kept already; return those kept.

        Raises `OutboxFull` if there is no room.
        """
        with self._transaction() as execute:
            kept = []
            for (question, person), number in tosses.items():
                execute("INSERT OR IGNORE INTO tosses VALUES (?, ?, ?)", (question, person, number))
                kept += execute(_TOSS, (question, person)).fetchone()
        return kept

    def toss(self, question: bytes, person: str) -> int | None:
        """Return the toss of a person for a question; None if there is none."""
        with self._transaction() as execute:
            row = execute(_TOSS, (question, person)).fetchone()
        return None if row is None else int(row[0])

    def outcomes(self, task: bytes) -> Counter[Outcome]:
        """Return how many claims of a task had each outcome."""
        with self._transaction() as execute:
            rows = execute(
                "SELECT state, reason, count(*) FROM claims WHERE task = ? GROUP BY state, reason",
                (task,),
            ).fetchall()
        return Counter({Outcome(State(state), reason): count for state, reason, count in rows})

    def digests(self, task: bytes) -> dict[str, bytes]:
        """Return, by their claims, the digests that records of a task were added with."""
        with self._transaction() as execute:
            rows = execute(
                "SELECT claim, digest FROM records NATURAL JOIN digests "
                "WHERE task = ? AND claim IS NOT NULL",
                (task,),
            ).fetchall()
        return dict(rows)

    def keys(self, task: bytes, since: int) -> bytes | None:
        """Return the configurations that were fetched no longer ago than `since`, if any."""
        with self._transaction() as execute:
            row = execute(
                "SELECT configs FROM hpke_keys WHERE task = ? AND fetched >= ?", (task, since)
            ).fetchone()
        return None if row is None else bytes(row[0])

    def put_keys(self, task: bytes, configs: bytes, now: int) -> None:
        """Keep the aggregators' configurations."""
        with self._transaction() as execute:
            execute("INSERT OR REPLACE INTO hpke_keys VALUES (?, ?, ?)", (task, configs, now))

    def _empty_log(self) -> None:
        """Move the log into the file, where answers are overwritten.

        If a reader holds it, or the file has no room to grow, the next time does it: what is in
        the log is settled all the same.
        """
        if self.path is None:
            return
        with suppress(OutboxFull), self._lock, self._translated():
            execute = self._connection.execute
            execute("PRAGMA busy_timeout = 0")
            try:
                execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                execute(f"PRAGMA busy_timeout = {1000 * _PATIENCE}")

    def within(self, do: Callable[[Execute], T]) -> T:
        """Return what is done in one transaction of the file."""
        with self._transaction() as execute:
            return do(execute)

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        with self._lock, self._translated():
            if self._file() != self._opened:  # what we stored would be lost
                raise ConfigurationError(
                    f"the outbox {self.path}: was moved, removed or replaced while it was in use: "
                    "put it back; where another was meant, start the application again"
                )
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection.execute
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise OutboxFull(f"the outbox {self.path} has no room for more") from error
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
                raise ConfigurationError(
                    f"the outbox {self.path}: is damaged, or no outbox: {error}. Keep it, with "
                    f"{self.path}-wal if that is there, and bring a whole one back; in a "
                    "new one whoever has answered can answer again, and what waits here is not sent"
                ) from error
            raise ConfigurationError(f"the outbox {self.path}: {error}") from error
