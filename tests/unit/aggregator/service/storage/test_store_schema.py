import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from aggregator.dap.report_errors import ReportError
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.service.storage.engine import schema, tables
from aggregator.service.storage.engine.backends import Busy
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.schema import SchemaMismatch, make, upgrade
from aggregator.service.storage.engine.tables import metadata, uint64
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.ids import admit
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.tasks import put_task
from tests.support.empty_store import (
    LATER,
    add_a_later_revision,
    new_place,
    really_migrated,
    version,
)
from tests.support.engines import ON_POSTGRESQL, engine_of
from tests.support.racers import run_at_once
from tests.support.store import STORE_KEY, TASK_ID, leader_task, report_id, stored_in, unit

_OF_IDS = ("aggregated_reports", "bound_reports", "report_ids")


@pytest.fixture(autouse=True)
def _no_store_is_a_copy() -> Iterator[None]:
    with really_migrated():
        yield


def test_the_revisions_make_the_tables_that_the_code_describes(tmp_path: Path) -> None:
    url = new_place(stored_in(tmp_path))
    make(url)
    with engine_of(url) as made, made.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        missing = [(kind, key.name) for kind, key in compare_metadata(context, metadata)]
        # Of these rows a lock takes the place of the key.
        of_tasks = [f"fk_{table}_task" for table in _OF_IDS]
        of_domains = [f"fk_{table}_domain" for table in ("permits", "spent_permits")]
        is_postgresql = connection.dialect.name == "postgresql"
        no_keys = sorted([*of_tasks, *of_domains]) if is_postgresql else []
        assert sorted(missing) == [("add_fk", name) for name in no_keys]
        described = {table.name: set(table.columns.keys()) for table in metadata.sorted_tables}
        found = {
            name: {column["name"] for column in inspect(connection).get_columns(name)}
            for name in inspect(connection).get_table_names()
        }
    assert found == described | {"alembic_version": {"version_num"}}


def test_every_column_is_explained() -> None:
    silent = [
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if not column.comment
    ]
    assert silent == []


def test_a_store_of_another_version_is_refused_and_both_versions_named(tmp_path: Path) -> None:
    url = new_place(stored_in(tmp_path))
    make(url)
    wanted = stamp(url, "9999")
    make(url)  # there is a store: of which version is for the others to say
    for use in (lambda url: Database.open(url, Crypter([STORE_KEY])), upgrade):
        with pytest.raises(SchemaMismatch, match=f"9999.*{wanted}.*newer program") as no:
            use(url)
        assert "\n" not in str(no.value)


@pytest.mark.parametrize("revision", ["0009", "0012"])
def test_a_store_that_no_release_has_made_is_refused_with_what_to_do(
    tmp_path: Path, revision: str
) -> None:
    url = new_place(stored_in(tmp_path))
    make(url)
    wanted = stamp(url, revision)
    said = f"{revision}, .* needs {wanted}: no release has made it, .* begin a new store"
    for use in (lambda url: Database.open(url, Crypter([STORE_KEY])), upgrade):
        with pytest.raises(SchemaMismatch, match=said):
            use(url)
    assert version(url) == revision


def test_a_store_keeps_what_is_in_it_when_it_is_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_place(stored_in(tmp_path))
    make(url)
    first = version(url)
    arrivals = [(report_id(number), unit(5)) for number in range(3)]

    def admitted(tx: Transaction) -> list[ReportError | None]:
        return [
            error
            for table in (tables.report_ids, tables.aggregated_reports)
            for error in admit(tx, table, TASK_ID, arrivals, [0] * 3, (), {})
        ]

    with closing(Database.open(url, Crypter([STORE_KEY]))) as store:
        store.run_sync("task", lambda tx: put_task(tx, leader_task()))
        assert store.run_sync("new", admitted) == [None] * 6
    add_a_later_revision(tmp_path, monkeypatch)
    with pytest.raises(SchemaMismatch, match=rf"{first}.*prio store upgrade"):
        Database.open(url, Crypter([STORE_KEY]))
    assert upgrade(url) == (first, "9000")
    with closing(Database.open(url, Crypter([STORE_KEY]))) as store:
        assert None not in store.run_sync("again", admitted)


def test_an_upgrade_that_dies_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_place(stored_in(tmp_path))
    make(url)
    first = version(url)
    add_a_later_revision(tmp_path, monkeypatch, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        upgrade(url)
    assert version(url) == first
    assert not has_later(url)
    later = tmp_path / "migrations" / "versions" / LATER
    later.write_text(later.read_text().replace("raise KeyboardInterrupt", "pass"))
    assert upgrade(url) == (first, "9000")
    assert has_later(url)


def has_later(url: str) -> bool:
    """Return whether a store has the table of the later revision."""
    with engine_of(url, readers=1) as made, made.connect() as connection:
        return inspect(connection).has_table("later")


@ON_POSTGRESQL
def test_a_server_does_not_vacuum_bodies_and_says_what_columns_mean(tmp_path: Path) -> None:
    url = new_place(stored_in(tmp_path))
    make(url)
    query = (
        "SELECT main.relname FROM pg_class main "
        "JOIN pg_class toast ON toast.oid = main.reltoastrelid "
        "WHERE main.reloptions = '{autovacuum_enabled=false}' "
        "AND toast.reloptions = '{autovacuum_enabled=false}'"
    )
    with engine_of(url, readers=1) as made, made.connect() as connection:
        found = set(connection.exec_driver_sql(query).scalars())
        silent = [
            f"{table}.{column['name']}"
            for table in metadata.tables
            for column in inspect(connection).get_columns(table)
            if not column["comment"]
        ]
    assert found == {table.name for table in tables.report_bodies}
    assert silent == []


@ON_POSTGRESQL
def test_a_server_does_not_try_to_compress_ciphertext(tmp_path: Path) -> None:
    url = new_place(stored_in(tmp_path))
    make(url)
    query = (
        "SELECT attrelid::regclass::text || '.' || attname FROM pg_attribute "
        "JOIN pg_class ON pg_class.oid = attrelid AND relkind = 'r' "
        "WHERE attstorage = 'e' AND attnum > 0 AND relnamespace = 'public'::regnamespace"
    )
    with engine_of(url, readers=1) as made, made.connect() as connection:
        found = set(connection.exec_driver_sql(query).scalars())
    assert found == {
        *(f"{table.name}.body" for table in tables.report_bodies),
        "aggregation_jobs.request",
        "answered_jobs.response",
        "bucket_shares.share",
        "deferred_jobs.request",
    }


def test_a_missing_store_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match="none"):
        Database.open(new_place(stored_in(tmp_path)), Crypter([STORE_KEY]))
    assert list(tmp_path.iterdir()) == []


def test_several_processes_may_make_a_store_at_once(tmp_path: Path) -> None:
    url = new_place(stored_in(tmp_path))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            make(url)
        except BaseException as error:  # noqa: BLE001  whatever it is, the test shows it
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    run_at_once(threads)
    assert failures == []
    Database.open(url, Crypter([STORE_KEY])).close()


def test_a_process_that_finds_another_at_work_on_a_new_store_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = [Busy("the database is busy")]
    look = schema._version

    def busy_at_first(url: str) -> str | None:
        if waits:
            raise waits.pop()
        return look(url)

    monkeypatch.setattr(schema, "_version", busy_at_first)
    url = new_place(stored_in(tmp_path))
    make(url)
    Database.open(url, Crypter([STORE_KEY])).close()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://host/db", "SQLite file.* or a PostgreSQL database"),
        ("postgresql+asyncpg://host/db", "SQLite file.* or a PostgreSQL database"),
        ("postgresql://host", "a database of the server"),
        ("sqlite://", "a file that lasts"),
        ("sqlite:///:memory:", "a file that lasts"),
        ("sqlite:////var/lib/prio/leader.sqlite?mode=ro", "takes no options"),
    ],
)
def test_other_urls_are_refused(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        make(url)


def test_an_unreadable_url_is_refused_without_being_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        make("hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_number_that_is_not_a_uint64_is_refused() -> None:
    assert uint64(2**64 - 1) == b"\xff" * 8
    for wrong in (-1, 2**64):
        with pytest.raises(ParameterError, match=str(wrong)):
            uint64(wrong)


def stamp(url: str, other: str) -> str:
    """Write another version into a store; return which it was."""
    before = version(url)
    with engine_of(url) as made, made.begin() as connection:
        connection.execute(
            text("UPDATE alembic_version SET version_num = :other"), {"other": other}
        )
    return before


def test_an_index_of_some_rows_is_one_on_either_engine(tmp_path: Path) -> None:
    """The description names the condition for SQLite only, and Alembic compares no conditions."""
    url = new_place(stored_in(tmp_path))
    make(url)
    with engine_of(url) as made, made.connect() as connection:
        inspector = inspect(connection)
        found = {
            index["name"]
            for table in metadata.tables
            for index in inspector.get_indexes(table)
            if index.get("dialect_options", {}).get(f"{connection.dialect.name}_where") is not None
        }
    described = {
        index.name
        for table in metadata.tables.values()
        for index in table.indexes
        if index.dialect_options["sqlite"]["where"] is not None
    }
    assert len(described) > 2
    assert found == described
