"""Ids are forgotten no earlier than reports of their age are refused, whatever a clock does."""

import pytest
from sqlalchemy import func, select

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.replay import DAY, first_day_remembered
from aggregator.storage import id_memory, tables
from aggregator.storage.database import Database, Transaction
from aggregator.storage.id_memory import PASS_DAYS, IdsForgotten, forget_ids, is_due
from aggregator.storage.report_ids import admit
from tests.support.clock import ManualClock
from tests.support.store import TASK_ID, report_id, unit

IDS = "aggregated_reports"


def add(store: Database, numbers: range, first_day: int | None = None) -> list[ReportError | None]:
    arrivals = [(report_id(number), unit(5)) for number in numbers]

    def work(tx: Transaction) -> list[ReportError | None]:
        return admit(tx, tables.aggregated_reports, TASK_ID, arrivals, (), {}, first_day)

    return store.run_sync("add", work)


def left(store: Database) -> int:
    query = select(func.count()).select_from(tables.aggregated_reports)
    return store.read_sync("count", lambda tx: tx.connection.execute(query).scalar_one())


def step(store: Database, before_day: int) -> int:
    return store.run_sync("forget", lambda tx: forget_ids(tx, IDS, TASK_ID, before_day))


def due(store: Database, before_day: int) -> bool:
    return store.read_sync("due", lambda tx: is_due(tx, IDS, TASK_ID, before_day))


def today(clock: ManualClock) -> int:
    return clock.now() // DAY


@pytest.mark.parametrize("per_step", [1, 2, 3, 100])
def test_ids_from_before_a_day_are_forgotten_and_no_others(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, per_step: int
) -> None:
    monkeypatch.setattr(id_memory, "IDS_PER_STEP", per_step)
    first = today(clock)
    assert due(store, first)
    assert step(store, first) == 0
    assert not due(store, first + PASS_DAYS - 1)
    add(store, range(4))
    clock.advance(100 * DAY)
    add(store, range(4, 7))
    assert due(store, first + 100)
    assert step(store, first + 100) == 1  # the day is written down
    assert left(store) == 7
    steps = 1
    while step(store, first + 100):
        assert due(store, first + 100)
        steps += 1
    assert (left(store), steps) == (3, 1 + 7 // per_step)
    assert not due(store, first + 100)
    assert step(store, first + 100) == 0


def test_whoever_adds_ids_is_told_that_some_are_forgotten(
    store: Database, clock: ManualClock
) -> None:
    first = today(clock)
    step(store, first)
    assert add(store, range(2), first) == [None, None]
    clock.advance(100 * DAY)
    step(store, first + 50)
    # Nothing is deleted yet, but it may be at any moment.
    with pytest.raises(IdsForgotten) as caught:
        add(store, range(2), first)
    assert (caught.value.task_id, caught.value.from_day) == (TASK_ID, first + 50)
    while step(store, first + 50):
        pass
    assert left(store) == 0
    with pytest.raises(IdsForgotten):
        add(store, range(2), first + 49)
    assert left(store) == 0
    assert add(store, range(2), first + 50) == [None, None]


def test_a_clock_that_is_put_back_brings_no_memory_back(
    store: Database, clock: ManualClock
) -> None:
    first = today(clock)
    step(store, first)
    clock.advance(1000 * DAY)
    step(store, first + 900)
    while step(store, first + 900):
        pass
    clock.advance(-1000 * DAY)
    assert step(store, first) == 0
    with pytest.raises(IdsForgotten):
        add(store, range(2), first)


@pytest.mark.parametrize("precision", [1, 3600, 100 * DAY])
@pytest.mark.parametrize("skew", [0, 300, DAY])
def test_no_report_is_taken_whose_id_may_be_forgotten(precision: int, skew: int) -> None:
    """Of each day: the latest time of a report whose id was stored on it, and the rule."""
    for earliest in range(200 * DAY, 203 * DAY, 7_001):
        day = first_day_remembered(earliest, precision, skew)
        latest_forgotten = (day * DAY - 1 + skew) // precision
        assert latest_forgotten < earliest // precision
