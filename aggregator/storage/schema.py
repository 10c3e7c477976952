"""The schema's version: `upgrade` runs the Alembic revisions in this package."""

import functools
from collections.abc import Callable

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from aggregator.errors import StoreError
from aggregator.storage.engine import backend, translated


class SchemaMismatch(StoreError):
    """The database has a different schema from the one this program was written for."""


def upgrade(url: str) -> None:
    """Bring the store at `url` to this program's schema, making the store if needed.

    Several processes may do this at once: the first does the work and the others find it done.

    Raises:
        SchemaMismatch: The store was made by a version that this program does not know.
    """
    backend(url).create()
    found = _version(url)
    if found is not None and found not in {known.revision for known in _scripts().walk_revisions()}:
        raise _mismatch(found)
    _migrate(url, command.upgrade, "head")


def downgrade(url: str, revision: str) -> None:
    """Take the store at `url` back to `revision`; `base` is the empty database."""
    _migrate(url, command.downgrade, revision)


def check(url: str) -> None:
    """Check that the store at `url` has this program's schema.

    Raises:
        SchemaMismatch: It does not; the message names both versions.
    """
    found = _version(url)
    if found != _scripts().get_current_head():
        raise _mismatch(found)


def _mismatch(found: str | None) -> SchemaMismatch:
    return SchemaMismatch(
        f"the store's schema is at version {found or 'none'}, and this program needs "
        f"{_scripts().get_current_head()}: the store is of a newer or an older program"
    )


@functools.cache
def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _version(url: str) -> str | None:
    database = backend(url)
    if not database.exists():  # connecting would make an empty file
        return None
    made = database.engine()
    try:
        with translated(database, "check schema"), made.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    finally:
        made.dispose()


def _migrate(url: str, step: Callable[[Config, str], None], revision: str) -> None:
    database = backend(url)
    made = database.engine()
    try:
        # One transaction for all revisions: a killed migration leaves the old schema.
        with translated(database, "migrate"), made.begin() as connection:
            config = _config()
            config.attributes["connection"] = connection
            step(config, revision)
    finally:
        made.dispose()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "aggregator.storage:migrations")
    return config
