"""How services on one PostgreSQL server show there that they run.

Each process holds advisory locks on a connection of its own, as `presence` says. The server
releases them when the process has died, or soon after its machine has vanished.
"""

import math
from collections.abc import Collection

import sqlalchemy
from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from aggregator.errors import StoreError
from aggregator.service.storage.engine.presence import Duty, Present

_CLASS = int.from_bytes(b"prio", "big")
"""The first half of the locks' keys; the other one is a duty's. All others have one key of 64
bits, which the server keeps apart."""
_KEYS = {Duty.SERVE: 1, Duty.WORK: 2}
_KEEPALIVES = {"idle": 10, "interval": 10, "count": 3}
"""By them either side notices within 40 s that the other one's machine has vanished."""
_OURS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 40_000,
    **{f"keepalives_{name}": value for name, value in _KEEPALIVES.items()},
}
_AT_THE_SERVER = {
    "default_transaction_read_only": "on",
    **{f"tcp_keepalives_{name}": str(value) for name, value in _KEEPALIVES.items()},
}
_HELD = sqlalchemy.text(
    "SELECT objid::bigint, extract(epoch FROM clock_timestamp() - min(backend_start))::float8 "
    "FROM pg_locks LEFT JOIN pg_stat_activity USING (pid) "
    "WHERE locktype = 'advisory' AND objsubid = 2 AND classid = CAST(:class AS bigint)::oid "
    "AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND granted GROUP BY objid"
)


class PresenceLocks:
    """Locks on a connection that has nothing else to do."""

    def __init__(self, url: URL, duties: Collection[Duty]) -> None:
        """Show the duties in the database at `url` once `keep` is called."""
        self._keys = [_KEYS[duty] for duty in duties]
        self._engine = sqlalchemy.create_engine(
            url,
            hide_parameters=True,
            poolclass=sqlalchemy.NullPool,
            isolation_level="AUTOCOMMIT",  # a transaction would keep old rows from being removed
            connect_args=_OURS,
        )
        self._held: Connection | None = None

    def keep(self) -> None:
        """Ask the server whether it still knows the connection, and make one if it does not."""
        try:
            if self._held is not None:
                try:
                    self._held.exec_driver_sql("SELECT 1")
                except SQLAlchemyError:
                    self.close()
            if self._held is None:
                self._held = self._locked()
        except SQLAlchemyError as error:
            raise StoreError(f"no connection can be kept: {type(error).__name__}") from error

    def close(self) -> None:
        """Close the connection, and with it the locks."""
        held, self._held = self._held, None
        if held is not None:
            held.invalidate()
            held.close()

    def _locked(self) -> Connection:
        connection = self._engine.connect()
        try:
            for setting in _AT_THE_SERVER.items():
                connection.exec_driver_sql("SELECT set_config(%s, %s, false)", setting)
            for key in self._keys:
                connection.exec_driver_sql("SELECT pg_advisory_lock_shared(%s, %s)", (_CLASS, key))
        except BaseException:
            connection.close()
            raise
        return connection


def present_at(connection: Connection) -> Present:
    """Return the duties whose locks some process holds in the connection's database."""
    held = {key: since for key, since in connection.execute(_HELD, {"class": _CLASS})}  # noqa: C416  rows are no pairs to mypy
    return {duty: _seconds(held[key]) for duty, key in _KEYS.items() if key in held}


def _seconds(since: float | None) -> float:
    """Return for how long the oldest connection has been there, if we are told and it can be."""
    return since if since is not None and since >= 0 else math.inf
