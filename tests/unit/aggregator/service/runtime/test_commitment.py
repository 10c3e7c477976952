"""What becomes of verified reports in the transaction that counts them, on either side."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.buckets import merge_agg_shares
from aggregator.protocol.task import Task
from aggregator.protocol.verified import Verified
from aggregator.service.runtime import aggregate_verified
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.batches.sums import summarize_batch
from aggregator.service.storage.engine.database import Database
from aggregator.vdaf.aggregation_parameter import NO_PARAMETER
from aggregator.vdaf.prio3 import OutShares
from field import Vector
from tests.support.store import make_store, read_shares, totals, units
from tests.support.tasks import make_task

TASK = make_task()
KEY = TASK.task_id.value
BATCH = units(0, 100)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    database = make_store(tmp_path)
    yield database
    database.close()


def id_of(number: int) -> bytes:
    return bytes([number]) * 16


def verified(task: Task, *reports: tuple[int, int]) -> Verified:
    """Return reports, each given by its number and its time, with ones as their out shares."""
    ids = [id_of(number) for number, _ in reports]
    times = np.array([time for _, time in reports], np.uint64)
    ones = [[1] * TASK.prio3.output_len for _ in reports]
    return Verified(
        task, NO_PARAMETER, (), ids, times, OutShares(Vector.from_ints(TASK.prio3.field, ones), {})
    )


def sums(store: Database) -> list[int]:
    shares = store.read_sync("read", lambda tx: read_shares(tx, KEY, BATCH))
    return merge_agg_shares(TASK.prio3, shares).to_ints()


def put(store: Database, *reports: tuple[int, int], task: Task = TASK) -> dict[bytes, ReportError]:
    return store.run_sync(
        "commit", lambda tx: aggregate_verified(tx, verified(task, *reports), bytes(32), 0)
    )


def test_reports_are_added_to_their_buckets(store: Database) -> None:
    assert put(store, (1, 5), (2, 5), (3, 9)) == {}
    assert sums(store) == [3] * TASK.prio3.output_len
    summary = store.read_sync("sum", lambda tx: summarize_batch(tx, KEY, units(5, 6)))
    assert summary == totals([id_of(1), id_of(2)])


def test_a_report_that_was_counted_is_left_out_and_the_others_count(store: Database) -> None:
    put(store, (1, 5))
    assert put(store, (1, 5), (2, 5)) == {id_of(1): ReportError.REPORT_REPLAYED}
    assert sums(store) == [2] * TASK.prio3.output_len


def test_a_report_of_a_closed_batch_is_left_out_and_its_id_stays_free(store: Database) -> None:
    store.run_sync("collect", lambda tx: mark_collected(tx, KEY, units(5, 6)))
    assert put(store, (1, 5), (2, 6)) == {id_of(1): ReportError.BATCH_COLLECTED}
    assert put(store, (1, 6)) == {}
    assert sums(store) == [2] * TASK.prio3.output_len


def test_a_report_that_was_counted_is_a_replay_in_a_closed_batch_too(store: Database) -> None:
    put(store, (1, 5))
    store.run_sync("collect", lambda tx: mark_collected(tx, KEY, units(5, 6)))
    assert put(store, (1, 5)) == {id_of(1): ReportError.REPORT_REPLAYED}


def test_a_bucket_never_holds_more_than_max_reports(store: Database) -> None:
    task, full = make_task(max_reports=4), ReportError.REPORT_DROPPED
    put(store, (1, 5), (2, 5), task=task)
    assert put(store, (3, 5), (4, 5), (5, 5), (6, 6), task=task) == {id_of(5): full}
    assert put(store, (5, 5), (1, 5), task=task) == {
        id_of(5): full,
        id_of(1): ReportError.REPORT_REPLAYED,
    }
    assert store.read_sync("sum", lambda tx: summarize_batch(tx, KEY, units(5, 6))) == totals(
        id_of(number) for number in (1, 2, 3, 4)
    )


def test_no_report_needs_no_bucket(store: Database) -> None:
    assert put(store) == {}
    assert store.read_sync("sum", lambda tx: summarize_batch(tx, KEY, BATCH)).report_count == 0
