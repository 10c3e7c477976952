"""A statement that goes to SQLite's driver as a text does what SQLAlchemy does with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import bindparam, func, insert, select

from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from tests.support.store import TASK_ID, make_store, unit

BUCKETS = tables.waiting_reports
ADDING = insert(BUCKETS)
COUNTING = (
    select(BUCKETS.c.bucket, func.coalesce(func.sum(BUCKETS.c.reports), 0).label("reports"))
    .where(BUCKETS.c.task == bindparam("task"), BUCKETS.c.bucket >= bindparam("first"))
    .group_by(BUCKETS.c.bucket)
    .order_by(BUCKETS.c.bucket)
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    database = make_store(tmp_path)
    yield database
    database.close()


def row(tx: Transaction, shard: int) -> dict[str, object]:
    place = {"task": tx.task_key(TASK_ID), "bucket": unit(shard // 2), "shard": shard}
    return {**place, "reports": shard - 3}


def test_it_returns_the_same_rows(store: Database) -> None:
    def work(tx: Transaction) -> None:
        assert list(tx.run(ADDING, *(row(tx, shard) for shard in range(9)))) == []
        values = {"task": tx.task_key(TASK_ID), "first": unit(1)}
        usual = [tuple(each) for each in tx.connection.execute(COUNTING, values)]
        assert [tuple(each) for each in tx.run(COUNTING, values)] == usual
        assert len(usual) == 4
        assert list(tx.run(COUNTING, {**values, "first": unit(9)})) == []

    store.run_sync("work", work)


def test_values_become_what_their_columns_hold(store: Database) -> None:
    """A type of our own, 64 bits without a sign, in both directions."""
    query = select(bindparam("given", type_=tables.Uint64()).label("given"))

    def work(tx: Transaction) -> None:
        assert [tuple(each) for each in tx.run(query, {"given": 2**64 - 1})] == [(2**64 - 1,)]

    store.run_sync("work", work)


def test_a_row_that_is_there_is_a_conflict_and_nothing_is_stored(store: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.run(ADDING, row(tx, 1))
        tx.run(ADDING, row(tx, 1))

    with pytest.raises(Conflict):
        store.run_sync("work", work)
    count = select(func.count()).select_from(BUCKETS)
    assert store.read_sync("count", lambda tx: tx.run(count)[0][0]) == 0


def test_a_value_that_is_missing_is_an_error_and_not_null(store: Database) -> None:
    with pytest.raises(StoreError, match="transaction 'count'"):
        store.read_sync("count", lambda tx: tx.run(COUNTING, {"task": tx.task_key(TASK_ID)}))


def test_a_reader_cannot_write(store: Database) -> None:
    with pytest.raises(StoreError, match="transaction 'write'"):
        store.read_sync("write", lambda tx: tx.run(ADDING, row(tx, 1)))


@pytest.mark.parametrize("shards", [[], [7], [1, 2, 3], [*range(40)]])
def test_a_list_of_values_may_have_any_length(store: Database, shards: list[int]) -> None:
    """Some from a task whose buckets are in another list, which never changes."""
    given = BUCKETS.c.shard.in_(bindparam("some", expanding=True))
    query = select(BUCKETS.c.shard, BUCKETS.c.reports).where(
        given, BUCKETS.c.task == bindparam("task"), BUCKETS.c.bucket.in_([unit(0), unit(1)])
    )

    def work(tx: Transaction) -> None:
        tx.run(ADDING, *(row(tx, shard) for shard in range(9)))
        for some in (shards, [*reversed(shards)]):
            found = tx.run(query, {"some": some, "task": tx.task_key(TASK_ID)})
            expected = [(each, each - 3) for each in range(4) if each in shards]
            assert sorted(tuple(each) for each in found) == expected

    store.run_sync("work", work)
