"""The database under the store: what we need from it, and its errors in our words.

The verbs speak SQLAlchemy Core, which every database understands; where databases differ is in
`Backend`. SQLite is the only one so far.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import Connection, Engine, Table
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    OperationalError,
    SQLAlchemyError,
)

from aggregator.errors import ConfigurationError, StoreError
from aggregator.storage.key_file import KeyFile
from aggregator.storage.sqlite import Sqlite


class Busy(StoreError):
    """Others held the database for too long; the transaction was tried several times."""


class DiskFull(StoreError):
    """There is no room for what was to be stored; none of it was."""


class Damaged(StoreError):
    """The store's file is damaged, or is not a store."""


class Conflict(StoreError):
    """What a verb was asked to store contradicts what is there."""


class Backend(Protocol):
    """What each database does its own way; `sqlite.Sqlite` says what each method is for."""

    def engine(self, readers: int = 0) -> Engine:
        """Return an engine for one writer, or for `readers` readers."""

    @property
    def name(self) -> str:
        """What messages call the store."""

    def exists(self) -> bool:
        """Return whether there is a store."""

    def create(self) -> None:
        """Make an empty store unless there is one."""

    def now(self, connection: Connection) -> int:
        """Return the seconds since the Unix epoch by the database's clock."""

    def insert(self, table: Table) -> Insert:
        """Return an insert that knows `on_conflict_…`."""

    def key_file(self) -> KeyFile:
        """Return the file of short-lived keys, outside the database."""

    def empty_log(self) -> bool:
        """Empty the database's log of what was destroyed; return whether that was possible now."""

    def is_busy(self, error: OperationalError) -> bool:
        """Return whether others held the database for too long."""

    def is_full(self, error: OperationalError) -> bool:
        """Return whether the disk has no room."""

    def is_damaged(self, error: DBAPIError) -> bool:
        """Return whether the store is damaged."""


def backend(url: str) -> Backend:
    """Return the database that `url` names, for example `sqlite:////var/lib/prio/leader.sqlite`.

    Raises:
        ConfigurationError: It is not a URL, or names a database that we do not know.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # the latter for a port that is not a number
        # `from None`: the cause repeats the text, which may hold a password.
        raise ConfigurationError("the store's URL cannot be read") from None
    if parsed.get_backend_name() != "sqlite":
        raise ConfigurationError(
            "the store's URL must name an SQLite file, like sqlite:////var/lib/prio/leader.sqlite"
        )
    return Sqlite(parsed)


@contextmanager
def translated(database: Backend, name: str) -> Iterator[None]:
    """Turn the database's errors into ours, once."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(f"transaction {name!r}: {error.orig}") from error
    except OperationalError as error:
        if database.is_busy(error):
            raise Busy(f"transaction {name!r}: the database is busy") from error
        if database.is_full(error):
            raise DiskFull(f"transaction {name!r}: the disk is full") from error
        raise StoreError(f"transaction {name!r}: {error.orig}") from error
    except DBAPIError as error:
        if database.is_damaged(error):
            raise Damaged(f"the store {database.name} is damaged: {error.orig}") from error
        raise StoreError(f"transaction {name!r}: {error.orig}") from error
    except SQLAlchemyError as error:
        raise StoreError(f"transaction {name!r}: {error}") from error
