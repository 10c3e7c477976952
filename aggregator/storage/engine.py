"""Connections to the database, and its errors in our words.

SQLite: one writer at a time (a lock within the process, `BEGIN IMMEDIATE` between processes),
readers beside it (WAL), `synchronous=FULL` so that a commit survives a power cut,
`secure_delete=ON` so that deleted bytes are overwritten.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import ConnectionPoolEntry

from aggregator.errors import ConfigurationError, StoreError

BUSY_TIMEOUT_SECONDS = 5
_SQLITE_BUSY = 5
_SQLITE_LOCKED = 6
_SQLITE_FULL = 13


class Busy(StoreError):
    """Others held the database for too long; the transaction was tried several times."""


class DiskFull(StoreError):
    """There is no room for what was to be stored; nothing of it was."""


class Conflict(StoreError):
    """What a verb was asked to store contradicts what is there."""


def store_url(text: str) -> URL:
    """Return `text` as the URL of an SQLite file.

    Raises:
        ConfigurationError: It is no URL, or names another database or none that lasts.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # the latter for a port that is no number
        # `from None`: the cause repeats the text, which may hold a password.
        raise ConfigurationError("the store's URL cannot be read") from None
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        raise ConfigurationError(
            "the store's URL must name an SQLite file, like sqlite:////var/lib/prio/leader.sqlite"
        )
    if url.query:
        raise ConfigurationError("the store's URL must end with the file: it takes no options")
    return url


def engine(url: str, readers: int = 0) -> Engine:
    """Return an engine for one writer, or for `readers` readers, with our settings."""
    made = sqlalchemy.create_engine(
        store_url(url),
        # A statement's values may be secrets: keep them out of error messages.
        hide_parameters=True,
        pool_size=readers or 1,
        max_overflow=0,
        poolclass=sqlalchemy.QueuePool,
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
    )

    def configure(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, below
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "secure_delete=ON",
            "foreign_keys=ON",
            "trusted_schema=OFF",
            "temp_store=MEMORY",
            f"query_only={'ON' if readers else 'OFF'}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    def begin(connection: Connection) -> None:
        # A writer takes its lock at once: a lock taken later could fail after work was done.
        connection.exec_driver_sql("BEGIN" if readers else "BEGIN IMMEDIATE")

    event.listen(made, "connect", configure)
    event.listen(made, "begin", begin)
    return made


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn the database's errors into ours, once."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(f"transaction {name!r}: {error.orig}") from error
    except OperationalError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code in (_SQLITE_BUSY, _SQLITE_LOCKED):
            raise Busy(f"transaction {name!r}: the database is busy") from error
        if code == _SQLITE_FULL:
            raise DiskFull(f"transaction {name!r}: the disk is full") from error
        raise StoreError(f"transaction {name!r}: {error.orig}") from error
    except DBAPIError as error:
        raise StoreError(f"transaction {name!r}: {error.orig}") from error
    except SQLAlchemyError as error:
        raise StoreError(f"transaction {name!r}: {error}") from error
