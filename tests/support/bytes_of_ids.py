"""What it costs to remember ids where there are many from before, in bytes."""

import os
import secrets
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection

from aggregator.cli.local.costs import server_processes
from aggregator.cli.local.load_ids import fill
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.ids import admit
from tests.support.engines import engine_of
from tests.support.patience import wait_until
from tests.support.store import TASK_ID, make_store, store_url

TODAY = 20_000
_AT_ONCE = 500


class OfAnId(NamedTuple):
    """Bytes of an id: in the log of a server (0 with SQLite), and written until a checkpoint."""

    log: float
    written: float


def bytes_of_ids(
    folder: Path, before: int, more: int, days: int = 1, *, of_today: bool = False
) -> OfAnId:
    """Return what each of `more` ids costs, of the last days, with so many `before` them.

    Those are of 400 days before, or of the same day.

    The store is made in `folder`, and left there.
    """
    folder.mkdir(exist_ok=True)
    store, table = make_store(folder), tables.report_ids
    with closing(store), engine_of(store_url(folder)) as engine:
        if of_today:
            fill(store, table, TASK_ID, TODAY + 1, before, days=1)
        else:
            fill(store, table, TASK_ID, TODAY, before)

        def remember(tx: Transaction, first: int) -> None:
            arrivals = [(secrets.token_bytes(16), b"") for _ in range(_AT_ONCE)]
            several = [TODAY - (first + number) % days for number in range(_AT_ONCE)]
            assert admit(tx, table, TASK_ID, arrivals, several, (), {}) == [None] * _AT_ONCE

        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            _checkpoint(connection)
            log, written = _log(connection), _written(connection)
            for first in range(0, more, _AT_ONCE):
                store.run_sync("remember", partial(remember, first=first))
            log = _log(connection) - log
            _checkpoint(connection)
            return OfAnId(log / more, (_written(connection) - written) / more)


def _is_server(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def _log(connection: Connection) -> int:
    if not _is_server(connection):
        return 0
    query = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
    return int(connection.exec_driver_sql(query).scalar_one())


def _checkpoint(connection: Connection) -> None:
    if _is_server(connection):
        connection.exec_driver_sql("CHECKPOINT")
        return
    with closing(sqlite3.connect(str(connection.engine.url.database))) as alone:
        # The store empties its log from a thread of its own, and SQLite waits for no other
        # checkpoint, whatever the connection's timeout says.
        wait_until(lambda: alone.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)


def _written(connection: Connection) -> int:
    """Return what processes have written: those of the server, or this one with SQLite."""
    processes = [os.getpid()]
    if _is_server(connection):
        session = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        processes = server_processes(session)
    return sum(_of_process(each) for each in processes)


def _of_process(process: int) -> int:
    for line in Path(f"/proc/{process}/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise AssertionError("Linux says what a process has written")
