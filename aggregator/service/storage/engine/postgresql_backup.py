"""Backups of a PostgreSQL database by the server's own programs, `pg_dump` and `pg_restore`."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy.engine import URL

from aggregator.errors import ConfigurationError, StoreError
from aggregator.service.storage.engine.backup_contents import BackupContents, NoBackup

KEYS = "bucket_key_slots"
_NULL, _END, _BINARY = rb"\N", rb"\.", rb"\\x"
"""How a dump writes a null, the end of a table, and the start of bytes."""


def dump(url: URL, file: Path) -> None:
    """Write a dump of the database without the keys of un-noised sums.

    Raises:
        ConfigurationError: There is no `pg_dump`; the message says what to call where there is one.
        StoreError: It failed; its message is passed on.
    """
    options = ["--format=custom", "--no-owner", f"--exclude-table-data={KEYS}"]
    _run("pg_dump", [*options, f"--file={file}", f"--dbname={_address(url)}"], _secrets(url))


def contents(file: Path, secrets: Sequence[tuple[str, str]]) -> BackupContents:
    """Read a dump, all of it.

    Args:
        file: The dump.
        secrets: The tables and columns of ciphertexts.

    Raises:
        NoBackup: The file is not a backup, or is damaged.
    """
    try:
        _run("pg_restore", [f"--file={os.devnull}", str(file)])
        versions = [row["version_num"].decode() for row in _rows(file, "alembic_version")]
        (version,) = versions
        return BackupContents(
            version,
            frozenset(row["role"].decode() for row in _rows(file, "tasks")),
            [
                bytes.fromhex(row[column].removeprefix(_BINARY).decode())
                for table, column in secrets
                for row in _rows(file, table)
                if column in row
            ],
            any(True for _ in _rows(file, KEYS)),
        )
    except (StoreError, ValueError, KeyError) as error:
        raise NoBackup(f"backup: {file} is no dump of a store, or damaged: {error}") from error


def _rows(file: Path, table: str) -> Iterator[dict[str, bytes]]:
    """Yield the rows of a table in a dump, each column as text; nulls are left out."""
    text = _run("pg_restore", ["--data-only", f"--table={table}", "--file=-", str(file)])
    lines = iter(text.splitlines())
    for line in lines:
        if not line.startswith(b"COPY "):
            continue
        names = line[line.index(b"(") + 1 : line.index(b")")].decode().split(", ")
        for row in itertools.takewhile(lambda each: each != _END, lines):
            values = zip(names, row.split(b"\t"), strict=True)
            yield {name: value for name, value in values if value != _NULL}


def _run(
    program: str, arguments: Sequence[str], environment: dict[str, str] | None = None
) -> bytes:
    path = shutil.which(program)
    if path is None:
        raise ConfigurationError(
            f"{program} is not installed here: it comes with PostgreSQL's client programs "
            "(postgresql-client). Elsewhere, a backup of this store is what "
            f"`pg_dump --format=custom --exclude-table-data={KEYS}` writes, never without that"
        )
    done = subprocess.run(  # noqa: S603  the program's path and our own arguments
        [path, *arguments],
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise StoreError(f"backup: {said[0]}")
    return done.stdout


def _address(url: URL) -> str:
    """Return the URL for an argument list, which everybody on the machine can read."""
    address = url.set(drivername="postgresql", password=None)
    return address.difference_update_query(["password"]).render_as_string()


def _secrets(url: URL) -> dict[str, str]:
    password = url.password or url.query.get("password")
    return {} if password is None else {"PGPASSWORD": str(password)}
