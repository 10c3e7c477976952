"""Everything particular to PostgreSQL, behind `backends.Backend`.

Several transactions write at once, and each statement sees what was committed before it (READ
COMMITTED). What a verb reads and relies on until it commits is protected by a constraint, a row
lock or an advisory lock (`locks`). Readers have one snapshot (REPEATABLE READ).
"""

import functools
import hashlib
import re
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Column, Connection, Engine, Table, bindparam, event, func, select
from sqlalchemy.dialects.postgresql import ARRAY, Insert
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.expression import Executable

from aggregator.errors import ConfigurationError
from aggregator.service.storage.engine import postgresql_backup
from aggregator.service.storage.engine.backup_contents import BackupContents
from aggregator.service.storage.engine.driver_statements import AS_BYTES, run, run_text
from aggregator.service.storage.engine.key_table import KeyTable
from aggregator.service.storage.engine.postgresql_presence import PresenceLocks, present_at
from aggregator.service.storage.engine.presence import Duty, Present

LOCK_TIMEOUT_SECONDS = 5
_IDLE_TIMEOUT_SECONDS = 300
_KEEPALIVE_SECONDS = 10
_FRESH_SECONDS = 1.0
# https://www.postgresql.org/docs/15/errcodes-appendix.html
_BUSY = ("40001", "40P01", "55P03")  # serialization failure, deadlock, lock timeout
_GONE = ("08", "57P", "53300")  # no connection, ended by the operator, too many connections
_TAKEN = "55P03"
_UNIQUE = "23505"
_FULL = ("53100",)
_DAMAGED = ("XX001", "XX002")
_OTHERS_STATEMENTS = ("42P05", "26000")  # a prepared statement is there already, or is not there
_LOCK, _LOCK_SHARED = (
    f"SELECT {function}(key) FROM unnest(%s::bigint[]) AS key"  # noqa: S608  no value is in it
    for function in ("pg_advisory_xact_lock", "pg_advisory_xact_lock_shared")
)
_NO_SESSIONS = (
    "what one connection has set, another one finds: a pooler stands in front that shares one "
    "connection of the server among several of ours. Have it keep sessions (pgbouncer: `pool_mode "
    "= session`), or connect past it"
)


class Postgresql:
    """A store in a database of its own on a PostgreSQL server."""

    writers = 4
    shards = 8  # of all processes of a store: `capacity` relies on it

    def __init__(self, url: URL) -> None:
        """Keep the store in the database that `url` names.

        Raises:
            ConfigurationError: It names no database.
        """
        if not url.database:
            raise ConfigurationError("the store's URL must name a database of the server")
        self._url = url.set(drivername="postgresql+psycopg")

    def engine(self, readers: int = 0) -> Engine:
        """Return an engine for `writers` writers, or for `readers` readers, with our settings.

        Raises:
            ConfigurationError: The driver is not installed, or the URL has an option unknown to it.
        """
        try:
            made = sqlalchemy.create_engine(
                self._url,
                # A statement's values may be secrets: keep them out of error messages.
                hide_parameters=True,
                pool_size=readers or self.writers,
                max_overflow=0,
                isolation_level="REPEATABLE READ" if readers else "READ COMMITTED",
            )
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "PostgreSQL's driver is not installed: pip install 'prio-aggregator[postgresql]'"
            ) from error
        from psycopg.types.array import ListBinaryDumper

        settings = {
            # Our statements take milliseconds; to compile one takes a hundred.
            "jit": "off",
            "lock_timeout": f"{LOCK_TIMEOUT_SECONDS}s",
            # A client machine that vanishes in mid-transaction must not keep its locks.
            "idle_in_transaction_session_timeout": f"{_IDLE_TIMEOUT_SECONDS}s",
            "tcp_keepalives_idle": str(_KEEPALIVE_SECONDS),
            "tcp_keepalives_interval": str(_KEEPALIVE_SECONDS),
            "tcp_keepalives_count": "3",
            "default_transaction_read_only": "on" if readers else "off",
        }

        def configure(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
            # Otherwise bytes in arrays would be sent as text of twice the length.
            connection.adapters.register_dumper(list, ListBinaryDumper)
            cursor = connection.cursor()
            for name, value in settings.items():
                cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
            # A commit must survive a power cut; stricter settings of the server are left alone.
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            cursor.close()
            connection.commit()

        event.listen(made, "connect", configure)
        event.listen(made, "checkin", _note_use)
        event.listen(made, "checkout", _prove_alive)
        return made

    @property
    def name(self) -> str:
        """What messages call the store: its server and its database, without user and password."""
        host = self._url.host or self._url.query.get("host", "localhost")
        hosts = host if isinstance(host, str) else ",".join(host)  # several, of which one answers
        return f"{hosts}/{self._url.database}"

    def stored_bytes(self, connection: Connection) -> int:
        """Return how many bytes the database has, without the server's log."""
        size = connection.exec_driver_sql("SELECT pg_database_size(current_database())")
        return int(size.scalar_one())

    def free_bytes(self) -> int | None:
        """Return None: the server's disk is not ours to see."""
        return None

    def exists(self) -> bool:
        """Return whether there is a store, of any version."""
        made = self.engine(readers=1)
        try:
            with made.connect() as connection:
                found = connection.exec_driver_sql("SELECT to_regclass('alembic_version')")
                return found.scalar_one() is not None
        finally:
            made.dispose()

    def create(self) -> None:
        """Do nothing: the database is the operator's to make, and its tables are the schema's."""

    def prove_locks(self, setting: str) -> None:
        """Take a lock, and try to take it from a second connection.

        Some databases that speak PostgreSQL's protocol accept advisory locks without locking
        anything, and poolers that hand each statement to another connection defeat them. On such a
        store two processes could release one batch twice. Our settings, of which one keeps readers
        from writing, need connections that are sessions.

        Args:
            setting: The setting that names the database, for error messages.

        Raises:
            ConfigurationError: A second connection has the session of the first one, or gets the
                lock that it holds.
        """
        key = secrets.randbits(63)  # random, so nobody else opening a store uses it now
        made = self.engine(readers=2)
        try:
            with made.connect() as holder, made.connect() as other:
                self._prove_sessions(setting, holder, other)
                for take in ("pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"):
                    holder.exec_driver_sql(f"SELECT {take}(%s)", (key,))
                    attempt = other.exec_driver_sql(
                        "SELECT pg_try_advisory_xact_lock(%s)", (key,)
                    ).scalar_one()
                    other.rollback()
                    holder.rollback()
                    if attempt:
                        raise ConfigurationError(
                            f"{setting}: {self.name} locks nothing: two connections hold one "
                            "advisory lock. Its engine is not PostgreSQL, or a pooler stands in "
                            "front that does not keep a transaction on one connection"
                        )
        finally:
            made.dispose()

    def _prove_sessions(self, setting: str, *connections: Connection) -> None:
        """Let each connection say something of itself that lasts, and then ask all of them."""
        for number, connection in enumerate(connections):
            connection.exec_driver_sql(
                "SELECT set_config('prio.connection', %s, false)", (str(number),)
            )
            connection.commit()
        for number, connection in enumerate(connections):
            found = connection.exec_driver_sql("SELECT current_setting('prio.connection', true)")
            if found.scalar_one() != str(number):
                raise ConfigurationError(f"{setting}: {self.name}: {_NO_SESSIONS}")
            connection.rollback()

    def now(self, connection: Connection) -> int:
        """Return the seconds since the Unix epoch by the database's clock."""
        seconds = connection.exec_driver_sql("SELECT floor(extract(epoch FROM now()))::bigint")
        return int(seconds.scalar_one())

    def insert(self, table: Table) -> Insert:
        """Return an insert that knows `on_conflict_…`."""
        return postgresql_insert(table)

    def insert_many(
        self,
        connection: Connection,
        statement: sqlalchemy.Insert,
        rows: Sequence[Mapping[str, Any]],
    ) -> Sequence[Sequence[Any]]:
        """Insert rows as one statement with an array for each column, whatever their number."""
        names = tuple(rows[0])
        arrays = {name: [row[name] for row in rows] for name in names}
        result = connection.execute(_from_arrays(statement, names), arrays)
        return result.all() if result.returns_rows else ()

    def run(
        self, connection: Connection, statement: Executable, each: Sequence[Mapping[str, Any]]
    ) -> Sequence[Sequence[Any]]:
        """Run a prepared statement, without SQLAlchemy; several mappings travel together."""
        return run(connection, statement, each, _cursor)

    def lock(self, connection: Connection, names: set[bytes], *, shared: bool) -> None:
        """Take the advisory locks `names` until the transaction ends, in an order of their own.

        One statement takes them, one row after another. A name is hashed to 64 bits; if two
        collide, they only wait for each other.
        """
        keys = sorted(_lock_key(name) for name in names)
        run_text(connection, _LOCK_SHARED if shared else _LOCK, (keys,))

    def lock_one_of(self, connection: Connection, names: Sequence[bytes]) -> int:
        """Take the first free advisory lock, or wait for one if none is; return its position."""
        keys = [_lock_key(name) for name in names]
        # CASE tries them in order and stops at the first that is free.
        tried = " ".join(
            f"WHEN pg_try_advisory_xact_lock({key}) THEN {place}" for place, key in enumerate(keys)
        )
        query = f"SELECT CASE {tried} END, pg_backend_pid()"
        free, session = connection.exec_driver_sql(query).one()
        if free is not None:
            return int(free)
        place = int(session) % len(keys)
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (keys[place],))
        return place

    def lock_alone(self, connection: Connection, table: Table) -> bool:
        """Lock a table, even against readers, unless somebody holds any lock on it."""
        try:
            with connection.begin_nested():
                connection.exec_driver_sql(
                    f"LOCK TABLE {table.name} IN ACCESS EXCLUSIVE MODE NOWAIT"
                )
        except OperationalError as error:
            if _code(error) == _TAKEN:
                return False
            raise
        return True

    def empty(self, connection: Connection, content: Column[bytes]) -> None:
        """Truncate the table, whose files the server then removes."""
        connection.exec_driver_sql(f"TRUNCATE {content.table.name}")

    def unscrubbed(self, connection: Connection) -> AbstractContextManager[None]:  # noqa: ARG002  the server has no such switch
        """Do nothing: the server overwrites nothing."""
        return nullcontext()

    def damage(self) -> None:
        """Return None: what the server knows of its files, it says to whoever reads them."""

    def note_damage(self, found: str | None) -> None:
        """Do nothing: the server refuses what it finds damaged."""

    def page_check(self) -> None:
        """Return None: the server has checksums of its own, and `pg_amcheck`."""

    def bucket_keys(self) -> KeyTable:
        """Return the table of short-lived keys."""
        return KeyTable()

    def presence(self, duties: Collection[Duty]) -> PresenceLocks:
        """Return what shows others that this process does these duties."""
        return PresenceLocks(self._url, duties)

    def present(self, connection: Connection) -> Present:
        """Return the duties that somebody does now, on any machine."""
        return present_at(connection)

    def empty_log(self) -> bool:
        """Do nothing and succeed: the server recycles its log and its dead rows."""
        return True

    def back_up(self, file: Path) -> None:
        """Write one moment of the database to an empty file; see `postgresql_backup`."""
        postgresql_backup.dump(self._url, file)

    def read_backup(self, file: Path, secrets: Sequence[tuple[str, str]]) -> BackupContents:
        """Read such a file to its end; see `postgresql_backup`."""
        return postgresql_backup.contents(file, secrets)

    def is_busy(self, error: OperationalError) -> bool:
        """Return whether other transactions held the database for too long, or conflicted."""
        return _code(error) in _BUSY

    def is_unreachable(self, error: DBAPIError) -> bool:
        """Return whether there is no server, or it has ended the connection.

        A failure of the connection has no code, since the server has not reported it.
        """
        code = _code(error)
        is_silent = isinstance(error, OperationalError) and code is None
        return error.connection_invalidated or is_silent or (code or "").startswith(_GONE)

    def is_lost_race(self, error: DBAPIError) -> bool:
        """Return whether a row that was to be inserted exists already.

        Every verb looks before it inserts, so another transaction has inserted the row in between;
        on the next attempt the verb finds it.
        """
        return _code(error) == _UNIQUE

    def is_full(self, error: OperationalError) -> bool:
        """Return whether the disk has no room."""
        return _code(error) in _FULL

    def is_damaged(self, error: DBAPIError) -> bool:
        """Return whether the store is damaged."""
        return _code(error) in _DAMAGED

    def reason(self, error: DBAPIError) -> str:
        """Return the server's message in one line, without the row that it may quote."""
        if _code(error) in _OTHERS_STATEMENTS:
            return _NO_SESSIONS
        diagnosis = getattr(error.orig, "diag", None)
        text: str = getattr(diagnosis, "message_primary", None) or str(error.orig)
        return re.sub(r"\s+", " ", text).strip()


def _note_use(_: DBAPIConnection | None, record: ConnectionPoolEntry) -> None:
    record.info["used"] = time.monotonic()


def _prove_alive(connection: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
    """Have another connection made after a restart of the server, before a transaction needs one.

    One that has just been used is not asked: that would take a fifth of a small transaction.
    """
    if time.monotonic() - record.info.get("used", time.monotonic()) < _FRESH_SECONDS:
        return
    cursor = connection.cursor()
    try:
        cursor.execute("SELECT 1")
    except Exception as error:
        raise DisconnectionError from error
    finally:
        cursor.close()
    connection.rollback()


def _cursor(connection: Any, options: Mapping[str, Any]) -> Any:  # noqa: ANN401  psycopg's, which may not be installed
    """Have values sent in binary if a statement asks for it: as text, bytes are twice as long."""
    return connection.cursor(binary=bool(options.get(AS_BYTES)))


def _code(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None)


@functools.lru_cache(maxsize=256)
def _from_arrays(statement: sqlalchemy.Insert, names: tuple[str, ...]) -> sqlalchemy.Insert:
    """Return an insert of rows from one array per column; built once per statement."""
    columns = [statement.table.c[name] for name in names]
    arrays = (bindparam(column.name, type_=ARRAY(column.type)) for column in columns)
    given = func.unnest(*arrays).table_valued(*names).render_derived()
    return statement.from_select(columns, select(given), include_defaults=False)


def _lock_key(name: bytes) -> int:
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)
