"""Accounts, logins and what the issuer answered, in one SQLite file."""

import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aggregator.issuer import Issued
from aggregator.protocol.permit_requests import Place

_TABLES = """
CREATE TABLE IF NOT EXISTS accounts (id TEXT PRIMARY KEY, name TEXT UNIQUE, salt BLOB, hash BLOB);
CREATE TABLE IF NOT EXISTS logins (token BLOB PRIMARY KEY, account TEXT REFERENCES accounts);
CREATE TABLE IF NOT EXISTS issued (
    account TEXT, domain BLOB, window_number INTEGER, number INTEGER, asked BLOB, answer BLOB,
    PRIMARY KEY (account, domain, window_number, number)
) WITHOUT ROWID;
"""
_OF = "account = ? AND domain = ? AND window_number = ? AND number = ?"


class Accounts:
    """The people of the application; the issuer keeps its answers here (`aggregator.issuer.Store`).

    An account is a person. Where people register themselves, whoever wants to answer twice
    registers twice; so here the operator adds them.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        with self._transaction() as database:
            database.executescript(_TABLES)

    def add(self, name: str) -> str:
        """Add an account, and return its password; raises `ValueError` if the name is taken."""
        password, salt = secrets.token_urlsafe(12), secrets.token_bytes(16)
        row = (secrets.token_hex(8), name, salt, _hash(password, salt))
        with self._transaction() as database:
            sql = "INSERT OR IGNORE INTO accounts VALUES (?, ?, ?, ?)"
            if not database.execute(sql, row).rowcount:
                raise ValueError(f"{name} has an account")
        return password

    def log_in(self, name: str, password: str) -> str | None:
        """Return the token of a new login; None if name and password are not somebody's."""
        with self._transaction() as database:
            sql = "SELECT id, salt, hash FROM accounts WHERE name = ?"
            found = database.execute(sql, (name,)).fetchone()
            account, salt, kept = found or ("", b"", b"")
            if not hmac.compare_digest(_hash(password, salt), kept):
                return None
            token = secrets.token_urlsafe(32)
            database.execute("INSERT INTO logins VALUES (?, ?)", (_kept(token), account))
            return token

    def log_out(self, token: str) -> None:
        """End a login."""
        with self._transaction() as database:
            database.execute("DELETE FROM logins WHERE token = ?", (_kept(token),))

    def of_login(self, token: str) -> tuple[str, str] | None:
        """Return the id and the name of who is logged in; None if nobody is."""
        with self._transaction() as database:
            sql = "SELECT id, name FROM logins JOIN accounts ON account = id WHERE token = ?"
            found: tuple[str, str] | None = database.execute(sql, (_kept(token),)).fetchone()
            return found

    def get(self, user: str, place: Place) -> Issued | None:
        """Return what the issuer answered for a place of a person."""
        with self._transaction() as database:
            return _issued(database, user, place)

    def keep(self, user: str, place: Place, issued: Issued) -> Issued:
        """Keep its answer, unless one is kept; return that one. All of it is one transaction."""
        row = (user, place.domain, place.window, place.number, issued.asked, issued.answer)
        with self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO issued VALUES (?, ?, ?, ?, ?, ?)", row)
            return _issued(database, user, place) or issued

    def forget(self, first_windows: Mapping[bytes, int]) -> None:
        """Forget who got permits of windows that are over (`Issuer.first_windows`)."""
        with self._transaction() as database:
            sql = "DELETE FROM issued WHERE domain = ? AND window_number < ?"
            database.executemany(sql, first_windows.items())

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open the file, which is on the disk again when the block has ended."""
        database = sqlite3.connect(self._file, timeout=60)
        try:
            database.execute("PRAGMA synchronous = FULL")
            with database:
                yield database
        finally:
            database.close()


def _issued(database: sqlite3.Connection, user: str, place: Place) -> Issued | None:
    of = (user, place.domain, place.window, place.number)
    row = database.execute(f"SELECT asked, answer FROM issued WHERE {_OF}", of).fetchone()  # noqa: S608  our own words
    return None if row is None else Issued(*row)


def _hash(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)


def _kept(token: str) -> bytes:
    """Return what is kept of a token, with which nobody logs in."""
    return hashlib.sha256(token.encode()).digest()
