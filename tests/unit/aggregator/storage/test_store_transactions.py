import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from aggregator.errors import StoreError
from aggregator.storage import sqlite
from aggregator.storage.batches import (
    BatchClosed,
    freeze,
    mark_collected,
)
from aggregator.storage.crypter import Crypter
from aggregator.storage.database import Database, Transaction, UnknownTask
from aggregator.storage.engine import Busy
from aggregator.storage.leftovers import delete_some_leftovers
from aggregator.storage.reports import put_reports
from aggregator.storage.tables import bucket_keys, bucket_shares
from tests.support.clock import ManualClock
from tests.support.store import (
    MAX_REPORTS,
    STORE_KEY,
    TASK_ID,
    add_to_bucket,
    make_store,
    new_reports,
    report_id,
    store_url,
    totals,
    unclaimed_reports,
    unit,
    units,
    upload,
)


class Crash(BaseException):
    """The process is gone."""


def stored(store: Database) -> int:
    return store.read_sync("count", lambda tx: unclaimed_reports(tx, TASK_ID))


@pytest.mark.parametrize(
    ("moment", "survivors"), [("begin", 0), ("before commit", 0), ("committed", 3)]
)
def test_a_transaction_is_there_whole_or_not_at_all(
    tmp_path: Path, moment: str, survivors: int
) -> None:
    def crash(name: str, now: str) -> None:
        if (name, now) == ("upload", moment):
            raise Crash

    dying = make_store(tmp_path, on_transaction=crash)
    with pytest.raises(Crash):
        upload(dying, range(3))
    dying.close()
    reopened = make_store(tmp_path)
    assert stored(reopened) == survivors
    reopened.close()


def test_the_hook_is_told_every_transaction_by_name(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    store = make_store(tmp_path, on_transaction=lambda *moment: heard.append(moment))
    upload(store, range(1))
    store.close()
    assert heard == [("upload", "begin"), ("upload", "before commit"), ("upload", "committed")]


def test_a_failed_function_leaves_nothing(store: Database) -> None:
    def work(tx: Transaction) -> None:
        put_reports(tx, TASK_ID, new_reports(range(3)), MAX_REPORTS)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.run_sync("upload", work)
    assert stored(store) == 0


def test_a_refusal_that_was_swallowed_still_leaves_nothing(store: Database) -> None:
    def work(tx: Transaction) -> None:
        freeze(tx, TASK_ID, units(0, 10))
        with pytest.raises(BatchClosed):
            freeze(tx, TASK_ID, units(5, 15))

    with pytest.raises(BatchClosed):
        store.run_sync("freeze", work)
    store.run_sync("freeze", lambda tx: freeze(tx, TASK_ID, units(5, 15)))


def test_a_reading_transaction_cannot_write(store: Database) -> None:
    with pytest.raises(StoreError, match="readonly"):
        store.read_sync(
            "upload", lambda tx: put_reports(tx, TASK_ID, new_reports(range(1)), MAX_REPORTS)
        )


def test_a_reader_sees_one_snapshot_while_a_writer_commits(store: Database) -> None:
    upload(store, range(2))

    def work(tx: Transaction) -> tuple[int, int]:
        before = unclaimed_reports(tx, TASK_ID)
        writer = threading.Thread(target=upload, args=(store, range(2, 5)))
        writer.start()
        writer.join()
        return before, unclaimed_reports(tx, TASK_ID)

    assert store.read_sync("count", work) == (2, 2)
    assert stored(store) == 5


def test_an_unknown_task_is_named(store: Database) -> None:
    with pytest.raises(UnknownTask, match="_" * 42 + "8"):
        store.run_sync(
            "upload", lambda tx: put_reports(tx, b"\xff" * 32, new_reports(range(1)), MAX_REPORTS)
        )


def test_the_clock_is_the_databases_unless_one_is_given(
    tmp_path: Path, store: Database, clock: ManualClock
) -> None:
    assert store.read_sync("now", lambda tx: tx.now) == clock.now()
    other = make_store(tmp_path)
    assert abs(other.read_sync("now", lambda tx: tx.now) - time.time()) < 5
    other.close()


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


def test_another_process_that_lets_go_is_waited_for(impatient: Database, tmp_path: Path) -> None:
    path = store_url(tmp_path).removeprefix("sqlite:///")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.12, lambda: other.execute("ROLLBACK"))
    release.start()
    upload(impatient, range(1))
    release.join()
    other.close()
    assert stored(impatient) == 1


def test_a_coroutine_runs_transactions_in_a_thread_and_one_writer_at_a_time(
    store: Database,
) -> None:
    threads: set[int] = set()

    async def main() -> int:
        async with anyio.create_task_group() as group:
            for first in range(0, 40, 10):
                group.start_soon(write, first)
        return await store.read("count", lambda tx: unclaimed_reports(tx, TASK_ID))

    async def write(first: int) -> None:
        def work(tx: Transaction) -> None:
            threads.add(threading.get_ident())
            put_reports(tx, TASK_ID, new_reports(range(first, first + 10)), MAX_REPORTS)

        await store.run("upload", work)

    assert anyio.run(main) == 40
    assert threading.get_ident() not in threads
    assert anyio.run(main) == 40  # a second event loop, nothing new


def test_a_cancelled_caller_does_not_cut_a_transaction(store: Database) -> None:
    started = threading.Event()

    def work(tx: Transaction) -> None:
        put_reports(tx, TASK_ID, new_reports(range(3)), MAX_REPORTS)
        started.set()
        time.sleep(0.05)
        put_reports(tx, TASK_ID, new_reports(range(3, 6)), MAX_REPORTS)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(store.run, "upload", work)
            await anyio.to_thread.run_sync(started.wait)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert stored(store) == 6


def test_errors_do_not_show_what_was_being_stored(store: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.connection.exec_driver_sql("INSERT INTO no_such_table VALUES (?)", ("secret body",))

    with pytest.raises(StoreError) as caught:
        store.run_sync("broken", work)
    assert "secret body" not in f"{caught.value}{caught.value.__cause__}"


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
    path = store_url(tmp_path).removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM tasks").fetchall()
        store.run_sync("destroy", lambda tx: mark_collected(tx, TASK_ID, units(0, 10)))
        store.run_sync("delete", delete_some_leftovers)
        seconds = []
        for number in range(5):
            began = time.monotonic()
            upload(store, [number], time=100)
            seconds.append(time.monotonic() - began)
        assert max(seconds) < 2
        assert _traces(secrets, tmp_path, expected=secrets) == secrets
    assert _traces(secrets, tmp_path, expected=set()) == set()


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
    deadline = time.monotonic() + 20
    while True:
        files = b"".join(file.read_bytes() for file in folder.iterdir())
        found = {secret for secret in secrets if secret in files}
        if found == expected or time.monotonic() > deadline:
            return found
        time.sleep(0.01)
