"""What holds of stores in SQLite's files only: the files, the log and the lock of one writer."""

import itertools
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.errors import ConfigurationError, StoreError
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.batches.leftovers import delete_some_leftovers
from aggregator.service.storage.engine import sqlite
from aggregator.service.storage.engine.backends import Busy, Unreachable, backend
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.schema import make
from aggregator.service.storage.engine.tables import bucket_keys, bucket_shares
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import Crypter
from tests.support.commands import run_here, service_text
from tests.support.empty_store import add_a_later_revision, version
from tests.support.engines import ON_SQLITE, engine_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.store import (
    STORE_KEY,
    TASK_ID,
    add_to_bucket,
    make_store,
    report_id,
    store_url,
    stored,
    totals,
    unit,
    units,
    upload,
)

pytestmark = ON_SQLITE


class Crash(BaseException):
    """The process is gone."""


@pytest.mark.slow
def test_a_store_of_an_older_program_is_upgraded_by_the_command_and_by_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "helper.toml"
    config.write_text(service_text("helper", "store"))
    assert run_here("hpke", "new", "--config", config).returncode == 0
    before = version(store_url(tmp_path))
    add_a_later_revision(tmp_path, monkeypatch)
    for command in (
        ("task", "list"),
        ("ledger",),
        ("hpke", "new"),
        ("helper", "serve", "--processes=1"),
    ):
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


@pytest.mark.slow
def test_an_older_program_leaves_an_upgraded_store_alone_and_goes_on_from_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/operations/upgrade.md says of going back."""
    config = tmp_path / "helper.toml"
    config.write_text(service_text("helper", "store"))
    assert run_here("hpke", "new", "--config", config).returncode == 0
    before = run_here("hpke", "list", "--config", config).stdout
    backup = tmp_path / "before.backup"
    assert run_here("backup", "--config", config, backup).returncode == 0
    with monkeypatch.context() as newer:
        add_a_later_revision(tmp_path, newer)
        assert run_here("store", "upgrade", "--config", config).returncode == 0
        assert run_here("hpke", "new", "--config", config).returncode == 0
    store = tmp_path / "store.sqlite"
    for command in (
        ("hpke", "list"),
        ("hpke", "new"),
        ("store", "upgrade"),
        ("helper", "serve", "--processes=1"),
    ):
        done = run_here(*command, "--config", config)
        assert done.returncode == 2
        assert "it is of a newer program" in done.stderr
        assert done.stderr.count("\n") == 1
        assert version(store_url(tmp_path)) == "9000"
    for leftover in tmp_path.glob("store.sqlite-*"):
        leftover.unlink()
    shutil.copy(backup, store)
    assert run_here("hpke", "list", "--config", config).stdout == before


@pytest.mark.parametrize("in_its_place", ["nothing", "an older copy"])
def test_nothing_is_written_to_a_file_that_was_moved_while_it_was_in_use(
    tmp_path: Path, in_its_place: str
) -> None:
    """It would be lost for the next that opens the store, and a second file would share its log."""
    store = make_store(tmp_path)
    file, away = tmp_path / "store.sqlite", tmp_path / "away.sqlite"
    upload(store, range(2))
    copy = tmp_path / "copy.sqlite"
    shutil.copy(file, copy)
    file.rename(away)
    if in_its_place == "an older copy":
        copy.rename(file)
    for _ in range(2):
        with pytest.raises(Unreachable, match="moved, removed or replaced while it was in use"):
            upload(store, range(2, 4))
        with pytest.raises(Unreachable):
            stored(store)
    assert file.exists() == (in_its_place == "an older copy")
    away.rename(file)
    upload(store, range(4, 5))
    assert stored(store) == 3
    store.close()


def test_there_is_nothing_to_upgrade_without_a_store(tmp_path: Path) -> None:
    config = tmp_path / "helper.toml"
    config.write_text(service_text("helper", "store"))
    done = run_here("store", "upgrade", "--config", config)
    assert (done.returncode, "there is no store" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == [config]


def test_a_commit_survives_a_power_cut_and_what_is_deleted_is_overwritten(tmp_path: Path) -> None:
    url = store_url(tmp_path)
    make(url)
    with engine_of(url) as made, made.connect() as connection:
        settings = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "secure_delete")
        ]
    assert settings == ["wal", 2, 1]  # 2 is FULL


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    make(store_url(tmp_path / "new" / "folder"))
    (file,) = (tmp_path / "new" / "folder").glob("*.sqlite")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/store\.sqlite"):
        make(store_url(tmp_path / "file"))


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_folder_in_the_place_of_one_of_its_files_is_named(tmp_path: Path, suffix: str) -> None:
    make_store(tmp_path).close()
    path = tmp_path / f"store.sqlite{suffix}"
    path.unlink(missing_ok=True)
    path.mkdir()
    place = backend(store_url(tmp_path))
    for use in (place.exists, lambda: place.back_up(tmp_path / "backup")):
        with pytest.raises(ConfigurationError, match=rf"^database: {path}: is a directory"):
            use()


def test_a_file_that_is_no_store_or_is_damaged_is_refused_in_one_line(tmp_path: Path) -> None:
    config = tmp_path / "helper.toml"
    config.write_text(service_text("helper", "store"))
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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Database]:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_SECONDS", 0.05)
    store = make_store(tmp_path)
    yield store
    store.close()


def test_another_process_that_holds_the_database_too_long_is_reported(
    impatient: Database, tmp_path: Path
) -> None:
    other = sqlite3.connect(store_url(tmp_path).removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy, match="'upload'"):
        upload(impatient, range(1))
    other.execute("ROLLBACK")
    other.close()
    upload(impatient, range(1))


def test_another_process_that_lets_go_is_waited_for(
    impatient: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_url(tmp_path).removeprefix("sqlite:///")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    transact, in_vain = impatient._transact, list[Busy]()

    def let_go_after_a_while(engine: Any, name: str, work: Any) -> Any:  # noqa: ANN401  passed on
        try:
            return transact(engine, name, work)
        except Busy as error:
            in_vain.append(error)
            if len(in_vain) == 2:
                other.execute("ROLLBACK")
            raise

    monkeypatch.setattr(impatient, "_transact", let_go_after_a_while)
    upload(impatient, range(1))
    other.close()
    assert len(in_vain) == 2
    assert stored(impatient) == 1


@pytest.mark.parametrize("size", [16, 100_000])
def test_a_destroyed_secret_is_in_no_file_of_the_store(tmp_path: Path, size: int) -> None:
    """The key goes at once, and the share with it; its ciphertext is deleted afterwards."""
    store = make_store(tmp_path)
    key, share = store.run_sync("share", lambda tx: _put_share(tx, size))
    assert _traces({*key, *share}, tmp_path, expected={*key, *share}) == {*key, *share}
    store.run_sync("destroy", lambda tx: mark_collected(tx, TASK_ID, units(0, 10)))
    assert _traces(key, tmp_path, expected=set()) == set()
    store.run_sync("delete", delete_some_leftovers)
    assert _traces(share, tmp_path, expected=set()) == set()
    store.close()


def test_what_a_killed_process_left_in_the_log_goes_with_the_next_commit(tmp_path: Path) -> None:
    def crash(name: str, moment: str) -> None:
        if (name, moment) == ("delete", "committed"):
            raise Crash

    store = make_store(tmp_path)
    _, secrets = store.run_sync("share", lambda tx: _put_share(tx, 16))
    dying = Database.open(store_url(tmp_path), Crypter([STORE_KEY]), on_transaction=crash)
    dying.run_sync("destroy", lambda tx: mark_collected(tx, TASK_ID, units(0, 10)))
    for alive in (store, dying):  # on a slow machine they would empty the log after the next commit
        alive._scrubber.close()
    with pytest.raises(Crash):
        dying.run_sync("delete", delete_some_leftovers)
    assert _traces(secrets, tmp_path, expected=secrets) == secrets
    successor = Database.open(store_url(tmp_path), Crypter([STORE_KEY]))
    upload(successor, range(1), time=100)
    assert _traces(secrets, tmp_path, expected=set()) == set()
    for open_store in (store, dying, successor):
        open_store.close()


def test_whoever_reads_the_store_keeps_no_writer_waiting(store: Database, tmp_path: Path) -> None:
    """A backup, or a forgotten shell, keeps the log from being emptied until it has read all."""
    _, secrets = store.run_sync("share", lambda tx: _put_share(tx, 16))
    attempts = _attempts_to_empty_the_log(store)
    numbers = itertools.count()
    unread = _seconds_of_an_upload(store, numbers, lambda: next(numbers) > 100)
    path = store_url(tmp_path).removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM tasks").fetchall()
        store.run_sync("destroy", lambda tx: mark_collected(tx, TASK_ID, units(0, 10)))
        store.run_sync("delete", delete_some_leftovers)
        attempts.clear()
        read = [
            _seconds_of_an_upload(store, numbers, lambda count=count: len(attempts) >= count)
            for count in (1, 2, 3)
        ]
        assert not any(attempts)
        # Who waits for a lock does so for seconds; two of three may have met a slow disk.
        assert min(read) < 20 * unread
        assert _traces(secrets, tmp_path, expected=secrets) == secrets
    assert _traces(secrets, tmp_path, expected=set()) == set()


def _attempts_to_empty_the_log(store: Database) -> list[bool]:
    """Return a list to which the store's thread will add whether it could empty the log."""
    attempts: list[bool] = []
    empty_log = store._scrubber._empty_log

    def attempt() -> bool:
        attempts.append(empty_log())
        return attempts[-1]

    store._scrubber._empty_log = attempt
    return attempts


def _seconds_of_an_upload(
    store: Database, numbers: Iterator[int], is_over: Callable[[], bool]
) -> float:
    """Upload reports one by one until something is so; return how long one took on average."""
    began, count = time.monotonic(), 0
    while count == 0 or not is_over():
        assert time.monotonic() - began < PATIENCE_SECONDS
        upload(store, [next(numbers)], time=100)
        count += 1
    return (time.monotonic() - began) / count


def _put_share(tx: Transaction, size: int) -> tuple[set[bytes], set[bytes]]:
    """Put a share of `size` bytes into a bucket; return pieces of its key and it, as stored."""
    add_to_bucket(tx, TASK_ID, unit(5), lambda _: bytes(size), totals([report_id(1)]))
    stored = [
        tx.keys.get(tx.connection.execute(bucket_keys.select()).one().slot),
        tx.connection.execute(bucket_shares.select()).one().share,
    ]
    # The database cuts long values into pages, so look for short pieces.
    key, share = ({each[at : at + 16] for at in range(0, len(each) - 15, 1100)} for each in stored)
    return key, share


def _traces(secrets: set[bytes], folder: Path, expected: set[bytes]) -> set[bytes]:
    """Return which pieces are in a file, after a while: the log is emptied in the background."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        files = b"".join(file.read_bytes() for file in folder.iterdir())
        found = {secret for secret in secrets if secret in files}
        if found == expected or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_is_a_link_is_named(tmp_path: Path, suffix: str) -> None:
    """SQLite follows no link there, and says only that it cannot open the store."""
    make_store(tmp_path).close()
    beside = tmp_path / f"store.sqlite{suffix}"
    (tmp_path / "elsewhere").touch()
    beside.unlink(missing_ok=True)
    beside.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=f"database: {beside} is a link"):
        backend(store_url(tmp_path)).exists()
