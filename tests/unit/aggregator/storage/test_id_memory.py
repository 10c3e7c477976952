"""Ids are forgotten no earlier than reports of their age are refused, whatever a clock does."""

import pytest
from sqlalchemy import func, select

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.replay import DAY, first_day_remembered
from aggregator.storage import id_memory, tables
from aggregator.storage.database import Database, Transaction
from aggregator.storage.id_memory import (
    PASS_DAYS,
    IdsForgotten,
    begin_memories,
    due,
    forget_ids,
)
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


def is_due(store: Database) -> bool:
    return (TASK_ID, IDS) in store.read_sync("due", due)


def begin(store: Database) -> None:
    while store.run_sync("begin", begin_memories):
        pass


def today(clock: ManualClock) -> int:
    return clock.now() // DAY


@pytest.mark.parametrize("per_step", [1, 2, 3, 100])
def test_ids_from_before_a_day_are_forgotten_and_no_others(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, per_step: int
) -> None:
    monkeypatch.setattr(id_memory, "IDS_PER_STEP", per_step)
    first = today(clock)
    begin(store)
    add(store, range(4))
    clock.advance((PASS_DAYS - 1) * DAY)
    assert not is_due(store)
    clock.advance((100 - PASS_DAYS + 1) * DAY)
    add(store, range(4, 7))
    assert is_due(store)
    assert step(store, first + 100) == 1  # the day is written down
    assert left(store) == 7
    steps = 1
    while step(store, first + 100):
        assert is_due(store)
        steps += 1
    assert (left(store), steps) == (3, 1 + 7 // per_step)
    assert not is_due(store)


def test_whoever_adds_ids_is_told_that_some_are_forgotten(
    store: Database, clock: ManualClock
) -> None:
    first = today(clock)
    begin(store)
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
    begin(store)
    clock.advance(1000 * DAY)
    step(store, first + 900)
    while step(store, first + 900):
        pass
    clock.advance(-1000 * DAY)
    while step(store, first):  # nobody would ask for it
        pass
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
