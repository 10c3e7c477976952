"""The schema's version: `upgrade` runs the Alembic revisions in this package.

The revisions are read from their file names, and a store's revision from Alembic's table: Alembic
itself is loaded only to change a store.
"""

from __future__ import annotations

import functools
import re
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy

import aggregator
from aggregator.errors import StoreError
from aggregator.service.storage.engine.backends import Busy, backend, translated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alembic.config import Config

_SCRIPTS = "aggregator.service.storage.engine:migrations"
_REVISION = re.compile(r"revision_(\d+)_.*\.py$")
_VERSIONS = sqlalchemy.table("alembic_version", sqlalchemy.column("version_num"))
_LAST_UNRELEASED = "0012"
"""Programs that were never released made versions up to this one; released ones do not reuse it."""

_MAKE_ATTEMPTS = 12
"""How many times a process waits for another one that is making the store, some 5 s each time."""
_PAUSE_SECONDS = 0.5


class SchemaMismatch(StoreError):
    """The database's schema is not the one that this program was written for."""


def is_made(url: str) -> bool:
    """Return whether there is a store at `url`, of any schema; an empty file does not count."""
    return _version(url) is not None


def make(url: str) -> None:
    """Make the store at `url` with this program's schema, unless there is one of any schema.

    Several processes may do this at once: the first does the work and the others find it done.
    """
    backend(url).create()
    for attempts_left in reversed(range(_MAKE_ATTEMPTS)):
        try:
            if _version(url) is not None:
                return
            _upgrade(url)
        except Busy:  # another process is making the store
            if not attempts_left:
                raise
            time.sleep(_PAUSE_SECONDS)  # SQLite sometimes returns without waiting


def upgrade(url: str) -> tuple[str, str]:
    """Bring the existing store at `url` to this program's schema.

    Returns:
        The schema's version before and after.

    Raises:
        SchemaMismatch: There is no store, or this program does not know its version.
    """
    found, needed = _version(url), head()
    if found is None or found not in _revisions():
        raise _mismatch(url, found)
    if found != needed:
        _upgrade(url)
    return found, needed


def check(url: str) -> None:
    """Check that the store at `url` has this program's schema; nothing is written or locked.

    Raises:
        SchemaMismatch: It does not; the message names both versions and says what to do.
    """
    found = _version(url)
    if found != head():
        raise _mismatch(url, found)


def _mismatch(url: str, found: str | None) -> SchemaMismatch:
    if found is None:
        reason = "there is no store"
    elif found in _revisions():
        reason = "stop its processes and run `prio store upgrade`"
    elif found > _LAST_UNRELEASED:
        reason = "it is of a newer program"
    else:
        reason = (
            "no release has made it, and nothing upgrades it: collect what it holds with the "
            "program that made it, then move it away and begin a new store"
        )
    return SchemaMismatch(
        f"the store {backend(url).name}: its schema is at version {found or 'none'}, and prio "
        f"{aggregator.__version__} needs {head()}: {reason}"
    )


def head() -> str:
    """Return the version that this program needs."""
    return _revisions()[-1]


def _revisions() -> Sequence[str]:
    """Return the versions that this program knows, oldest first."""
    return _revisions_in(_SCRIPTS)


@functools.cache
def _revisions_in(scripts: str) -> Sequence[str]:
    package, _, folder = scripts.rpartition(":")  # as Alembic reads it
    place = resources.files(package) / folder if package else Path(folder)
    names = [file.name for file in (place / "versions").iterdir()]
    return sorted(found[1] for found in map(_REVISION.match, names) if found)


def _version(url: str) -> str | None:
    database = backend(url)
    with translated(database, "check schema"):
        if not database.exists():  # connecting would create an empty file
            return None
    made = database.engine(readers=1)
    try:
        with translated(database, "check schema"), made.connect() as connection:
            if not sqlalchemy.inspect(connection).has_table(_VERSIONS.name):
                return None
            found: str | None = connection.execute(
                sqlalchemy.select(_VERSIONS.c.version_num)
            ).scalar()
            return found
    finally:
        made.dispose()


def _upgrade(url: str, revision: str = "head") -> None:
    from alembic import command

    database = backend(url)
    made = database.engine()
    try:
        # One transaction for all revisions: a killed upgrade leaves the old schema.
        with translated(database, "upgrade"), made.begin() as connection:
            database.lock(connection, {b"schema"}, shared=False)
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    finally:
        made.dispose()


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    return config
