"""A PostgreSQL server of the tests' own, over a socket in a folder that is removed afterwards."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

_ACCOUNT = "postgres"
_SETTINGS = (
    "listen_addresses=",
    "max_connections=200",
    # Nothing here has to survive the machine.
    "fsync=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
)
_START_SECONDS = 60


def _program(name: str) -> str:
    """Return the path of one of the server's programs; Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    path = str(found[-1]) if found else shutil.which(name)
    if path is None:
        pytest.skip(f"PostgreSQL is not installed (no {name}): apt-get install postgresql")
    return path


@contextmanager
def serving(options: Sequence[str] = ()) -> Iterator[str]:
    """Run a server; yield its URL, to which the name of a database is to be appended by `named`."""
    initdb, postgres = _program("initdb"), _program("postgres")
    # The server refuses to be root, and a test's own folder is closed to others.
    user = _ACCOUNT if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="prio-postgresql-") as folder:
        data = Path(folder) / "data"
        if user is not None:
            shutil.chown(folder, user)
        subprocess.run(  # noqa: S603  our own command
            [initdb, "--no-sync", "--auth=trust", f"--username={_ACCOUNT}", "-E", "UTF8", data],
            user=user,
            cwd=folder,
            check=True,
            capture_output=True,
        )
        settings = [f"-c{each}" for each in (*_SETTINGS, f"unix_socket_directories={folder}")]
        with (Path(folder) / "log").open("wb") as log:
            server = subprocess.Popen(  # noqa: S603  our own command
                [postgres, "-D", data, *settings, *options],
                user=user,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            url = f"postgresql://{_ACCOUNT}@/?host={folder}"
            _wait_for(url)
            yield url
        finally:
            server.terminate()
            server.wait(_START_SECONDS)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            psycopg.connect(named(url, _ACCOUNT)).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def named(url: str, database: str) -> str:
    """Return the URL of a database of the server at `url`."""
    return url.replace("@/?", f"@/{database}?")


def execute(url: str, *statements: str) -> None:
    """Execute statements outside a transaction, in the server's own database."""
    with psycopg.connect(named(url, _ACCOUNT), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def databases(url: str) -> set[str]:
    """Return the names of all databases of the server."""
    with psycopg.connect(named(url, _ACCOUNT), autocommit=True) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
