"""Which ranges of buckets are looked at for closed batches."""

import itertools
import random

import pytest

from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import (
    closed_among,
    closed_to_uploads,
    mark_collected,
    spans,
)
from aggregator.service.storage.engine.database import Database
from tests.support.store import TASK_ID, unit, units


@pytest.mark.parametrize(
    ("at", "ranges"),
    [
        ([5], [(5, 5)]),
        ([7, 5, 200], [(5, 200)]),
        ([1000, 0, 1001], [(0, 0), (1000, 1001)]),
        ([0, 2**63], [(0, 0), (2**63, 2**63)]),
    ],
)
def test_ranges_leave_out_what_is_far_from_all_buckets(
    at: list[int], ranges: list[tuple[int, int]]
) -> None:
    assert spans([unit(each) for each in at]) == [
        Batch(unit(first), unit(last)) for first, last in ranges
    ]


def test_ranges_are_few_and_hold_every_bucket() -> None:
    choose = random.Random(1)  # noqa: S311  no secret
    buckets = [unit(choose.randrange(2**40)) for _ in range(400)]
    found = spans(buckets)
    assert len(found) == 16
    assert all(any(each.first <= bucket <= each.last for each in found) for bucket in buckets)
    assert all(one.last < other.first for one, other in itertools.pairwise(found))


def test_a_batch_that_holds_all_ranges_is_found_once(store: Database) -> None:
    store.run_sync("close", lambda tx: mark_collected(tx, TASK_ID, units(5, 5000)))
    buckets = [unit(each) for each in (0, 10, 4000, 9000)]
    closed = store.read_sync("look", lambda tx: closed_among(tx, TASK_ID, buckets))
    to_uploads = store.read_sync("look", lambda tx: closed_to_uploads(tx, TASK_ID, buckets))
    for found in (closed, to_uploads):
        assert [bucket in found for bucket in buckets] == [False, True, True, False]
    assert len(closed.firsts) == len(to_uploads.collected.firsts) == 1
