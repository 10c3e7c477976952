import threading
import time
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from sqlalchemy import text

from aggregator.errors import StoreError
from aggregator.service.storage.batches.closed import BatchClosed, freeze
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction, UnknownTask
from aggregator.service.storage.reports.reports import put_reports
from tests.support.clock import ManualClock
from tests.support.store import (
    MAX_REPORTS,
    TASK_ID,
    make_store,
    new_reports,
    stored,
    unclaimed_reports,
    units,
    upload,
)


class Crash(BaseException):
    """The process is gone."""


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


def test_a_closed_store_opens_no_connection_that_nobody_would_close(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.close()
    for begin in (store.run_sync, store.read_sync):
        with pytest.raises(StoreError, match="'too late': the store is closed"):
            begin("too late", lambda _: None)


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
    with pytest.raises(StoreError, match=r"read-?only"):
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
    before = int(time.time())
    assert before <= other.read_sync("now", lambda tx: tx.now) <= time.time()
    other.close()


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
        query = text("INSERT INTO no_such_table VALUES (:body)")
        tx.connection.execute(query, {"body": "secret body"})

    with pytest.raises(StoreError) as caught:
        store.run_sync("broken", work)
    assert "secret body" not in f"{caught.value}{caught.value.__cause__}"


def test_closing_a_store_waits_for_who_is_using_it(store: Database) -> None:
    is_reading = threading.Event()
    seen: list[int] = []

    def slow(tx: Transaction) -> None:
        is_reading.set()
        time.sleep(0.1)
        seen.append(unclaimed_reports(tx, TASK_ID))

    reader = threading.Thread(target=store.read_sync, args=("count", slow))
    reader.start()
    is_reading.wait()
    store.close()
    assert seen == [0]
    reader.join()
