"""The hourly count of answers, and what other tasks close, on both kinds of store."""

import dataclasses

import pytest
from sqlalchemy import func, select

from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import (
    closed_to_uploads,
    freeze,
    mark_collected,
    unfreeze,
)
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import BatchState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.collection_jobs import create_collection_job
from aggregator.service.storage.reports.answer_counts import count_answers, last_count
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.tasks import added_together, end_task, put_task
from tests.support.clock import ManualClock
from tests.support.store import TASK_ID, leader_task, unit, units, upload

HOUR = 3600
OTHER = bytes([9]) * 32


@pytest.fixture
def store(store: Database, clock: ManualClock) -> Database:
    """A store with two tasks, at the beginning of an hour."""
    other = dataclasses.replace(leader_task(), task_id=OTHER)
    store.run_sync("put task", lambda tx: put_task(tx, other))
    clock.advance(-clock.now() % HOUR)
    return store


def look(store: Database) -> tuple[int | None, list[dict[bytes, int]]] | None:
    found = store.read_sync("look", lambda tx: last_count(tx, [TASK_ID]))
    return None if found is None else (found[0], [dict(each) for each in found[1]])


def count(store: Database, task_id: bytes = TASK_ID) -> tuple[int | None, list[dict[bytes, int]]]:
    moment, counts = store.run_sync("count", lambda tx: count_answers(tx, [task_id]))
    return moment, [dict(each) for each in counts]


def test_a_count_stands_until_the_next_hour(store: Database, clock: ManualClock) -> None:
    first = clock.now()
    upload(store, range(3), time=5)
    assert look(store) is None
    assert count(store) == (first, [{unit(5): 3}])
    upload(store, range(3, 5), time=6)
    for _ in range(3):
        clock.advance(HOUR // 4)
        assert look(store) == count(store) == (first, [{unit(5): 3}])
    clock.advance(HOUR // 4)
    assert look(store) is None
    assert count(store) == (first + HOUR, [{unit(5): 3, unit(6): 2}])
    assert look(store) == (first + HOUR, [{unit(5): 3, unit(6): 2}])


def test_a_clock_that_is_set_back_makes_no_count_within_a_day_and_then_does(
    store: Database, clock: ManualClock
) -> None:
    first = clock.now()
    count(store)
    clock.advance(-HOUR)
    upload(store, range(3))
    assert count(store) == (first, [{}])
    clock.advance(-30 * 24 * HOUR)
    assert count(store) == (clock.now(), [{unit(5): 3}])


def test_a_task_that_nobody_asks_about_for_a_week_is_counted_no_more(
    store: Database, clock: ManualClock
) -> None:
    count(store, OTHER)
    clock.advance(7 * 24 * HOUR + HOUR)
    count(store)
    assert count(store, OTHER) == (None, [{}])  # as if it was never asked about


def test_a_forgotten_task_leaves_no_count(store: Database, clock: ManualClock) -> None:
    count(store)
    count(store, OTHER)
    store.run_sync("end", lambda tx: end_task(tx, OTHER))
    forget(store, OTHER)
    clock.advance(HOUR)
    assert count(store)[0] == clock.now()
    query = select(func.count()).select_from(tables.answer_counts)
    assert store.read_sync("rows", lambda tx: tx.connection.execute(query).scalar()) == 1


def test_what_is_collected_is_not_counted(store: Database) -> None:
    upload(store, range(3), time=5)
    upload(store, range(3, 5), time=6)
    store.run_sync("collect", lambda tx: mark_collected(tx, TASK_ID, units(5, 6)))
    store.run_sync("freeze", lambda tx: freeze(tx, TASK_ID, units(6, 7)))  # this may yet fail
    assert count(store)[1] == [{unit(6): 2}]


def test_what_another_task_closes_is_closed_as_long_as_there(store: Database) -> None:
    batch = units(5, 8)

    def states() -> list[BatchState | None]:
        buckets = [unit(each) for each in (4, 5, 7, 8)]
        found = store.read_sync("look", lambda tx: closed_to_uploads(tx, TASK_ID, buckets, [OTHER]))
        return [found.state(bucket) for bucket in buckets]

    under_way, over = BatchState.FROZEN, BatchState.COLLECTED
    assert states() == [None] * 4
    store.run_sync("freeze", lambda tx: freeze(tx, OTHER, batch))
    assert states() == [None, under_way, under_way, None]
    store.run_sync("unfreeze", lambda tx: unfreeze(tx, OTHER, batch))
    assert states() == [None] * 4
    job = Batch(unit(5), unit(7))
    store.run_sync("ask", lambda tx: create_collection_job(tx, OTHER, b"request", job))
    assert states() == [None, under_way, under_way, None]
    store.run_sync("collect", lambda tx: mark_collected(tx, OTHER, units(5, 6)))
    assert states() == [None, over, under_way, None]


def test_tasks_of_one_transaction_were_added_together(store: Database) -> None:
    """And no others, though they were added in the same second."""

    def beside(task_id: bytes) -> list[bytes]:
        found = store.read_sync("look", lambda tx: added_together(tx, task_id))
        return [each.task_id for each in found]

    def put(tx: Transaction, *task_ids: bytes) -> None:
        for each in task_ids:
            put_task(tx, dataclasses.replace(leader_task(), task_id=each))

    one, two, three = (bytes([number]) * 32 for number in (1, 2, 3))
    store.run_sync("put tasks", lambda tx: put(tx, one, two))
    store.run_sync("put task", lambda tx: put(tx, three))
    assert beside(one) == [two]
    assert beside(three) == []
    assert not {one, two, three} & set(beside(TASK_ID))
