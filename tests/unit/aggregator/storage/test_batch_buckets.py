import threading

import pytest

from aggregator.storage.batches import (
    BatchClosed,
    BatchSummary,
    accumulate,
    bucket_key,
    closed_intervals,
    freeze,
    mark_collected,
    read_shares,
    summarize_batch,
    unfreeze,
)
from aggregator.storage.crypter import CrypterError
from aggregator.storage.database import Database
from aggregator.storage.states import IntervalState
from aggregator.storage.tables import batch_buckets, batch_intervals, batch_keys
from tests.support.store import TASK_ID, adding, checksum, report_id

LAST = 2**64 - 1


def add(store: Database, time: int, number: int = 1) -> None:
    digest = checksum([report_id(time)])
    store.run_sync(
        "add",
        lambda tx: accumulate(tx, TASK_ID, bucket_key(time), adding(number), number, digest),
    )


def shares(store: Database, start: int = 0, end: int = LAST) -> list[bytes]:
    return store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, start, end))


def states(store: Database, *times: int) -> list[IntervalState | None]:
    closed = store.read_sync("closed", lambda tx: closed_intervals(tx, TASK_ID, 0, LAST))
    return [closed.state(time) for time in times]


def close(store: Database, start: int, end: int, *, collected: bool = False) -> None:
    verb = mark_collected if collected else freeze
    store.run_sync("close", lambda tx: verb(tx, TASK_ID, start, end))


def test_out_shares_are_merged_into_their_bucket(store: Database) -> None:
    add(store, 5, 2)
    add(store, 5, 3)
    add(store, 6, 7)
    assert shares(store) == [b"5", b"7"]
    assert shares(store, 5, 6) == [b"5"]
    assert shares(store, 7, LAST) == []


def test_a_summary_spans_the_buckets_that_hold_reports(store: Database) -> None:
    for time, number in ((3, 1), (5, 2), (2**63, 3), (9, 0)):
        add(store, time, number)
    summary = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, 4, LAST))
    assert summary == BatchSummary(5, checksum([report_id(5), report_id(2**63)]), 5, 2**63 + 1)
    empty = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, 6, 2**63))
    assert empty == BatchSummary(0, bytes(32), None, None)


def test_a_share_is_ciphertext_bound_to_its_bucket(store: Database) -> None:
    add(store, 5, 123456)
    add(store, 6, 654321)

    def stored() -> dict[bytes, bytes]:
        rows = store.read_sync(
            "raw", lambda tx: tx.connection.execute(batch_buckets.select()).all()
        )
        return {row.batch_key: row.share for row in rows}

    assert b"123456" not in stored()[bucket_key(5)]
    store.run_sync(
        "swap",
        lambda tx: tx.connection.execute(
            batch_buckets.update()
            .where(batch_buckets.c.batch_key == bucket_key(6))
            .values(share=stored()[bucket_key(5)])
        ),
    )
    with pytest.raises(CrypterError):
        shares(store, 6, 7)


def test_nothing_is_added_to_a_closed_bucket(store: Database) -> None:
    add(store, 5)
    close(store, 5, 6)
    close(store, 8, 10, collected=True)
    for time, state in ((5, IntervalState.FROZEN), (9, IntervalState.COLLECTED)):
        with pytest.raises(BatchClosed) as caught:
            add(store, time)
        assert caught.value.state is state
    for time in (4, 6, 7, 10):
        add(store, time)
    assert shares(store, 5, 6) == [b"1"]


def test_a_frozen_batch_opens_again_as_it_was(store: Database) -> None:
    add(store, 5)
    close(store, 0, 10)
    store.run_sync("open", lambda tx: unfreeze(tx, TASK_ID, 0, 10))
    add(store, 5)
    assert shares(store) == [b"2"]


def test_collecting_destroys_the_shares_and_their_keys_and_nothing_else(store: Database) -> None:
    for time in (4, 5, 9, 10):
        add(store, time)
    close(store, 5, 10)
    close(store, 5, 10, collected=True)
    assert shares(store) == [b"1", b"1"]
    keys = store.read_sync("keys", lambda tx: tx.connection.execute(batch_keys.select()).all())
    assert [row.batch_key for row in keys] == [bucket_key(4), bucket_key(10)]
    summary = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, 5, 10))
    assert summary.report_count == 2


@pytest.mark.parametrize("interval", [(0, 6), (5, 10), (6, 7), (9, 20), (0, LAST)], ids=str)
@pytest.mark.parametrize("collected", [False, True])
def test_batches_never_overlap(
    store: Database, interval: tuple[int, int], *, collected: bool
) -> None:
    close(store, 5, 10, collected=True)
    with pytest.raises(BatchClosed):
        close(store, *interval, collected=collected)
    close(store, 0, 5, collected=collected)
    close(store, 10, 20, collected=collected)


def test_a_collected_batch_never_opens_again(store: Database) -> None:
    close(store, 5, 10)
    close(store, 5, 10, collected=True)
    store.run_sync("open", lambda tx: unfreeze(tx, TASK_ID, 5, 10))
    assert states(store, 4, 5, 9, 10) == [
        None,
        IntervalState.COLLECTED,
        IntervalState.COLLECTED,
        None,
    ]


def test_a_part_of_a_frozen_batch_can_neither_be_opened_nor_collected(store: Database) -> None:
    close(store, 5, 10)
    store.run_sync("open", lambda tx: unfreeze(tx, TASK_ID, 5, 9))
    with pytest.raises(BatchClosed):
        close(store, 5, 9, collected=True)
    assert states(store, 5, 9) == [IntervalState.FROZEN] * 2


def test_a_batch_of_all_time_is_one_row(store: Database) -> None:
    add(store, 5)
    close(store, 0, LAST, collected=True)
    rows = store.read_sync("rows", lambda tx: tx.connection.execute(batch_intervals.select()).all())
    assert [(row.start, row.end) for row in rows] == [(0, LAST)]
    assert shares(store) == []


def test_the_overall_state_of_a_range_is_its_most_final_one(store: Database) -> None:
    def overall(start: int, end: int) -> IntervalState | None:
        return store.read_sync(
            "state", lambda tx: closed_intervals(tx, TASK_ID, start, end).overall()
        )

    close(store, 0, 2, collected=True)
    close(store, 2, 4)
    assert overall(0, 4) is overall(1, 2) is IntervalState.COLLECTED
    assert overall(2, 3) is IntervalState.FROZEN
    assert overall(4, LAST) is None


def test_two_threads_that_add_to_one_bucket_lose_nothing(store: Database) -> None:
    def work() -> None:
        for _ in range(20):
            add(store, 5)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shares(store) == [b"40"]
