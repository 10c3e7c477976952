"""Reads an SQLite file from its first page to its last, to find what SQLite did not write.

SQLite keeps no checksums. What it can tell is whether the pages fit together: the header's fields,
the trees with their order, the chains of long values, the pages that are free. A byte that changed
within a value fits as well as any other, so it is not found here.
"""

import re
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from aggregator.errors import StoreError
from aggregator.service.storage.engine.sqlite_backup import read_only

DAMAGED: Final = (11, 26)
"""SQLite's codes for a file that is malformed, or no database."""

_UNREADABLE: Final = (
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_DATA,
    sqlite3.SQLITE_IOERR_CORRUPTFS,
)
"""Its codes for a page that the disk does not give, or not as it was."""

_CODE_SAID: Final = re.compile(r"error code[= ](\d+)")

_TURN_SECONDS = 0.005


class CheckStopped(StoreError):
    """The check was stopped before its end, so nothing is known."""


class PageCheck:
    """One check of a file, which another thread may stop."""

    def __init__(self, path: Path) -> None:
        """Check the file at `path`, which others may use and write meanwhile."""
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._is_stopped = False

    def file_bytes(self) -> int:
        """Return how much there is to read, with the log."""
        files = (self._path, self._path.with_name(f"{self._path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def find(self, *, most: int = 1, thorough: bool = False) -> Sequence[str]:
        """Return what does not fit, in SQLite's words; it writes nothing, and holds no writer up.

        Args:
            most: How many findings to look for.
            thorough: Whether to compare indexes with their tables, too, and rows with those that
                they name. That takes about half as long again.

        Raises:
            CheckStopped: Somebody called `stop`.
            StoreError: The file cannot be read.
        """
        try:
            with closing(read_only(self._path, any_thread=True)) as connection:
                with self._lock:
                    self._connection = connection
                try:
                    return self._findings(connection, most, thorough=thorough)
                finally:
                    with self._lock:
                        self._connection = None
        except sqlite3.DatabaseError as error:
            if self._is_stopped:
                raise CheckStopped(f"the check of {self._path} was stopped") from error
            if _is_damage(getattr(error, "sqlite_errorcode", 0)):  # of errors of SQLite alone
                return [str(error)]
            raise StoreError(f"the store {self._path} cannot be read: {error}") from error

    def stop(self) -> None:
        """End the check, or keep it from beginning; return when it has ended, in milliseconds."""
        self._is_stopped = True
        while True:
            with self._lock:
                if self._connection is None:
                    return
                self._connection.interrupt()  # in vain between two of its statements
            time.sleep(_TURN_SECONDS)

    def _findings(
        self, connection: sqlite3.Connection, most: int, *, thorough: bool
    ) -> Sequence[str]:
        if self._is_stopped:
            raise CheckStopped(f"the check of {self._path} was stopped")
        name = "integrity_check" if thorough else "quick_check"
        rows = connection.execute(f"PRAGMA {name}({most})").fetchall()
        words = (" ".join(said.split()) for (said,) in rows if said != "ok")
        found = [each.removeprefix("*** in database main *** ") for each in words]
        for each in found:
            code = _CODE_SAID.search(each)  # such as that of a page for which there is no memory
            if code is not None and not _is_damage(int(code[1])):
                raise StoreError(f"the store {self._path} cannot be read: {each}")
        if thorough and not found:
            lost = connection.execute("PRAGMA foreign_key_check").fetchmany(most)
            found = [
                f"a row of {table} names one of {other} that is not there"
                for table, _, other, _ in lost
            ]
        return found


def _is_damage(code: int) -> bool:
    return code & 0xFF in DAMAGED or code in _UNREADABLE
