"""The database under the store: what we need from it, and its errors translated into ours.

The verbs speak SQLAlchemy Core, which both databases understand; where they differ is in `Backend`:
`sqlite.Sqlite`, one file with one writer, and `postgresql.Postgresql`, for many processes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import sqlalchemy
from sqlalchemy import Column, Connection, Engine, Table
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.sql.expression import Executable

from aggregator.errors import ConfigurationError, StoreError
from aggregator.service.storage.engine.backup_contents import BackupContents
from aggregator.service.storage.engine.key_slots import NewSlots, Unnamed
from aggregator.service.storage.engine.presence import Duty, Presence, Present
from aggregator.service.storage.engine.sqlite import Sqlite
from aggregator.service.storage.secrets.key_file import Held

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

    from aggregator.service.storage.engine.sqlite_check import PageCheck

Insert: TypeAlias = "sqlite.Insert | postgresql.Insert"


class Busy(StoreError):
    """Other transactions held the database for too long, at each of several attempts."""


class DiskFull(StoreError):
    """There is no room for what was to be stored; none of it was."""


class Unreachable(StoreError):
    """There is no connection; if it broke during the commit, the transaction may be committed."""


class Disconnected(Unreachable):
    """The connection broke before the commit, at every attempt: nothing was written."""


class Damaged(StoreError):
    """The store's file is damaged, or is not a store; `found` is what its database says of it."""

    def __init__(self, message: str, found: str = "") -> None:
        """Keep the message, and what was found."""
        super().__init__(message)
        self.found = found


class Conflict(StoreError):
    """What a verb was asked to store contradicts what is stored."""


class LostRace(Conflict):
    """Another transaction stored the same row first, at each of several attempts."""


class UnreadableBodies(StoreError):
    """Bodies are not what was stored, or not there: nobody knows yet whether they are lost.

    Attributes:
        groups: The groups that have them, each with the generation in which its body lies.
    """

    def __init__(self, message: str, groups: Mapping[int, int]) -> None:
        """Say which body it is; of several, the first."""
        super().__init__(message)
        self.groups = groups


class BodyGone(UnreadableBodies):
    """A body is no longer where the transaction's snapshot says, at each of several attempts."""


class KeySlots(Protocol):
    """The sealed keys of buckets by slot number, for one transaction."""

    @property
    def name(self) -> str:
        """What messages call the place where they are."""

    def put(self, keys: Sequence[bytes]) -> NewSlots:
        """Store keys; return their slots, which were never used."""

    def get(self, slot: int) -> bytes:
        """Return a key.

        Raises:
            KeyGone: The slot holds none.
        """

    def replace(self, slot: int, key: bytes) -> None:
        """Replace a slot's ciphertext by another of the same key."""

    def delete(self, slots: Sequence[int]) -> Sequence[int]:
        """Delete keys in the transaction; return the slots to be destroyed after it commits."""

    def unnamed(self, held: Held) -> Unnamed:
        """Return which of the `held` slots the database does not name."""

    def newer(self) -> Sequence[int]:
        """Return the slots of sums that came after this copy of the database."""


class BucketKeys(Protocol):
    """All bucket keys of a store."""

    def within(self, connection: Connection) -> KeySlots:
        """Return the keys for a transaction on `connection`."""

    @property
    def name(self) -> str:
        """What messages call their place."""

    def held(self) -> Held:
        """Return the slots outside the database whose keys are not destroyed."""

    def destroy(self, slots: Iterable[int]) -> None:
        """Destroy keys outside the database at once."""

    def close(self) -> None:
        """Close what is open."""


class Backend(Protocol):
    """What each database does in its own way."""

    writers: int
    """How many transactions of one process may write at once."""

    shards: int
    """How many transactions of all processes may add to one bucket at once (`locks.own_shard`)."""

    def engine(self, readers: int = 0) -> Engine:
        """Return an engine for `writers` writers, or for `readers` readers."""

    @property
    def name(self) -> str:
        """What messages call the store."""

    def stored_bytes(self, connection: Connection) -> int:
        """Return how many bytes the store has."""

    def free_bytes(self) -> int | None:
        """Return the free bytes on its disk, None if only its server knows."""

    def exists(self) -> bool:
        """Return whether there is a store."""

    def damage(self) -> str | None:
        """Return what was found wrong with the store, by any process, until it is looked at anew.

        Meanwhile every transaction that would write is refused.
        """

    def note_damage(self, found: str | None) -> None:
        """Tell every process of this store what was found wrong with it; None if all is well."""

    def page_check(self) -> "PageCheck | None":
        """Return a check of the store's pages; None if that is for its server's operator."""

    def create(self) -> None:
        """Make a place for a store unless there is one."""

    def prove_locks(self, setting: str) -> None:
        """Check that a second connection cannot take what the first has locked.

        Args:
            setting: The setting that names the database, for error messages.

        Raises:
            ConfigurationError: It can: the database only pretends to lock.
        """

    def now(self, connection: Connection) -> int:
        """Return the seconds since the Unix epoch by the database's clock."""

    def insert(self, table: Table) -> Insert:
        """Return an insert that knows `on_conflict_…`."""

    def insert_many(
        self,
        connection: Connection,
        statement: sqlalchemy.Insert,
        rows: Sequence[Mapping[str, Any]],
    ) -> Sequence[Sequence[Any]]:
        """Insert one or more rows of the same columns; return what `statement` returns, if any."""

    def run(
        self, connection: Connection, statement: Executable, each: Sequence[Mapping[str, Any]]
    ) -> Sequence[Sequence[Any]]:
        """Run a statement once for each of one or more mappings; return rows only if it is one.

        The statement is made once (`Transaction.prepared`, or a constant). A list may stand for the
        values of `IN`, and then there is one mapping.
        """

    def lock(self, connection: Connection, names: set[bytes], *, shared: bool) -> None:
        """Hold the locks `names` until the transaction ends; `locks` says what each protects."""

    def lock_one_of(self, connection: Connection, names: Sequence[bytes]) -> int:
        """Hold one of the locks `names`, a free one if there is any; return its position."""

    def lock_alone(self, connection: Connection, table: Table) -> bool:
        """Lock a table against all others until the transaction ends, if nobody uses it now.

        Returns:
            Whether it is locked; this never waits.
        """

    def empty(self, connection: Connection, content: Column[bytes]) -> None:
        """Delete the rows of the table of `content`: all, or few enough to hold nobody up for long.

        They hold no secrets, so what is left of them on the disk is not overwritten.
        """

    def unscrubbed(self, connection: Connection) -> AbstractContextManager[None]:
        """Leave what is deleted inside to be overwritten by what comes later.

        Overwriting it at once would write each page of it once more.
        """

    def bucket_keys(self) -> BucketKeys:
        """Return the place of the short-lived keys of buckets."""

    def presence(self, duties: Collection[Duty]) -> Presence:
        """Return what shows others that this process does these duties."""

    def present(self, connection: Connection) -> Present:
        """Return the duties that somebody does now, in whatever process of whatever machine."""

    def empty_log(self) -> bool:
        """Remove destroyed secrets from the database's log; return whether that was possible."""

    def back_up(self, file: Path) -> None:
        """Write one moment of the database to an empty file, without the keys of buckets.

        Raises:
            ConfigurationError: A program that it needs is not installed.
            StoreError: It failed.
        """

    def read_backup(self, file: Path, secrets: Sequence[tuple[str, str]]) -> BackupContents:
        """Read a backup to its end; `secrets` are the tables and columns that hold ciphertexts.

        Raises:
            NoBackup: The file is not a backup, or is damaged.
        """

    def is_busy(self, error: OperationalError) -> bool:
        """Return whether other transactions held the database for too long."""

    def is_unreachable(self, error: DBAPIError) -> bool:
        """Return whether there is no server, or it has ended the connection."""

    def is_lost_race(self, error: DBAPIError) -> bool:
        """Return whether another transaction has stored the same row since ours looked."""

    def is_full(self, error: OperationalError) -> bool:
        """Return whether the disk has no room."""

    def is_damaged(self, error: DBAPIError) -> bool:
        """Return whether the store is damaged."""

    def reason(self, error: DBAPIError) -> str:
        """Return the database's message, without the values that were to be stored."""


def backend(url: str) -> Backend:
    """Return the database that `url` names.

    For example `sqlite:////var/lib/prio/leader.sqlite` or `postgresql://prio@db.example/leader`.

    Raises:
        ConfigurationError: It is not a URL, or names a database that we do not know.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        # `from None`: the cause repeats the text, which may hold a password.
        raise ConfigurationError("the store's URL cannot be read") from None
    match parsed.drivername:
        case "sqlite" | "sqlite+pysqlite":
            return Sqlite(parsed)
        case "postgresql" | "postgresql+psycopg":
            from aggregator.service.storage.engine.postgresql import Postgresql

            return Postgresql(parsed)
        case _:
            raise ConfigurationError(
                "the store's URL must name an SQLite file, like "
                "sqlite:////var/lib/prio/leader.sqlite, or a PostgreSQL database, like "
                "postgresql://prio@db.example/leader"
            )


@contextmanager
def translated(
    database: Backend, name: str, broken: type[Unreachable] = Unreachable
) -> Iterator[None]:
    """Translate the database's errors into ours; `broken` is the class for a broken connection."""
    try:
        yield
    except DBAPIError as error:
        raise _in_our_words(database, name, broken, error) from error
    except SQLAlchemyError as error:
        raise StoreError(f"transaction {name!r}: {error}") from error


def damaged(database: Backend, found: str) -> Damaged:
    """Return the error that says what was found wrong with a store, and what to do about it."""
    return Damaged(
        f"the store {database.name} is damaged: {found}: nothing more is written to it; stop its "
        "processes, keep the file, and go back to a backup; `prio store check` looks again",
        found,
    )


def _in_our_words(
    database: Backend, name: str, broken: type[Unreachable], error: DBAPIError
) -> StoreError:
    reason = database.reason(error)
    if database.is_unreachable(error):
        return broken(f"transaction {name!r}: {database.name} cannot be reached: {reason}")
    match error:
        case IntegrityError():
            kind = LostRace if database.is_lost_race(error) else Conflict
            return kind(f"transaction {name!r}: {reason}")
        case OperationalError() if database.is_busy(error):
            return Busy(f"transaction {name!r}: the database is busy")
        case OperationalError() if database.is_full(error):
            return DiskFull(f"transaction {name!r}: the disk of {database.name} is full")
    if database.is_damaged(error):
        return damaged(database, reason)
    return StoreError(f"transaction {name!r}: {database.name}: {reason}")
