import shutil
import stat
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from aggregator.errors import ConfigurationError, ParameterError, StoreError
from aggregator.storage import schema
from aggregator.storage.crypter import Crypter
from aggregator.storage.database import Database
from aggregator.storage.engine import backend
from aggregator.storage.schema import SchemaMismatch, downgrade, make, upgrade
from aggregator.storage.tables import metadata, uint64
from tests.support.commands import run_here
from tests.support.store import STORE_KEY, store_url


def test_the_revisions_make_the_tables_that_the_code_describes(tmp_path: Path) -> None:
    make(store_url(tmp_path))
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
    make(url)
    downgrade(url, "base")
    made = backend(url).engine()
    with made.connect() as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]
    made.dispose()
    make(url)
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
    make(url)
    wanted = stamp(url, "9999")
    make(url)  # there is a store: of which version is for the others to say
    for use in (lambda url: Database.open(url, Crypter([STORE_KEY])), upgrade):
        with pytest.raises(SchemaMismatch, match=f"9999.*{wanted}.*newer program") as no:
            use(url)
        assert "\n" not in str(no.value)


def test_a_store_of_an_older_program_is_upgraded_by_the_command_and_by_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "helper.toml"
    config.write_text('role = "helper"\ndatabase = "store.sqlite"\nstore_key_file = "store.key"\n')
    assert run_here("hpke", "new", "--config", config).returncode == 0
    before = version(store_url(tmp_path))
    migrations = tmp_path / "migrations"
    shutil.copytree(Path(schema.__file__).parent / "migrations", migrations)
    (migrations / "versions" / "revision_9000_later.py").write_text(
        f'revision, down_revision = "9000", "{before}"\n\ndef upgrade():\n    pass\n'
    )
    monkeypatch.setattr(schema, "_SCRIPTS", str(migrations))
    for command in (("task", "list"), ("ledger",), ("hpke", "new"), ("helper", "serve")):
        done = run_here(*command, "--config", config)
        assert done.returncode == 2
        assert "prio store upgrade" in done.stderr
        assert done.stderr.count("\n") == 1
        assert version(store_url(tmp_path)) == before
    done = run_here("store", "upgrade", "--config", config)
    assert done.stdout == f"{tmp_path}/store.sqlite: schema {before}, now 9000\n"
    assert version(store_url(tmp_path)) == "9000"
    assert run_here("task", "list", "--config", config).returncode == 0
    assert run_here("store", "upgrade", "--config", config).stdout.endswith("schema 9000\n")


def test_there_is_nothing_to_upgrade_without_a_store(tmp_path: Path) -> None:
    config = tmp_path / "helper.toml"
    config.write_text('role = "helper"\ndatabase = "store.sqlite"\nstore_key_file = "store.key"\n')
    done = run_here("store", "upgrade", "--config", config)
    assert (done.returncode, "there is no store" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == [config]


def test_a_missing_store_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match="none"):
        Database.open(store_url(tmp_path), Crypter([STORE_KEY]))
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    make(store_url(tmp_path / "new" / "folder"))
    (file,) = (tmp_path / "new" / "folder").glob("*.sqlite")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_several_processes_may_make_a_store_at_once(tmp_path: Path) -> None:
    url = store_url(tmp_path)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            make(url)
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
        make(url)


def test_an_unreadable_url_is_refused_without_being_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        make("hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/store\.sqlite"):
        make(store_url(tmp_path / "file"))


def test_a_number_that_is_not_a_uint64_is_refused() -> None:
    assert uint64(2**64 - 1) == b"\xff" * 8
    for wrong in (-1, 2**64):
        with pytest.raises(ParameterError, match=str(wrong)):
            uint64(wrong)


def test_a_file_that_is_no_store_or_is_damaged_is_refused_in_one_line(tmp_path: Path) -> None:
    config = tmp_path / "helper.toml"
    config.write_text('role = "helper"\ndatabase = "store.sqlite"\nstore_key_file = "store.key"\n')
    make(store_url(tmp_path))
    (tmp_path / "store.key").write_text("A" * 43)
    (tmp_path / "store.key").chmod(0o600)
    with (tmp_path / "store.sqlite").open("r+b") as file:
        file.write(b"not a database. " * 100)
    done = run_here("task", "list", "--config", config)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "store.sqlite is damaged" in done.stderr
    assert "sqlalche" not in done.stderr


def version(url: str) -> str:
    """Return the version of a store's schema."""
    made = backend(url).engine(readers=1)
    with made.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    made.dispose()
    assert found is not None
    return found


def stamp(url: str, other: str) -> str:
    """Write another version into a store; return which it was."""
    before = version(url)
    made = backend(url).engine()
    with made.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = ?", (other,))
    made.dispose()
    return before
