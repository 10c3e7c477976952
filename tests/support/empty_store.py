"""Makes empty stores by copying one that was migrated once: migrations dominate small tests.

A store is named by a path, as if it were a file. The environment says which database keeps it, so
that processes that a test starts find it as well.
"""

import functools
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from alembic.migration import MigrationContext
from sqlalchemy.engine import make_url

from aggregator.service.storage.engine.backends import backend
from aggregator.service.storage.engine.schema import make
from tests.support import postgresql

SERVER = "PRIO_TEST_POSTGRESQL"
"""Holds the URL of the PostgreSQL server that keeps the stores; files of SQLite do if not set."""


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
    postgresql.execute(server, f"CREATE DATABASE {_name(path)}")
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
    made = backend(url).engine(readers=1)
    with made.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    made.dispose()
    assert found is not None
    return found


def upgraded(url: str) -> None:
    """Do what `make` does, by a copy if there is no store yet."""
    if url.startswith("postgresql"):
        server, name = os.environ[SERVER], make_url(url).database or ""
        if name not in postgresql.databases(server):
            _copy(server, _template(server), name)
        return
    path = Path(url.removeprefix("sqlite:///"))
    if path.exists():
        make(url)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(_migrated())


def copy_store(path: Path, to: Path) -> None:
    """Copy the store named `path`, which nobody has open."""
    server = os.environ.get(SERVER)
    if server is None:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to)
    else:
        _copy(server, _name(path), _name(to))


def remove_store(path: Path) -> None:
    """Remove the store named `path`, which nobody has open; what lies beside it stays."""
    server = os.environ.get(SERVER)
    if server is None:
        path.unlink()
    else:
        postgresql.execute(server, f"DROP DATABASE {_name(path)} WITH (FORCE)")


def _name(path: Path) -> str:
    return f"store_{hashlib.sha256(str(path).encode()).hexdigest()[:32]}"


def _copy(server: str, template: str, name: str) -> None:
    postgresql.execute(server, f"CREATE DATABASE {name} TEMPLATE {template}")


@functools.cache
def _template(server: str) -> str:
    if "migrated" not in postgresql.databases(server):
        postgresql.execute(server, "CREATE DATABASE migrated")
        make(postgresql.named(server, "migrated"))
    return "migrated"


@functools.cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite"
        make(f"sqlite:///{path}")
        assert not path.with_name("empty.sqlite-wal").exists(), "closing a store empties its log"
        return path.read_bytes()
