"""Rows that come in shards are read as their sum."""

from collections.abc import Sequence

import pytest

from aggregator.protocol.batches import Batch
from aggregator.service.config import GROUP_REPORTS, LeaderSettings
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.batches.leftovers import delete_some_leftovers, has_leftovers
from aggregator.service.storage.batches.selected import batch_with_room, next_batch
from aggregator.service.storage.batches.sums import (
    Addition,
    accumulate,
    check_unchanged,
    open_buckets,
    read_shards,
    report_count,
    summarize_batch,
)
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs import job_shares
from aggregator.service.storage.jobs.job_shares import JobShare, leave_out, put_job_shares
from aggregator.service.storage.operator.progress import task_progress
from aggregator.service.storage.reports.capacity import FEW_REPORTS, room_to_add
from aggregator.service.storage.reports.counters import Stage, count_reports, report_counts
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.reports.waiting import (
    count_waiting,
    waiting_buckets,
    waiting_in_batch,
)
from tests.support.store import (
    TASK_ID,
    add_to_bucket,
    adding,
    in_shard,
    new_reports,
    report_id,
    totals,
    unit,
    units,
)

SHARDS = 3
BATCH = units(0, 10)
IDS = [report_id(number) for number in range(SHARDS)]


def spread(store: Database, bucket: bytes = unit(5)) -> None:
    """Add a report to each shard of a bucket."""

    def add(tx: Transaction, shard: int) -> None:
        in_shard(tx, shard)
        add_to_bucket(tx, TASK_ID, bucket, adding(shard + 1), totals([IDS[shard]]))
        put_job_shares(
            tx,
            TASK_ID,
            [JobShare(bucket, bytes([shard]) * 32, b"%d" % (shard + 1), totals([IDS[shard]]))],
        )

    for shard in range(SHARDS):
        store.run_sync("add", lambda tx, shard=shard: add(tx, shard))


def test_a_bucket_is_the_sum_of_its_shards(store: Database) -> None:
    spread(store)
    summary = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, BATCH))
    assert summary == totals(IDS)
    assert store.read_sync("count", lambda tx: report_count(tx, TASK_ID, BATCH)) == SHARDS
    assert store.read_sync("open", lambda tx: open_buckets(tx, TASK_ID)) == [(unit(5), SHARDS)]
    store.run_sync("check", lambda tx: check_unchanged(tx, TASK_ID, BATCH, totals(IDS)))


def test_shards_are_read_in_order_and_each_once(store: Database) -> None:
    spread(store)
    spread(store, unit(6))
    first = store.read_sync("read", lambda tx: read_shards(tx, TASK_ID, BATCH, 2))
    rest = store.read_sync("read", lambda tx: read_shards(tx, TASK_ID, BATCH, 9, first[-1]))
    read = [(each.bucket, each.shard, each.share) for each in (*first, *rest)]
    shares = (b"1", b"2", b"3")
    assert read == [(unit(time), shard, shares[shard]) for time in (5, 6) for shard in range(3)]


def test_a_job_is_left_out_of_its_shard(store: Database) -> None:
    spread(store)

    def merge(shares: Sequence[bytes]) -> bytes:
        return b"%d" % sum(map(int, shares))

    left = store.run_sync("leave", lambda tx: leave_out(tx, TASK_ID, BATCH, b"\x01" * 32, merge))
    assert left == 1
    read = store.read_sync("read", lambda tx: read_shards(tx, TASK_ID, BATCH, 9))
    assert [each.share for each in read] == [b"1", b"0", b"3"]
    summary = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, BATCH))
    assert summary == totals([IDS[0], IDS[2]])


def test_no_key_of_a_bucket_is_looked_up_for_what_a_job_adds_beside_it(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(tx: Transaction) -> None:
        added = {unit(time): totals([report_id(time)]) for time in range(5)}
        additions = [Addition(bucket, adding(1), each) for bucket, each in added.items()]
        ciphers = accumulate(tx, TASK_ID, additions)
        shares = [JobShare(bucket, bytes(32), b"1", each) for bucket, each in added.items()]
        put_job_shares(tx, TASK_ID, shares, ciphers)

    with monkeypatch.context() as patch:
        patch.delattr(job_shares, "shard_cipher")
        store.run_sync("add", add)

    def merge(shares: Sequence[bytes]) -> bytes:
        return b"%d" % sum(map(int, shares))

    left = store.run_sync("leave", lambda tx: leave_out(tx, TASK_ID, BATCH, bytes(32), merge))
    assert left == 5


def test_a_release_leaves_no_shard(store: Database) -> None:
    spread(store)
    spread(store, unit(20))
    store.run_sync("collect", lambda tx: mark_collected(tx, TASK_ID, BATCH))
    assert store.read_sync("read", lambda tx: read_shards(tx, TASK_ID, BATCH, 9)) == []
    while store.read_sync("look", has_leftovers):
        store.run_sync("delete", delete_some_leftovers)
    for table in (tables.bucket_keys, tables.bucket_shares):
        left = store.read_sync("left", lambda tx, t=table: tx.connection.execute(t.select()).all())
        assert [row.bucket for row in left] == [unit(20)] * SHARDS
    assert store.read_sync("count", lambda tx: report_count(tx, TASK_ID, BATCH)) == SHARDS


def test_counters_are_the_sum_of_their_shards(store: Database) -> None:
    def count(tx: Transaction, shard: int, reports: int) -> None:
        in_shard(tx, shard)
        count_reports(tx, TASK_ID, Stage.UPLOAD, {"stored": reports, "too": 1})

    for shard, reports in ((0, 5), (1, -3), (0, 4)):
        store.run_sync("count", lambda tx, s=shard, r=reports: count(tx, s, r))
    counts = {"stored": 6, "too": 3}
    assert store.read_sync("c", lambda tx: report_counts(tx, TASK_ID, Stage.UPLOAD)) == counts
    (progress,) = store.read_sync("progress", task_progress)
    assert progress.counts == {"upload": counts}


def test_reports_may_leave_in_another_shard_than_they_came_in(store: Database) -> None:
    def wait(tx: Transaction, shard: int, bucket: bytes, reports: int) -> None:
        in_shard(tx, shard)
        count_waiting(tx, tx.task_key(TASK_ID), {bucket: reports})

    for shard, bucket, reports in ((0, unit(5), 7), (1, unit(5), -4), (0, unit(6), 2)):
        store.run_sync("wait", lambda tx, s=shard, b=bucket, r=reports: wait(tx, s, b, r))
    assert store.read_sync("w", lambda tx: waiting_in_batch(tx, TASK_ID, BATCH)) == 5
    waiting = dict(store.read_sync("w", lambda tx: waiting_buckets(tx, TASK_ID)))
    assert waiting == {unit(5): 3, unit(6): 2}
    store.run_sync("leave", lambda tx: wait(tx, 2, unit(6), -2))
    waiting = dict(store.read_sync("w", lambda tx: waiting_buckets(tx, TASK_ID)))
    assert waiting == {unit(5): 3}


def test_a_batch_that_the_leader_fills_counts_all_its_shards(store: Database) -> None:
    bucket = b"b" * 32
    spread(store, bucket)
    assert store.run_sync("next", lambda tx: next_batch(tx, TASK_ID, SHARDS + 1)) is None
    following = store.run_sync("next", lambda tx: next_batch(tx, TASK_ID, SHARDS))
    assert following == Batch(bucket, bucket)
    found = store.run_sync("room", lambda tx: batch_with_room(tx, TASK_ID, SHARDS + 2))
    assert found == (bucket, 2)
    assert store.run_sync("room", lambda tx: batch_with_room(tx, TASK_ID, SHARDS))[0] != bucket


def test_room_is_what_all_shards_leave(store: Database) -> None:
    spread(store)
    spread(store, unit(6))
    store.run_sync("upload", lambda tx: put_reports(tx, TASK_ID, new_reports(range(90, 100)), 99))
    alone, together = {unit(5): units(5, 6)}, {unit(5): BATCH, unit(6): BATCH, b"": BATCH}

    def left(batches: dict[bytes, Batch], *, beside_waiting: bool) -> dict[bytes, int]:
        found = store.run_sync(
            "room",
            lambda tx: room_to_add(tx, TASK_ID, batches, 99, 1, beside_waiting=beside_waiting),
        )
        return {bucket: each.left for bucket, each in found.items()}

    assert left(alone, beside_waiting=False) == {unit(5): 99 - SHARDS}
    assert left(alone, beside_waiting=True) == {unit(5): 99 - SHARDS - 10}
    of_both = 99 - 2 * SHARDS - 10
    assert left(together, beside_waiting=True) == {unit(5): of_both, unit(6): of_both}


def test_groups_of_uploads_and_jobs_as_set_by_default_may_be_written_at_once() -> None:
    assert 2 * GROUP_REPORTS - 1 <= FEW_REPORTS
    assert LeaderSettings.model_fields["aggregation_job_size"].default <= FEW_REPORTS
