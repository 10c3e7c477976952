"""Backups of an SQLite file by SQLite itself, which can copy one moment of a file in use."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from aggregator.service.storage.engine.backup_contents import BackupContents, NoBackup


def copy(path: Path, file: Path) -> None:
    """Copy one moment of the database at `path` to an empty file; nobody waits for that."""
    with closing(read_only(path)) as source, closing(sqlite3.connect(file)) as target:
        source.backup(target)


def contents(file: Path, secrets: Sequence[tuple[str, str]]) -> BackupContents:
    """Read a copy, all of it.

    Args:
        file: The copy.
        secrets: The tables and columns of ciphertexts.

    Raises:
        NoBackup: The file is not a backup, or is damaged.
    """
    try:
        with closing(read_only(file, "&immutable=1")) as connection:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise NoBackup(f"backup: {file} is damaged: {verdict}")
            (version,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            roles = connection.execute("SELECT DISTINCT role FROM tasks").fetchall()
            found = [
                secret
                for table, column in secrets
                for (secret,) in connection.execute(
                    f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608  our names
                )
            ]
            slots = connection.execute("SELECT 1 FROM bucket_key_slots LIMIT 1").fetchone()
    except (sqlite3.DatabaseError, TypeError) as error:
        raise NoBackup(f"backup: {file} is no store, or damaged: {error}") from error
    return BackupContents(version, frozenset(role for (role,) in roles), found, slots is not None)


def read_only(path: Path, options: str = "", *, any_thread: bool = False) -> sqlite3.Connection:
    """Return a connection that writes nothing to the file, not even when it is closed.

    Args:
        path: The file.
        options: More parameters of the URI.
        any_thread: Whether threads may share it.
    """
    place = f"file:{quote(str(path))}?mode=ro{options}"
    return sqlite3.connect(place, uri=True, check_same_thread=not any_thread)
