"""Makes empty stores by copying one that was migrated once: migrations dominate small tests.

A store is named by a path, as if it were a file. The environment says which database keeps it, so
that processes that a test starts find it as well.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest
from alembic.migration import MigrationContext
from sqlalchemy.engine import make_url

from aggregator.service.storage.engine import schema
from aggregator.service.storage.engine.schema import make
from tests.support import postgresql
from tests.support.engines import engine_of

SERVER = "PRIO_TEST_POSTGRESQL"
"""Holds the URL of the PostgreSQL server that keeps the stores; files of SQLite do if not set."""

_made: list[str] = []
"""The databases that were made on that server."""


@contextlib.contextmanager
def dropped_afterwards() -> Iterator[None]:
    """Drop the databases that the block makes: each takes several megabytes."""
    before = len(_made)
    yield
    names, server = _made[before:], os.environ.get(SERVER)
    del _made[before:]
    if names and server is not None:
        drops = (f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in names)
        postgresql.execute(server, *drops)


def url_of(path: Path) -> str:
    """Return the URL of the store named `path`."""
    server = os.environ.get(SERVER)
    return f"sqlite:///{path}" if server is None else postgresql.named(server, _name(path))


def new_place(path: Path, server: str | None = None) -> str:
    """Return the URL of a store that is still to be made, where it can be made.

    Args:
        path: Its name.
        server: The server that keeps it; by default where the environment says.
    """
    server = server or os.environ.get(SERVER)
    if server is None:
        return url_of(path)
    _create(server, _name(path))
    return postgresql.named(server, _name(path))


def settings_of(path: Path, server: str | None = None) -> dict[str, str]:
    """Return the settings of a service whose store is still to be made; see `new_place`."""
    is_file = server is None and SERVER not in os.environ
    database = path.name if is_file else new_place(path, server)
    return {
        "database": database,
        "store_key_file": f"{path.name}.key",
        **({} if database == path.name else {"release_journal": f"{path.name}.journal"}),
    }


def version(url: str) -> str:
    """Return the version of a store's schema."""
    with engine_of(url, readers=1) as made, made.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    assert found is not None
    return found


LATER = "revision_9000_later.py"


def add_a_later_revision(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str = "pass") -> None:
    """Let this program know one schema more than it does, version 9000, which has a table more."""
    migrations = folder / "migrations"
    shutil.copytree(Path(schema.__file__).parent / "migrations", migrations)
    (migrations / "versions" / LATER).write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n\n"
        f'revision, down_revision = "9000", "{schema.head()}"\n\n\n'
        'def upgrade():\n    op.create_table("later", sa.Column("id", sa.Integer))\n'
        f"    {then}\n"
    )
    monkeypatch.setattr(schema, "_SCRIPTS", str(migrations))


def upgraded(url: str) -> None:
    """Do what `make` does, by a copy if there is no store yet."""
    if url.startswith("postgresql"):
        server, name = os.environ[SERVER], make_url(url).database or ""
        with contextlib.suppress(psycopg.errors.DuplicateDatabase):
            _create(server, name, _template(server))
        return
    path = Path(url.removeprefix("sqlite:///"))
    if path.exists():
        make(url)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(_migrated())


def make_by_copy() -> None:
    """Let a new store in a file, in this process and from now on, be a copy."""
    schema._upgrade = _filled


@contextlib.contextmanager
def really_migrated() -> Iterator[None]:
    """Run every migration in the block."""
    with patch.object(schema, "_upgrade", _upgrade):
        yield


_upgrade = schema._upgrade
_filling = threading.Lock()


def _filled(url: str) -> None:
    path = Path(make_url(url).database or "")
    with _filling:
        if url.startswith("sqlite") and _is_empty(path):
            path.write_bytes(_migrated())
        else:
            _upgrade(url)


def _is_empty(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return count == 0


def copy_store(path: Path, to: Path) -> None:
    """Copy the store named `path`, which nobody has open."""
    server = os.environ.get(SERVER)
    if server is None:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to)
    else:
        _create(server, _name(to), _name(path))


def remove_store(path: Path) -> None:
    """Remove the store named `path`, which nobody has open; what lies beside it stays."""
    server = os.environ.get(SERVER)
    if server is None:
        path.unlink()
    else:
        postgresql.execute(server, f"DROP DATABASE {_name(path)} WITH (FORCE)")


def _name(path: Path) -> str:
    return f"store_{hashlib.sha256(str(path).encode()).hexdigest()[:32]}"


def _create(server: str, name: str, template: str = "template1") -> None:
    postgresql.create(server, name, template)
    if server == os.environ.get(SERVER):
        _made.append(name)


@functools.cache
def _template(server: str) -> str:
    if "migrated" not in postgresql.databases(server):
        postgresql.create(server, "migrated")
        make(postgresql.named(server, "migrated"))
    return "migrated"


@functools.cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite"
        with really_migrated():
            make(f"sqlite:///{path}")
        assert not path.with_name("empty.sqlite-wal").exists(), "closing a store empties its log"
        return path.read_bytes()
