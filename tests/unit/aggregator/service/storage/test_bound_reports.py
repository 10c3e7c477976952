"""Where collectors select batches, an id is bound to one batch, until that comes to nothing."""

import hashlib
from collections.abc import Sequence

import pytest
from sqlalchemy import func, select

from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import freeze, mark_collected, unfreeze
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports import id_memory
from aggregator.service.storage.reports.bound import give_up
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.id_memory import begin_memories, forget_ids
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.reports.waiting import waiting_in_batch
from tests.support.clock import ManualClock
from tests.support.racers import CONNECTIONS, Racers
from tests.support.store import MAX_REPORTS, TASK_ID, body_of, report_id

REPLAYED, LATE = ReportError.REPORT_REPLAYED, ReportError.BATCH_COLLECTED


def batch(number: int) -> Batch:
    key = bytes([number]) * 32
    return Batch(key, key)


def reports_of(
    numbers: Sequence[int], where: int, day: int = 0, more: bytes = b""
) -> list[StoredReport]:
    return [
        StoredReport(report_id(number), batch(where).first, day, body_of(number) + more)
        for number in numbers
    ]


def put(
    tx: Transaction, reports: Sequence[StoredReport], most: int = MAX_REPORTS
) -> list[ReportError | None]:
    digests = [hashlib.sha256(each.body).digest() for each in reports]
    return put_reports(tx, TASK_ID, reports, most, digests=digests)


def put_in(
    store: Database, reports: Sequence[StoredReport], most: int = MAX_REPORTS
) -> list[ReportError | None]:
    return store.run_sync("put", lambda tx: put(tx, reports, most))


def drop(store: Database, number: int) -> None:
    store.run_sync("drop", lambda tx: give_up(tx, TASK_ID, batch(number)))


def waiting(store: Database, number: int) -> int:
    return store.read_sync("waiting", lambda tx: waiting_in_batch(tx, TASK_ID, batch(number)))


def test_a_repetition_is_no_error_and_another_batch_is_one(store: Database) -> None:
    assert put_in(store, [*reports_of([1, 2], 1), *reports_of([2], 1)]) == [None] * 3
    assert put_in(store, [*reports_of([1], 1), *reports_of([2, 3], 2)]) == [None, REPLAYED, None]
    assert (waiting(store, 1), waiting(store, 2)) == (2, 1)


def test_of_one_request_the_first_batch_has_a_report(store: Database) -> None:
    assert put_in(store, [*reports_of([1], 1), *reports_of([1], 2)]) == [None, REPLAYED]
    drop(store, 1)
    again = [*reports_of([1], 2), *reports_of([1], 3), *reports_of([1], 2)]
    assert put_in(store, again) == [None, REPLAYED, None]
    assert (waiting(store, 2), waiting(store, 3)) == (1, 0)


def test_the_same_bytes_are_free_once_their_batch_is_dropped_and_no_others(
    store: Database,
) -> None:
    put_in(store, reports_of([1, 2], 1))
    drop(store, 1)
    assert put_in(store, reports_of([1, 2], 1)) == [ReportError.REPORT_DROPPED] * 2
    assert put_in(store, reports_of([3], 1)) == [LATE]
    assert put_in(store, reports_of([1], 2, more=b"other")) == [REPLAYED]
    assert put_in(store, reports_of([1], 2)) == [None]
    assert put_in(store, reports_of([1, 2], 3)) == [REPLAYED, None]
    assert [waiting(store, number) for number in (1, 2, 3)] == [0, 1, 1]


def test_a_batch_that_is_frozen_or_was_released_is_never_dropped(store: Database) -> None:
    put_in(store, reports_of([1], 1))
    store.run_sync("freeze", lambda tx: freeze(tx, TASK_ID, batch(1)))
    drop(store, 1)
    assert put_in(store, reports_of([1], 2)) == [REPLAYED]
    store.run_sync("unfreeze", lambda tx: unfreeze(tx, TASK_ID, batch(1)))
    store.run_sync("release", lambda tx: mark_collected(tx, TASK_ID, batch(1)))
    drop(store, 1)
    assert put_in(store, reports_of([1], 2)) == [REPLAYED]


def test_what_comes_again_needs_room_and_an_open_batch(store: Database) -> None:
    put_in(store, reports_of([1, 2, 3], 1))
    drop(store, 1)
    assert put_in(store, reports_of([1, 2, 3], 2), most=2) == [
        None,
        None,
        ReportError.REPORT_DROPPED,
    ]
    drop(store, 2)
    assert put_in(store, reports_of([3], 2)) == [LATE]


def test_one_id_with_times_of_two_days_is_two_reports(store: Database) -> None:
    assert put_in(store, [*reports_of([1], 1), *reports_of([1], 2, day=1)]) == [None, None]
    drop(store, 1)
    assert put_in(store, reports_of([1], 3)) == [None]
    assert put_in(store, reports_of([1], 3, day=1)) == [REPLAYED]


def test_bound_ids_are_forgotten_with_the_ids(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_memory, "IDS_PER_STEP", 2)
    while store.run_sync("begin", begin_memories):
        pass
    today = clock.now() // DAY
    put_in(store, reports_of(range(5), 1, day=today - 10))
    put_in(store, reports_of(range(3), 2, day=today))

    def forget(tx: Transaction) -> None:
        place = forget_ids(tx, "report_ids", TASK_ID, 5, None)
        while place is not None:
            place = forget_ids(tx, "report_ids", TASK_ID, 5, place)

    store.run_sync("forget", forget)
    query = select(func.count()).select_from(tables.bound_reports)
    assert store.read_sync("left", lambda tx: tx.connection.execute(query).scalar_one()) == 3


@pytest.mark.parametrize("are_free", [False, True])
def test_reports_that_all_hand_in_at_once_are_in_one_batch(
    racers: Racers, *, are_free: bool
) -> None:
    if are_free:
        put_in(racers.store, reports_of(range(20), 99))
        drop(racers.store, 99)

    def hand_in(tx: Transaction, number: int) -> int:
        reports = reports_of(range(20), number)
        return put(tx, reports if number % 2 else reports[::-1]).count(None)

    assert sum(filter(None, racers.run(hand_in))) == 20
    assert sum(waiting(racers.store, number) for number in range(CONNECTIONS)) == 20


def test_reports_that_one_batch_is_given_at_once_are_stored_once(racers: Racers) -> None:
    put_in(racers.store, reports_of(range(20), 99))
    drop(racers.store, 99)
    results = racers.run(lambda tx, _: put(tx, reports_of(range(20), 1)).count(None))
    assert results == [20] * CONNECTIONS  # repetitions are no error
    assert waiting(racers.store, 1) == 20
