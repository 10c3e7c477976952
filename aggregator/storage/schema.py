"""The schema's version: `upgrade` runs the Alembic revisions in this package."""

import functools
from collections.abc import Callable

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import aggregator
from aggregator.errors import StoreError
from aggregator.storage.engine import Busy, backend, translated

_SCRIPTS = "aggregator.storage:migrations"
_MAKE_ATTEMPTS = 12
"""How often a process waits for another one that makes the store; each time some 5 s."""


class SchemaMismatch(StoreError):
    """The database has a different schema from the one this program was written for."""


def is_made(url: str) -> bool:
    """Return whether there is a store at `url`, of any schema; an empty file is none."""
    return _version(url) is not None


def make(url: str) -> None:
    """Make the store at `url` with this program's schema, unless there is one of any schema.

    Several processes may do this at once: the first does the work and the others find it done.
    """
    backend(url).create()
    for attempts_left in reversed(range(_MAKE_ATTEMPTS)):
        if _version(url) is not None:
            return
        try:
            _migrate(url, command.upgrade, "head")
        except Busy:  # with what another process is making
            if not attempts_left:
                raise


def upgrade(url: str) -> tuple[str, str]:
    """Bring the existing store at `url` to this program's schema.

    Returns:
        The schema's version before and after.

    Raises:
        SchemaMismatch: There is no store, or a version made it that this program does not know.
    """
    found, needed = _version(url), head()
    if found is None or found not in {each.revision for each in _scripts().walk_revisions()}:
        raise _mismatch(url, found)
    if found != needed:
        _migrate(url, command.upgrade, "head")
    return found, needed


def downgrade(url: str, revision: str) -> None:
    """Take the store at `url` back to `revision`; `base` is the empty database."""
    _migrate(url, command.downgrade, revision)


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
    elif found in {known.revision for known in _scripts().walk_revisions()}:
        reason = "stop its processes and run `prio store upgrade`"
    elif found > head():
        reason = "it is of a newer program"
    else:
        reason = "it is of an unreleased program and cannot be upgraded"
    return SchemaMismatch(
        f"the store {backend(url).name}: its schema is at version {found or 'none'}, and prio "
        f"{aggregator.__version__} needs {head()}: {reason}"
    )


def head() -> str:
    """Return the version that this program needs."""
    head = _scripts().get_current_head()
    if head is None:
        raise StoreError("this program has no schema")
    return head


def _scripts() -> ScriptDirectory:
    return _scripts_in(_SCRIPTS)


@functools.cache
def _scripts_in(_: str) -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _version(url: str) -> str | None:
    database = backend(url)
    with translated(database, "check schema"):
        if not database.exists():  # connecting would make an empty file
            return None
    made = database.engine(readers=1)
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
            database.lock(connection, {b"schema"}, shared=False)
            config = _config()
            config.attributes["connection"] = connection
            step(config, revision)
    finally:
        made.dispose()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    return config
