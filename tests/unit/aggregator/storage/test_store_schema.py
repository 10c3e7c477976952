import stat
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from aggregator.errors import ConfigurationError, ParameterError, StoreError
from aggregator.storage.crypter import Crypter
from aggregator.storage.database import Database
from aggregator.storage.engine import backend
from aggregator.storage.schema import SchemaMismatch, downgrade, upgrade
from aggregator.storage.tables import metadata, uint64
from tests.support.store import STORE_KEY, store_url


def test_the_revisions_make_the_tables_that_the_code_describes(tmp_path: Path) -> None:
    upgrade(store_url(tmp_path))
    made = backend(store_url(tmp_path)).engine()
    with made.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        described = {table.name: set(table.columns.keys()) for table in metadata.sorted_tables}
        found = {
            name: {column["name"] for column in inspect(connection).get_columns(name)}
            for name in inspect(connection).get_table_names()
        }
    made.dispose()
    assert found == described | {"alembic_version": {"version_num"}}


def test_the_revisions_go_down_to_nothing_and_up_again(tmp_path: Path) -> None:
    url = store_url(tmp_path)
    upgrade(url)
    downgrade(url, "base")
    made = backend(url).engine()
    with made.connect() as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]
    made.dispose()
    upgrade(url)
    Database.open(url, Crypter([STORE_KEY])).close()


def test_every_column_is_explained() -> None:
    silent = [
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if not column.comment
    ]
    assert silent == []


def test_a_store_of_another_version_is_refused_and_both_versions_named(tmp_path: Path) -> None:
    url = store_url(tmp_path)
    upgrade(url)
    made = backend(url).engine()
    with made.begin() as connection:
        wanted = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    made.dispose()
    with pytest.raises(SchemaMismatch, match=f"9999.*{wanted}"):
        Database.open(url, Crypter([STORE_KEY]))
    with pytest.raises(SchemaMismatch, match=f"9999.*{wanted}"):
        upgrade(url)


def test_a_missing_store_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match="none"):
        Database.open(store_url(tmp_path), Crypter([STORE_KEY]))
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    upgrade(store_url(tmp_path / "new" / "folder"))
    (file,) = (tmp_path / "new" / "folder").glob("*.sqlite")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_several_processes_may_upgrade_at_once(tmp_path: Path) -> None:
    url = store_url(tmp_path)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            upgrade(url)
        except BaseException as error:  # noqa: BLE001  whatever it is, the test shows it
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    Database.open(url, Crypter([STORE_KEY])).close()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://host/db", "SQLite file"),
        ("sqlite://", "a file that lasts"),
        ("sqlite:///:memory:", "a file that lasts"),
        ("sqlite:////var/lib/prio/leader.sqlite?mode=ro", "takes no options"),
    ],
)
def test_only_sqlite_files_are_stores(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        upgrade(url)


def test_an_unreadable_url_is_refused_without_being_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        upgrade("hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/store\.sqlite"):
        upgrade(store_url(tmp_path / "file"))


def test_a_number_that_is_not_a_uint64_is_refused() -> None:
    assert uint64(2**64 - 1) == b"\xff" * 8
    for wrong in (-1, 2**64):
        with pytest.raises(ParameterError, match=str(wrong)):
            uint64(wrong)


def test_a_store_of_a_newer_program_is_refused_in_one_line(tmp_path: Path) -> None:
    upgrade(store_url(tmp_path))
    made = backend(store_url(tmp_path)).engine()
    with made.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    made.dispose()
    with pytest.raises(SchemaMismatch, match=r"schema is at version 9999.*newer") as no:
        upgrade(store_url(tmp_path))
    assert "\n" not in str(no.value)
