"""Several transactions add to one batch of a PostgreSQL store at the same moment."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from aggregator.service.storage.batches.sums import read_shards
from aggregator.service.storage.engine import locks
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.postgresql import Postgresql
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports import capacity
from aggregator.service.storage.reports.capacity import room_to_add
from aggregator.service.storage.reports.counters import Stage, count_reports, report_counts
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.reports.waiting import waiting_in_batch
from tests.support.engines import ON_POSTGRESQL
from tests.support.patience import PATIENCE_SECONDS
from tests.support.store import (
    TASK_ID,
    add_to_bucket,
    adding,
    make_store,
    new_reports,
    report_id,
    totals,
    unit,
    units,
)

pytestmark = ON_POSTGRESQL

T = TypeVar("T")
BATCH = units(5, 6)
ADVISORY_LOCKS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database())"
)


@pytest.fixture
def moments() -> Counter[str]:
    """Counts how many transactions have begun, tried ones and all."""
    return Counter()


@pytest.fixture
def stores(tmp_path: Path, moments: Counter[str]) -> Iterator[list[Database]]:
    """One more than a bucket has shards."""

    def note(_name: str, moment: str) -> None:
        moments[moment] += 1

    opened = [make_store(tmp_path, on_transaction=note) for _ in range(Postgresql.shards + 1)]
    yield opened
    for each in opened:
        each.close()


def at_once(stores: Sequence[Database], work: Callable[[Transaction, int], T]) -> list[T]:
    """Return what each store's transaction returned."""

    def run(number: int) -> T:
        return stores[number].run_sync("at once", lambda tx: work(tx, number))

    with ThreadPoolExecutor(len(stores)) as threads:
        return list(threads.map(run, range(len(stores))))


def locks_held(store: Database) -> int:
    return store.read_sync(
        "locks", lambda tx: tx.connection.exec_driver_sql(ADVISORY_LOCKS).scalar_one()
    )


def waiting(store: Database) -> int:
    return store.read_sync("waiting", lambda tx: waiting_in_batch(tx, TASK_ID, BATCH))


def test_as_many_transactions_add_to_a_bucket_at_once_as_it_has_shards(
    store: Database, stores: list[Database]
) -> None:
    writers = stores[: Postgresql.shards]
    all_have_added = threading.Barrier(len(writers))

    def work(tx: Transaction, number: int) -> None:
        reports = new_reports(range(10 * number, 10 * number + 10))
        assert put_reports(tx, TASK_ID, reports, 10**6) == [None] * 10
        add_to_bucket(tx, TASK_ID, unit(5), adding(1), totals([report_id(number)]))
        all_have_added.wait(timeout=PATIENCE_SECONDS)  # and none has committed

    at_once(writers, work)
    counts = store.read_sync("counts", lambda tx: report_counts(tx, TASK_ID, Stage.UPLOAD))
    assert counts == {"stored": 10 * len(writers)}
    assert waiting(store) == 10 * len(writers)
    read = store.read_sync("read", lambda tx: read_shards(tx, TASK_ID, BATCH, 99))
    assert [(each.shard, each.share) for each in read] == [
        (shard, b"1") for shard in range(Postgresql.shards)
    ]


def test_who_comes_when_all_shards_are_owned_waits_for_one(
    store: Database, stores: list[Database]
) -> None:
    start = threading.Barrier(len(stores))

    def work(tx: Transaction, number: int) -> None:
        start.wait(timeout=PATIENCE_SECONDS)
        count_reports(tx, TASK_ID, Stage.UPLOAD, {"any": number})

    at_once(stores, work)
    counts = store.read_sync("counts", lambda tx: report_counts(tx, TASK_ID, Stage.UPLOAD))
    assert counts == {"any": sum(range(len(stores)))}


def test_a_transaction_alone_writes_to_the_first_shard(store: Database) -> None:
    for number in range(3):
        store.run_sync(
            "upload", lambda tx, n=number: put_reports(tx, TASK_ID, new_reports([n]), 10**6)
        )
    own = store.run_sync("own", lambda tx: locks.own_shard(tx, tx.task_key(TASK_ID)))
    assert own == 0


@pytest.mark.parametrize(("most", "held"), [(99, Postgresql.shards), (10**6, 1)])
def test_who_finds_a_batch_nearly_full_owns_all_shards(
    store: Database, most: int, held: int
) -> None:
    def work(tx: Transaction) -> int:
        room_to_add(tx, TASK_ID, {unit(5): BATCH}, most, 1)
        return locks_held(store)

    assert store.run_sync("look", work) == held
    assert locks_held(store) == 0


def test_what_is_known_of_a_batch_decides_and_what_is_seen_corrects_it(store: Database) -> None:
    attempts = []

    def held(most: int) -> int:
        def work(tx: Transaction) -> int:
            attempts.append(most)
            room_to_add(tx, TASK_ID, {unit(5): BATCH}, most, 1)
            return locks_held(store)

        return store.run_sync("look", work)

    assert [held(99), held(99)] == [Postgresql.shards] * 2
    assert [held(10**6), held(10**6)] == [Postgresql.shards, 1]
    assert held(98) == Postgresql.shards
    assert attempts == [99, 99, 10**6, 10**6, 98, 98]


def test_room_beside_waiting_reports_and_room_for_them_are_known_apart(store: Database) -> None:
    """Uploads and jobs by turns correct each other's knowledge of a bucket in vain else."""
    most = capacity.FEW_REPORTS * Postgresql.shards + 1  # ample only without what waits
    first = new_reports(range(5))
    for _ in range(2):
        store.run_sync("upload", lambda tx: put_reports(tx, TASK_ID, first, most))
    attempts = []

    def held(*, beside_waiting: bool) -> int:
        def work(tx: Transaction) -> int:
            attempts.append(beside_waiting)
            batches = {unit(5): BATCH}
            room_to_add(tx, TASK_ID, batches, most, 1, beside_waiting=beside_waiting)
            return locks_held(store)

        return store.run_sync("look", work)

    for _ in range(3):
        assert held(beside_waiting=True) == Postgresql.shards
        assert held(beside_waiting=False) == 1
    assert attempts == [True, False] * 3


def test_who_adds_many_reports_owns_all_shards(store: Database) -> None:
    def work(tx: Transaction) -> int:
        room_to_add(tx, TASK_ID, {unit(5): BATCH}, 10**6, capacity.FEW_REPORTS + 1)
        return locks_held(store)

    assert store.run_sync("look", work) == Postgresql.shards


def test_a_batch_takes_as_many_reports_as_it_may_and_no_more(
    store: Database,
    stores: list[Database],
    moments: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From ample room, where all write at once, to the last report, which only one may write."""
    few, most, turns = 5, 203, 8
    monkeypatch.setattr(capacity, "FEW_REPORTS", few)
    owned: set[int] = set()

    def work(tx: Transaction, first: int) -> int:
        reports = new_reports(range(first, first + few))
        stored = put_reports(tx, TASK_ID, reports, most).count(None)
        owned.add(tx.shards[tx.task_key(TASK_ID)])
        return stored

    def upload(number: int) -> int:
        firsts = range(1000 * number, 1000 * number + few * turns, few)
        return sum(
            stores[number].run_sync("upload", lambda tx, first=first: work(tx, first))
            for first in firsts
        )

    moments.clear()
    with ThreadPoolExecutor(len(stores)) as threads:
        assert sum(threads.map(upload, range(len(stores)))) == most
    assert waiting(store) == most
    assert len(owned) > 1
    # A store runs one transaction again if it sees that ample room has become little. Nobody who
    # needed all shards had kept one: nobody was in another's way.
    assert turns * len(stores) <= moments["begin"] <= (turns + 1) * len(stores)
