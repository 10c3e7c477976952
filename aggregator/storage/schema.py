"""The schema's version: Alembic revisions that are part of the package, run by `upgrade`."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from aggregator.errors import StoreError
from aggregator.storage.engine import engine, store_url, translated


class SchemaMismatch(StoreError):
    """The database has another schema than this program was written for."""


def upgrade(url: str) -> None:
    """Bring the store at `url` to this program's schema, making the file if there is none.

    Several processes may do this at once: the first does the work, the others find it done.

    Raises:
        SchemaMismatch: It has a schema that this program does not know.
    """
    _create_private_file(url)
    found = _version(url)
    scripts = ScriptDirectory.from_config(_config())
    if found is not None and found not in {script.revision for script in scripts.walk_revisions()}:
        raise SchemaMismatch(
            f"the store {_path(url)} is of a newer program: its schema is at version {found}, and "
            f"this one knows them up to {scripts.get_current_head()}"
        )
    _migrate(url, command.upgrade, "head")


def downgrade(url: str, revision: str) -> None:
    """Take the store at `url` back to `revision`; `base` is the empty database."""
    _migrate(url, command.downgrade, revision)


def check(url: str) -> None:
    """Check that the store at `url` has this program's schema.

    Raises:
        SchemaMismatch: It has not; the message names both versions.
    """
    found = _version(url)
    wanted = ScriptDirectory.from_config(_config()).get_current_head()
    if found != wanted:
        raise SchemaMismatch(
            f"the store's schema is at version {found or 'none'} and this program needs {wanted}"
        )


def _version(url: str) -> str | None:
    if not _path(url).exists():  # connecting would make an empty file
        return None
    made = engine(url)
    try:
        with translated("check schema"), made.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    finally:
        made.dispose()


def _migrate(url: str, step: Callable[[Config, str], None], revision: str) -> None:
    made = engine(url)
    try:
        # One transaction for all revisions: a killed migration leaves the old schema.
        with translated("migrate"), made.begin() as connection:
            config = _config()
            config.attributes["connection"] = connection
            step(config, revision)
    finally:
        made.dispose()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "aggregator.storage:migrations")
    return config


def _create_private_file(url: str) -> None:
    """Make the database file readable by its owner only; SQLite's log inherits the mode.

    A file that is there is left alone: closing any descriptor of it would drop the locks that
    SQLite holds on it in this process (POSIX), and another process could then empty the log of a
    store in use.
    """
    path = _path(url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreError(f"the store's file {path} cannot be made: {error.strerror}") from error


def _path(url: str) -> Path:
    return Path(store_url(url).database or "")
