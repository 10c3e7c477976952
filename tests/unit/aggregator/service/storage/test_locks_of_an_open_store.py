"""The locks that SQLite holds on a store's file while the same process opens it once more."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from aggregator.service.storage.engine.schema import make

SHARED_LOCK = (510, 0x40000002)
"""Length and first byte of what every open connection locks (SQLite, "Database File Format")."""

TAKE_LOCK = """
import fcntl, sys
from tests.support.engines import ON_SQLITE

pytestmark = ON_SQLITE
with open(sys.argv[1], "rb+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[2]), int(sys.argv[3]))
    except BlockingIOError:
        sys.exit("held")
"""


def is_locked(path: Path) -> bool:
    """Return whether another process finds the file in use; one's own locks are no obstacle."""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", TAKE_LOCK, path, *map(str, SHARED_LOCK)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.strip() in {"", "held"}, done.stderr
    return done.returncode != 0


def test_an_open_store_stays_locked_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    make(f"sqlite:///{path}")
    assert not is_locked(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM alembic_version").fetchall()
        assert is_locked(path)
        make(f"sqlite:///{path}")
        assert is_locked(path)
