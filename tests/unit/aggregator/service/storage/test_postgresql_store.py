"""What holds of stores on a PostgreSQL server only."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import URL, Engine, StaticPool, create_engine, func, select

from aggregator.entropy import SystemEntropy
from aggregator.errors import ConfigurationError, StoreError
from aggregator.service.config import HelperSettings
from aggregator.service.storage.batches.closed import closed_batches, freeze
from aggregator.service.storage.engine import postgresql
from aggregator.service.storage.engine.backends import (
    Backend,
    Busy,
    Conflict,
    Disconnected,
    Unreachable,
    backend,
    translated,
)
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.locks import change_batches, keep_batches
from aggregator.service.storage.engine.schema import check, make
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.journal import Owner
from aggregator.service.storage.ledger.journal_table import JournalTable
from aggregator.service.storage.opening import open_database
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.tasks import end_task, list_tasks
from tests.support.empty_store import SERVER, new_place
from tests.support.engines import ON_POSTGRESQL, engine_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.postgresql import execute
from tests.support.store import (
    STORE_KEY,
    TASK_ID,
    make_store,
    store_url,
    stored,
    stored_in,
    units,
    upload,
)

pytestmark = ON_POSTGRESQL

KILL = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
RAISE = "RAISE EXCEPTION USING ERRCODE = '{}';"
ATTEMPTS = 6
"""How often a transaction is run at most."""


def refuse_reports(tx: Transaction, failures: int, code: str, moment: str) -> None:
    """Let the server refuse this many transactions that store reports, and then no more."""
    tx.connection.exec_driver_sql("CREATE SEQUENCE refusals")  # a rollback does not put it back
    tx.connection.exec_driver_sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF nextval('refusals') <= {failures} THEN {RAISE.format(code)} END IF; "
        "RETURN NULL; END $$"
    )
    timing = "DEFERRABLE INITIALLY DEFERRED" if moment == "at the commit" else ""
    tx.connection.exec_driver_sql(
        f"CREATE CONSTRAINT TRIGGER refusal AFTER INSERT ON report_groups {timing} "
        "FOR EACH ROW EXECUTE FUNCTION refuse()"
    )


@contextmanager
def held(path: Path, lock: Callable[[Transaction, bytes], None]) -> Iterator[None]:
    """Hold a lock of the store in a transaction of another connection."""
    url = backend(store_url(path))
    with engine_of(store_url(path)) as other, other.begin() as connection:
        lock(
            Transaction(
                connection,
                url,
                Crypter([STORE_KEY]),
                SystemEntropy(),
                url.bucket_keys().within(connection),
                is_writing=True,
                now=0,
            ),
            TASK_ID,
        )
        yield


def test_a_lock_that_is_held_too_long_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "LOCK_TIMEOUT_SECONDS", 0.05)
    store = make_store(tmp_path)
    with held(tmp_path, change_batches), pytest.raises(Busy, match="'upload'"):
        upload(store, range(3))
    upload(store, range(3))
    assert stored(store) == 3
    store.close()


def test_uploads_do_not_wait_for_each_other_to_keep_a_batch(
    store: Database, tmp_path: Path
) -> None:
    with held(tmp_path, keep_batches):
        upload(store, range(3))
    assert stored(store) == 3


@pytest.mark.parametrize("code", ["serialization_failure", "deadlock_detected"])
@pytest.mark.parametrize("moment", ["in a statement", "at the commit"])
@pytest.mark.parametrize("failures", [2, ATTEMPTS - 1, ATTEMPTS])
def test_a_transaction_that_the_server_refuses_is_run_again_six_times_at_most(
    tmp_path: Path, code: str, moment: str, failures: int
) -> None:
    attempts: list[str] = []
    store = make_store(
        tmp_path,
        on_transaction=lambda name, moment: attempts.append(name) if moment == "begin" else None,
    )
    store.run_sync("plant", lambda tx: refuse_reports(tx, failures, code, moment))
    attempts.clear()
    if failures < ATTEMPTS:
        upload(store, range(3))
        assert attempts == ["upload"] * (failures + 1)
        assert stored(store) == 3
    else:
        with pytest.raises(Busy, match="'upload'"):
            upload(store, range(3))
        assert attempts == ["upload"] * ATTEMPTS
        assert stored(store) == 0
    store.close()


@pytest.mark.parametrize("failures", [2, ATTEMPTS])
def test_a_read_that_the_server_refuses_is_run_again_six_times_at_most(
    store: Database, failures: int
) -> None:
    """As a standby does whose primary removes what the snapshot still needs."""
    attempts = 0
    refusal = f"DO $$ BEGIN {RAISE.format('serialization_failure')} END $$"

    def work(tx: Transaction) -> int:
        nonlocal attempts
        attempts += 1
        if attempts <= failures:
            tx.connection.exec_driver_sql(refusal)
        return attempts

    if failures < ATTEMPTS:
        assert store.read_sync("look", work) == failures + 1
    else:
        with pytest.raises(Busy, match="'look'"):
            store.read_sync("look", work)
        assert attempts == ATTEMPTS


@pytest.mark.parametrize("conflicts", [2, ATTEMPTS])
def test_a_transaction_that_always_conflicts_is_run_six_times_at_most(
    store: Database, tmp_path: Path, conflicts: int
) -> None:
    attempts = 0

    def work(tx: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        tx.connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        freeze(tx, TASK_ID, units(0, 10))
        if attempts <= conflicts:
            with other.begin() as connection:
                connection.exec_driver_sql("UPDATE tasks SET ended_at = NULL")
        end_task(tx, TASK_ID)

    with engine_of(store_url(tmp_path)) as other:
        if conflicts < ATTEMPTS:
            store.run_sync("end", work)
            assert attempts == conflicts + 1
        else:
            with pytest.raises(Busy, match="'end'"):
                store.run_sync("end", work)
            assert attempts == ATTEMPTS
    closed = store.read_sync("look", lambda tx: closed_batches(tx, TASK_ID, units(0, 10)))
    assert bool(closed.firsts) == (conflicts < ATTEMPTS)


def test_a_connection_that_the_server_closed_is_replaced(store: Database) -> None:
    upload(store, range(3))
    execute(server(), KILL)
    upload(store, range(3, 6))
    assert stored(store) == 6


BREAK = select(func.pg_terminate_backend(func.pg_backend_pid()).label("is_broken"))
BREAKING: list[Callable[[Transaction], object]] = [
    lambda tx: tx.connection.execute(BREAK),
    lambda tx: tx.run(BREAK),
]


@pytest.mark.parametrize("break_", BREAKING, ids=["sqlalchemy", "driver"])
def test_a_transaction_whose_connection_broke_is_run_again_a_few_times(
    store: Database, break_: Callable[[Transaction], object]
) -> None:
    attempts = 0

    def work(tx: Transaction, broken: int) -> None:
        nonlocal attempts
        attempts += 1
        end_task(tx, TASK_ID)
        if attempts <= broken:
            break_(tx)

    store.run_sync("end", lambda tx: work(tx, 2))
    assert attempts == 3
    attempts = 0
    with pytest.raises(Disconnected, match=r"'end': .* cannot be reached"):
        store.run_sync("end", lambda tx: work(tx, 100))
    assert attempts == 6


def test_a_transaction_whose_connection_broke_at_the_commit_is_not_run_again(
    tmp_path: Path,
) -> None:
    attempts: list[str] = []

    def kill_before_commit(name: str, moment: str) -> None:
        if (name, moment) == ("upload", "before commit"):
            attempts.append(name)
            execute(server(), KILL)

    store = make_store(tmp_path, on_transaction=kill_before_commit)
    with pytest.raises(Unreachable) as caught:
        upload(store, range(3))
    assert not isinstance(caught.value, Disconnected)
    assert len(attempts) == 1
    store.close()


def test_errors_do_not_quote_the_row(store: Database) -> None:
    with pytest.raises(Conflict) as caught:
        store.run_sync(
            "broken",
            lambda tx: tx.connection.exec_driver_sql(
                "INSERT INTO hpke_keys VALUES (1, NULL, 'secret key', 0)"
            ),
        )
    assert "null value" in str(caught.value)
    assert "secret key" not in str(caught.value)


def test_the_store_is_named_without_user_and_password() -> None:
    place = backend("postgresql://user:hunter2@db.example:5433/leader")
    assert place.name == "db.example/leader"
    several = backend("postgresql://user:hunter2@/leader?host=a:5432&host=b:5432")
    assert several.name == "a:5432,b:5432/leader"


def test_a_server_that_is_not_there_is_named_in_one_line(tmp_path: Path) -> None:
    url = f"postgresql://postgres:hunter2@/leader?host={tmp_path}"
    with pytest.raises(Unreachable) as caught:
        Database.open(url, Crypter([STORE_KEY]))
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_key_of_a_store_on_a_server_must_be_named(tmp_path: Path) -> None:
    url = new_place(stored_in(tmp_path))
    with pytest.raises(ConfigurationError, match="store_key_file: names no file"):
        open_database(HelperSettings(database=url))
    settings = HelperSettings(database=url, store_key_file=tmp_path / "key")
    for _ in range(2):
        opened = open_database(settings)
        assert opened.read_sync("list", list_tasks) == []
        opened.close()
    (tmp_path / "key").unlink()
    with pytest.raises(ConfigurationError, match=r"exists and its key .* does not"):
        open_database(settings)


def test_commits_wait_for_the_disk_even_if_the_server_is_set_not_to(
    store: Database, tmp_path: Path
) -> None:
    def setting(tx: Transaction) -> str:
        found = tx.connection.exec_driver_sql("SHOW synchronous_commit")
        return str(found.scalar_one())

    assert store.run_sync("show", setting) == "on"
    url = store_url(tmp_path)
    name = url.split("@/")[1].split("?")[0]
    for set_to, is_then in (("off", "on"), ("remote_apply", "remote_apply")):
        execute(server(), f"ALTER DATABASE {name} SET synchronous_commit = {set_to}")
        other = Database.open(url, Crypter([STORE_KEY]))
        assert other.run_sync("show", setting) == is_then
        other.close()


def server() -> str:
    return os.environ[SERVER]


def test_a_process_waits_for_another_that_makes_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "LOCK_TIMEOUT_SECONDS", 0.05)
    url = new_place(stored_in(tmp_path))
    with (
        engine_of(url) as other,
        ThreadPoolExecutor(1) as threads,
        other.begin() as connection,
    ):
        backend(url).lock(connection, {b"schema"}, shared=False)
        making = threads.submit(make, url)
        time.sleep(0.2)  # several times as long as it waits for the lock
        assert not making.done()
        connection.rollback()
        making.result(PATIENCE_SECONDS)
    check(url)


@pytest.mark.parametrize("function", ["pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"])
def test_a_server_whose_locks_lock_nothing_is_refused_at_opening(
    tmp_path: Path, function: str
) -> None:
    url, schema = new_place(tmp_path), f"pretends_{function}"
    settings = HelperSettings(database=url, store_key_file=tmp_path / "key")
    open_database(settings).close()
    # As engines do that take PostgreSQL's functions and do nothing.
    with engine_of(url) as engine, engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
        connection.exec_driver_sql(
            f"CREATE FUNCTION {schema}.{function}(bigint) RETURNS void LANGUAGE sql AS 'SELECT'"
        )
    pretending = f"{url}&options=-csearch_path%3D{schema},pg_catalog,public"
    with pytest.raises(ConfigurationError, match="two connections hold one advisory lock"):
        open_database(settings.model_copy(update={"database": pretending}))


def test_a_pooler_that_gives_several_connections_one_session_is_refused_at_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_place(tmp_path)
    settings = HelperSettings(database=url, store_key_file=tmp_path / "key")
    open_database(settings).close()
    refused = r"another one finds.*pool_mode = session"

    def with_one_session(url: URL, *, isolation_level: str, **_: object) -> Engine:
        return create_engine(url, poolclass=StaticPool, isolation_level=isolation_level)

    monkeypatch.setattr(sqlalchemy, "create_engine", with_one_session)
    with pytest.raises(ConfigurationError, match=f"database: .*{refused}"):
        open_database(settings)
    # Nor is a journal kept there, whose commits have to survive a power cut.
    with pytest.raises(ConfigurationError, match=f"release_journal: .*{refused}"):
        JournalTable(url).create(Owner("leader", 2))


def test_statements_that_another_connection_has_prepared_are_a_poolers(tmp_path: Path) -> None:
    place = backend(new_place(tmp_path))
    for statement in ("PREPARE ours AS SELECT 1; PREPARE ours AS SELECT 1", "EXECUTE ours"):
        with pytest.raises(StoreError, match=r"'look'.*pool_mode = session"):
            _run(place, "look", statement)


def _run(place: Backend, name: str, statement: str) -> None:
    engine = place.engine()
    try:
        with translated(place, name), engine.begin() as connection:
            connection.exec_driver_sql(statement)
    finally:
        engine.dispose()
