"""What surrounds the transaction that releases a batch: adding up before it, deleting after it."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from aggregator.protocol.batches import Batch
from aggregator.service.runtime import release_steps
from aggregator.service.runtime.release_steps import (
    MergedBatch,
    delete_leftovers,
    merge_batch,
    try_delete_leftovers,
)
from aggregator.service.storage.batches import leftovers
from aggregator.service.storage.batches.closed import freeze, mark_collected
from aggregator.service.storage.batches.sums import BatchChanged, check_unchanged, summarize_batch
from aggregator.service.storage.engine.backends import Unreachable
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.tables import bucket_keys, bucket_shares
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.tasks.garbage import collect_garbage
from field import Vector
from tests.support.store import add_to_bucket, make_store, report_id, totals, unit, units
from tests.support.tasks import make_task

TASK = make_task()
KEY = TASK.task_id.value
PRIO3 = TASK.prio3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    database = make_store(tmp_path)
    yield database
    database.close()


def add(store: Database, time: int, number: int) -> None:
    share = PRIO3.encode_agg_share(Vector.from_ints(PRIO3.field, [number] * PRIO3.output_len))
    added = totals([report_id(number)], time)
    store.run_sync("add", lambda tx: add_to_bucket(tx, KEY, unit(time), lambda _: share, added))


def merge(store: Database, batch: Batch) -> MergedBatch:
    return anyio.run(merge_batch, store, TASK, PRIO3, batch)


def stored(store: Database) -> list[bytes]:
    query = select(bucket_shares.c.bucket).order_by(bucket_shares.c.bucket)
    return store.read_sync("read", lambda tx: list(tx.connection.execute(query).scalars()))


@pytest.mark.parametrize("per_step", [1, 2, 3, 100])
def test_a_batch_is_added_up_in_steps(
    store: Database, monkeypatch: pytest.MonkeyPatch, per_step: int
) -> None:
    monkeypatch.setattr(release_steps, "_SHARES_PER_STEP", per_step)
    for time in (4, 5, 7, 2**40, 2**63):
        add(store, time, time % 1000)
    batch = units(5, 2**63)
    merged = merge(store, batch)
    assert merged.agg_share.to_ints() == [5 + 7 + 2**40 % 1000] * PRIO3.output_len
    assert merged.totals == store.read_sync("sum", lambda tx: summarize_batch(tx, KEY, batch))
    assert "agg_share" not in repr(merged)


def test_an_empty_batch_adds_up_to_nothing(store: Database) -> None:
    add(store, 4, 1)
    merged = merge(store, units(5, 9))
    assert (merged.agg_share.to_ints(), merged.totals.report_count) == ([0] * PRIO3.output_len, 0)


def test_a_report_that_joined_since_is_noticed(store: Database) -> None:
    batch = units(0, 10)
    add(store, 4, 1)
    merged = merge(store, batch)
    store.read_sync("check", lambda tx: check_unchanged(tx, KEY, batch, merged.totals))
    add(store, 5, 2)
    with pytest.raises(BatchChanged):
        store.run_sync("check", lambda tx: check_unchanged(tx, KEY, batch, merged.totals))


def test_a_bucket_whose_key_is_missing_is_not_left_out_unnoticed(store: Database) -> None:
    batch = units(0, 10)
    for time in (4, 5):
        add(store, time, time)
    gone = bucket_keys.delete().where(bucket_keys.c.bucket == unit(4))
    store.run_sync("lose", lambda tx: tx.connection.execute(gone))
    merged = merge(store, batch)
    with pytest.raises(BatchChanged):
        store.run_sync("check", lambda tx: check_unchanged(tx, KEY, batch, merged.totals))


@pytest.mark.parametrize("per_step", [1, 2, 100])
def test_leftovers_of_collected_batches_are_deleted_and_nothing_else(
    store: Database, monkeypatch: pytest.MonkeyPatch, per_step: int
) -> None:
    monkeypatch.setattr(leftovers, "_SHARES_PER_STEP", per_step)
    for time in range(10):
        add(store, time, time)
    store.run_sync("freeze", lambda tx: freeze(tx, KEY, units(2, 4)))
    for batch in (units(0, 2), units(2, 4), units(6, 9)):
        store.run_sync("collect", lambda tx, b=batch: mark_collected(tx, KEY, b))
    store.run_sync("freeze", lambda tx: freeze(tx, KEY, units(9, 10)))
    anyio.run(delete_leftovers, store)
    assert stored(store) == [unit(4), unit(5), unit(9)]
    anyio.run(delete_leftovers, store)


def test_leftovers_stay_for_now_if_the_store_cannot_be_reached(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, 0, 0)
    store.run_sync("collect", lambda tx: mark_collected(tx, KEY, units(0, 1)))

    def is_away(_: Transaction) -> int:
        raise Unreachable("it is away")

    with monkeypatch.context() as patch, capture_logs() as lines:
        patch.setattr(release_steps, "delete_some_leftovers", is_away)
        anyio.run(try_delete_leftovers, store)
    assert [(line["log_level"], line["reason"]) for line in lines] == [("warning", "it is away")]
    assert stored(store) == [unit(0)]
    while store.run_sync("collect garbage", lambda tx: collect_garbage(tx, 10**6)):
        pass
    assert stored(store) == []


def test_leftovers_are_deleted_by_bytes_too(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for time in range(5):
        add(store, time, time)
    store.run_sync("collect", lambda tx: mark_collected(tx, KEY, units(0, 5)))
    monkeypatch.setattr(leftovers, "_BYTES_PER_STEP", 1)
    left = []
    while store.read_sync("look", leftovers.has_leftovers):
        store.run_sync("delete", leftovers.delete_some_leftovers)
        left.append(len(stored(store)))
    assert left == [4, 3, 2, 1, 0, 0]
