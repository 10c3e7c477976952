import dataclasses
import threading

import pytest

from aggregator.dap.times import Interval
from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.service.storage.batches.closed import (
    BatchClosed,
    closed_batches,
    freeze,
    mark_collected,
    unfreeze,
)
from aggregator.service.storage.batches.sums import summarize_batch
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import BatchState
from aggregator.service.storage.engine.tables import bucket_keys, bucket_shares
from aggregator.service.storage.engine.tables import closed_batches as closed_batches_table
from aggregator.service.storage.secrets.crypter import CrypterError
from tests.support.racers import run_at_once
from tests.support.store import (
    TASK_ID,
    add_to_bucket,
    adding,
    checksum,
    read_shares,
    report_id,
    totals,
    unit,
    units,
)

LAST = 2**64 - 1


def add(store: Database, time: int, number: int = 1) -> None:
    added = dataclasses.replace(totals([report_id(time)], time), report_count=number)
    store.run_sync("add", lambda tx: add_to_bucket(tx, TASK_ID, unit(time), adding(number), added))


def shares(store: Database, start: int = 0, end: int = LAST) -> list[bytes]:
    return store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(start, end)))


def states(store: Database, *times: int) -> list[BatchState | None]:
    closed = store.read_sync("closed", lambda tx: closed_batches(tx, TASK_ID, units(0, LAST)))
    return [closed.state(unit(time)) for time in times]


def close(store: Database, start: int, end: int, *, collected: bool = False) -> None:
    verb = mark_collected if collected else freeze
    store.run_sync("close", lambda tx: verb(tx, TASK_ID, units(start, end)))


def test_out_shares_are_merged_into_their_bucket(store: Database) -> None:
    add(store, 5, 2)
    add(store, 5, 3)
    add(store, 6, 7)
    assert shares(store) == [b"5", b"7"]
    assert shares(store, 5, 6) == [b"5"]
    assert shares(store, 7, LAST) == []


def test_a_summary_spans_the_buckets_that_hold_reports(store: Database) -> None:
    for time, number in ((3, 1), (5, 2), (2**63, 3)):
        add(store, time, number)
    summary = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, units(4, LAST)))
    assert (summary.report_count, summary.checksum) == (
        5,
        checksum([report_id(5), report_id(2**63)]),
    )
    assert summary.interval == Interval.of(5, 2**63 - 4)
    empty = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, units(6, 2**63)))
    assert empty == BatchTotals(0, bytes(32), None)


def test_a_share_is_ciphertext_bound_to_its_bucket(store: Database) -> None:
    add(store, 5, 123456)
    add(store, 6, 654321)

    def stored() -> dict[bytes, bytes]:
        rows = store.read_sync(
            "raw", lambda tx: tx.connection.execute(bucket_shares.select()).all()
        )
        return {row.bucket: row.share for row in rows}

    assert b"123456" not in stored()[unit(5)]
    store.run_sync(
        "swap",
        lambda tx: tx.connection.execute(
            bucket_shares.update()
            .where(bucket_shares.c.bucket == unit(6))
            .values(share=stored()[unit(5)])
        ),
    )
    with pytest.raises(CrypterError):
        shares(store, 6, 7)


def test_nothing_is_added_to_a_closed_bucket(store: Database) -> None:
    add(store, 5)
    close(store, 5, 6)
    close(store, 8, 10, collected=True)
    for time, state in ((5, BatchState.FROZEN), (9, BatchState.COLLECTED)):
        with pytest.raises(BatchClosed) as caught:
            add(store, time)
        assert caught.value.state is state
    for time in (4, 6, 7, 10):
        add(store, time)
    assert shares(store, 5, 6) == [b"1"]


def test_a_frozen_batch_opens_again_as_it_was(store: Database) -> None:
    add(store, 5)
    close(store, 0, 10)
    store.run_sync("open", lambda tx: unfreeze(tx, TASK_ID, units(0, 10)))
    add(store, 5)
    assert shares(store) == [b"2"]


def test_collecting_destroys_the_shares_and_their_keys_and_nothing_else(store: Database) -> None:
    for time in (4, 5, 9, 10):
        add(store, time)
    close(store, 5, 10)
    close(store, 5, 10, collected=True)
    assert shares(store) == [b"1", b"1"]
    keys = store.read_sync("keys", lambda tx: tx.connection.execute(bucket_keys.select()).all())
    assert [row.bucket for row in keys] == [unit(4), unit(10)]
    summary = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, units(5, 10)))
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
    store.run_sync("open", lambda tx: unfreeze(tx, TASK_ID, units(5, 10)))
    assert states(store, 4, 5, 9, 10) == [
        None,
        BatchState.COLLECTED,
        BatchState.COLLECTED,
        None,
    ]


def test_a_part_of_a_frozen_batch_can_neither_be_opened_nor_collected(store: Database) -> None:
    close(store, 5, 10)
    store.run_sync("open", lambda tx: unfreeze(tx, TASK_ID, units(5, 9)))
    with pytest.raises(BatchClosed):
        close(store, 5, 9, collected=True)
    assert states(store, 5, 9) == [BatchState.FROZEN] * 2


def test_a_batch_of_all_time_is_one_row(store: Database) -> None:
    add(store, 5)
    close(store, 0, LAST, collected=True)
    rows = store.read_sync(
        "rows", lambda tx: tx.connection.execute(closed_batches_table.select()).all()
    )
    assert [Batch(row.first_bucket, row.last_bucket) for row in rows] == [units(0, LAST)]
    assert shares(store) == []


def test_the_overall_state_of_a_range_is_its_most_final_one(store: Database) -> None:
    def overall(start: int, end: int) -> BatchState | None:
        return store.read_sync(
            "state", lambda tx: closed_batches(tx, TASK_ID, units(start, end)).overall()
        )

    close(store, 0, 2, collected=True)
    close(store, 2, 4)
    assert overall(0, 4) is overall(1, 2) is BatchState.COLLECTED
    assert overall(2, 3) is BatchState.FROZEN
    assert overall(4, LAST) is None


def test_two_threads_that_add_to_one_bucket_lose_nothing(store: Database) -> None:
    def work() -> None:
        for _ in range(20):
            add(store, 5)

    threads = [threading.Thread(target=work) for _ in range(2)]
    run_at_once(threads)
    assert sum(map(int, shares(store))) == 40


def test_batches_that_have_names_and_no_times_are_kept_by_the_same_verbs(store: Database) -> None:
    first, second, third = (Batch(name, name) for name in (b"a" * 32, b"b" * 32, b"c" * 32))

    def add_to(batch: Batch, number: int) -> None:
        one = totals([report_id(number)], number)
        store.run_sync("add", lambda tx: add_to_bucket(tx, TASK_ID, batch.first, adding(1), one))

    for number, batch in enumerate((first, second, second, third)):
        add_to(batch, number)
    store.run_sync("freeze", lambda tx: freeze(tx, TASK_ID, first))
    store.run_sync("collect", lambda tx: mark_collected(tx, TASK_ID, second))
    add_to(third, 4)
    for closed in (first, second):
        with pytest.raises(BatchClosed):
            add_to(closed, 5)
    held = [
        store.read_sync("read", lambda tx, b=batch: read_shares(tx, TASK_ID, b))
        for batch in (first, second, third)
    ]
    assert held == [[b"1"], [], [b"2"]]
    summary = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, third))
    assert (summary.report_count, summary.interval) == (2, Interval.of(3, 2))
