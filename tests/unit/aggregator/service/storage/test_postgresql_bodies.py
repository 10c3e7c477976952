"""What keeps a generation from being emptied on a PostgreSQL server, one moment after another."""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import Cursor
from sqlalchemy import Connection, Table

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.postgresql import Postgresql
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports import groups
from aggregator.service.storage.reports.bodies import put_bodies
from aggregator.service.storage.reports.generations import (
    TURN_SECONDS,
    UNUSED_SECONDS,
    rotate_generations,
)
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.rejecting import drop_reports
from aggregator.service.storage.reports.reports import put_reports
from tests.support.clock import ManualClock
from tests.support.engines import ON_POSTGRESQL
from tests.support.patience import PATIENCE_SECONDS
from tests.support.store import (
    MAX_REPORTS,
    TASK_ID,
    bodies_left,
    body_of,
    create_job,
    report_id,
    reports_in,
    rotate_all,
    unit,
    upload,
)

pytestmark = ON_POSTGRESQL


@contextmanager
def uploading(store: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Have an upload that has stored all; yield what commits it."""
    has_put, may_commit = threading.Event(), threading.Event()

    def put_and_wait(tx: Transaction, generation: int, bodies: dict[int, bytes]) -> None:
        put_bodies(tx, generation, bodies)
        has_put.set()
        assert may_commit.wait(PATIENCE_SECONDS)

    with monkeypatch.context() as patch:
        patch.setattr(groups, "put_bodies", put_and_wait)
        thread = threading.Thread(target=upload, args=(store, [100]))
        thread.start()
        assert has_put.wait(PATIENCE_SECONDS)

    def commit() -> None:
        may_commit.set()
        thread.join()

    try:
        yield commit
    finally:
        commit()


def turn(store: Database) -> int:
    return store.run_sync("turn", rotate_generations)


def make_unused(store: Database, clock: ManualClock) -> None:
    """Drop all that can be seen in the first generation, and let it be of no use for a while."""
    upload(store, range(3))
    job = create_job(store)
    assert job is not None
    clock.advance(TURN_SECONDS)
    assert turn(store) == 1
    store.run_sync("drop", lambda tx: drop_reports(tx, TASK_ID, job.key))
    assert turn(store) == 0
    clock.advance(UNUSED_SECONDS)


def check_the_upload(store: Database) -> None:
    job = create_job(store)
    assert job is not None
    (found,) = reports_in(store, job.key)
    assert found.body == body_of(100)


def test_an_upload_that_is_not_committed_keeps_its_generation(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(groups, "current_generation", lambda _: 0)  # it has looked long ago
        make_unused(store, clock)
        with uploading(store, monkeypatch) as commit:
            assert (turn(store), bodies_left(store)) == (0, 1)  # and waits for nobody
            commit()
    assert (turn(store), bodies_left(store)) == (0, 2)
    check_the_upload(store)


def test_an_upload_committed_between_a_look_and_the_lock_keeps_its_generation(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_alone = Postgresql.lock_alone
    monkeypatch.setattr(groups, "current_generation", lambda _: 0)
    make_unused(store, clock)
    with uploading(store, monkeypatch) as commit:

        def lock_late(self: Postgresql, connection: Connection, table: Table) -> bool:
            commit()
            return lock_alone(self, connection, table)

        monkeypatch.setattr(Postgresql, "lock_alone", lock_late)
        assert (turn(store), bodies_left(store)) == (0, 2)
    monkeypatch.setattr(Postgresql, "lock_alone", lock_alone)
    check_the_upload(store)


def test_a_table_that_somebody_reads_is_emptied_the_next_time(
    store: Database, clock: ManualClock
) -> None:
    """As `pg_dump` reads all tables for as long as it runs."""
    make_unused(store, clock)
    has_looked, may_end = threading.Event(), threading.Event()

    def read(tx: Transaction) -> None:
        tx.connection.execute(tables.report_bodies[0].select())
        has_looked.set()
        assert may_end.wait(PATIENCE_SECONDS)

    reader = threading.Thread(target=store.read_sync, args=("read", read))
    reader.start()
    assert has_looked.wait(PATIENCE_SECONDS)
    assert (turn(store), bodies_left(store)) == (0, 1)
    may_end.set()
    reader.join()
    assert (turn(store), bodies_left(store)) == (1, 0)


@pytest.mark.parametrize(("size", "most"), [(1500, 2 * 1500), (5480, 1.5 * 5480)])
def test_the_log_of_the_server_has_a_body_once(
    store: Database, clock: ManualClock, size: int, most: float
) -> None:
    """A value of 1,500 bytes lies in its row, and is copied when that changes; 5,480 are not."""
    count = 1000

    def position(tx: Transaction) -> int:
        query = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
        return int(tx.connection.exec_driver_sql(query).scalar_one())

    ids = [report_id(each) for each in range(count)]
    sent = [StoredReport(each, unit(5), 0, each + os.urandom(size - len(each))) for each in ids]
    before = store.run_sync("position", position)
    store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, sent, MAX_REPORTS))
    uploaded = store.run_sync("position", position)
    job = create_job(store, count, stored_bytes=count * size)
    assert job is not None
    assert store.run_sync("drop", lambda tx: drop_reports(tx, TASK_ID, job.key)) == count
    rotate_all(store, clock)
    after = store.run_sync("position", position)
    assert bodies_left(store) == 0
    assert after - before < most * count, (after - before) / count
    assert after - uploaded < 0.5 * size * count, (after - uploaded) / count


def test_bodies_come_as_bytes_and_not_as_the_digits_that_the_driver_asks_for(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    formats: Counter[int] = Counter()
    real = Cursor.execute

    def execute(cursor: Cursor[Any], statement: str, values: object = None) -> Cursor[Any]:
        if "FROM report_bodies" in statement:
            formats[int(cursor.format)] += 1
        return real(cursor, statement, values)  # type: ignore[arg-type]  # as it was given

    upload(store, [100])
    monkeypatch.setattr(Cursor, "execute", execute)
    check_the_upload(store)
    assert set(formats) == {1}


def test_the_server_leaves_cleaning_of_bodies_to_the_service(store: Database) -> None:
    """Else it would read and write what is truncated soon, and hold that up meanwhile."""

    def options(tx: Transaction) -> list[tuple[str, list[str], list[str]]]:
        query = (
            "SELECT bodies.relname, bodies.reloptions, large.reloptions FROM pg_class AS bodies "
            "JOIN pg_class AS large ON large.oid = bodies.reltoastrelid "
            "WHERE bodies.relname LIKE 'report_bodies_%%' AND bodies.relkind = 'r'"
        )
        return [tuple(row) for row in tx.connection.exec_driver_sql(query)]

    off = ["autovacuum_enabled=false"]
    expected = [(table.name, off, off) for table in tables.report_bodies]
    assert sorted(store.read_sync("options", options)) == expected
