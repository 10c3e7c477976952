"""Ids are forgotten no earlier than reports of their age are refused, whatever a clock does."""

import pytest
from sqlalchemy import func, select

from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.protocol.replay import days_remembered, first_day_remembered
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports import id_memory
from aggregator.service.storage.reports.id_memory import (
    PASS_DAYS,
    IdsForgotten,
    begin_memories,
    due,
    forget_ids,
)
from aggregator.service.storage.reports.ids import admit
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


def step(store: Database, days: int) -> int:
    return store.run_sync("forget", lambda tx: forget_ids(tx, IDS, TASK_ID, days))


def look(store: Database, days: int) -> None:
    while step(store, days):
        pass


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
    begin(store)
    add(store, range(4))
    clock.advance((PASS_DAYS - 1) * DAY)
    assert not is_due(store)
    clock.advance((61 - PASS_DAYS + 1) * DAY)
    add(store, range(4, 7))
    assert is_due(store)
    assert step(store, 59) == 1  # the day is written down
    assert left(store) == 7
    steps = 1
    while step(store, 59):
        assert is_due(store)
        steps += 1
    assert (left(store), steps) == (3, 1 + 7 // per_step)
    assert not is_due(store)


def test_whoever_adds_ids_is_told_that_some_are_forgotten(
    store: Database, clock: ManualClock
) -> None:
    begin(store)
    first = today(clock)
    assert add(store, range(2), first) == [None, None]
    clock.advance(50 * DAY)
    step(store, 40)
    # Nothing is deleted yet, but it may be at any moment.
    with pytest.raises(IdsForgotten) as caught:
        add(store, range(2), first)
    assert (caught.value.task_id, caught.value.from_day) == (TASK_ID, first + 10)
    look(store, 40)
    assert left(store) == 0
    with pytest.raises(IdsForgotten):
        add(store, range(2), first + 9)
    assert left(store) == 0
    assert add(store, range(2), first + 10) == [None, None]


def test_a_clock_that_is_put_back_brings_no_memory_back(
    store: Database, clock: ManualClock
) -> None:
    begin(store)
    first = today(clock)
    clock.advance(50 * DAY)
    look(store, 40)
    clock.advance(-50 * DAY)
    look(store, 40)
    with pytest.raises(IdsForgotten):
        add(store, range(2), first + 9)


def test_a_clock_that_is_years_ahead_for_a_moment_costs_two_months_of_memory_at_most(
    store: Database, clock: ManualClock
) -> None:
    begin(store)
    clock.advance(PASS_DAYS * DAY)
    look(store, 100)
    now = today(clock)
    clock.advance(10_000 * DAY)
    assert is_due(store)
    look(store, 100)
    clock.advance(-10_000 * DAY)
    assert add(store, range(2), now - 100 + 60) == [None] * 2
    with pytest.raises(IdsForgotten):
        add(store, range(2), now - 100 + 59)


def test_a_pass_under_a_clock_that_was_ahead_delays_no_other(
    store: Database, clock: ManualClock
) -> None:
    begin(store)
    clock.advance(PASS_DAYS * DAY)
    look(store, 100)
    assert not is_due(store)
    clock.advance(-DAY)
    assert is_due(store)
    look(store, 100)
    assert not is_due(store)
    clock.advance(PASS_DAYS * DAY)
    assert is_due(store)


def test_ids_are_forgotten_after_years_in_which_nobody_looked(
    store: Database, clock: ManualClock
) -> None:
    begin(store)
    add(store, range(2))
    clock.advance(1000 * DAY)
    look(store, 100)
    assert left(store) == 2
    clock.advance(PASS_DAYS * DAY)
    assert is_due(store)
    look(store, 100)
    assert left(store) == 0


@pytest.mark.parametrize("precision", [1, 3600, 100 * DAY])
@pytest.mark.parametrize("skew", [0, 300, DAY])
def test_no_report_is_taken_whose_id_may_be_forgotten(precision: int, skew: int) -> None:
    """Of each day: the latest time of a report whose id was stored on it, and the rule."""
    for earliest in range(200 * DAY, 203 * DAY, 7_001):
        day = first_day_remembered(earliest, precision, skew)
        latest_forgotten = (day * DAY - 1 + skew) // precision
        assert latest_forgotten < earliest // precision
        for max_age in (0, DAY - 1, DAY, 366 * DAY):
            now = earliest + max_age
            assert now // DAY - days_remembered(max_age, precision, skew) <= day
