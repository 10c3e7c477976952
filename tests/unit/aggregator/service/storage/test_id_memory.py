"""Ids are forgotten no earlier than reports of their age are refused, whatever a clock does."""

from unittest.mock import patch

import pytest
from sqlalchemy import func, select

from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY, Time
from aggregator.protocol.replay import days_remembered, earliest_remembered, first_day_remembered
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports import id_memory
from aggregator.service.storage.reports.id_memory import (
    PASS_DAYS,
    IdsForgotten,
    Place,
    begin_memories,
    due,
    forget_ids,
)
from aggregator.service.storage.reports.ids import admit
from tests.support.clock import ManualClock
from tests.support.store import TASK_ID, report_id, unit

IDS = "aggregated_reports"


def add(
    store: Database, numbers: range, day: int, first_day: int | None = None
) -> list[ReportError | None]:
    """Add the ids of reports of a day."""
    arrivals = [(report_id(number), unit(5)) for number in numbers]
    days = [day] * len(arrivals)

    def work(tx: Transaction) -> list[ReportError | None]:
        return admit(tx, tables.aggregated_reports, TASK_ID, arrivals, days, (), {}, first_day)

    return store.run_sync("add", work)


def left(store: Database) -> int:
    query = select(func.count()).select_from(tables.aggregated_reports)
    return store.read_sync("count", lambda tx: tx.connection.execute(query).scalar_one())


def step(store: Database, days: int, after: Place | None = None) -> Place | None:
    return store.run_sync("forget", lambda tx: forget_ids(tx, IDS, TASK_ID, days, after))


def look(store: Database, days: int) -> int:
    """Forget what is old enough; return in how many steps, besides the one that deletes nothing."""
    steps, place = 0, step(store, days)
    while place is not None:
        place, steps = step(store, days, place), steps + 1
    return steps


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
    first = today(clock)
    for day in (first, first - 10):
        add(store, range(4), day)
    clock.advance((PASS_DAYS - 1) * DAY)
    assert not is_due(store)
    clock.advance((61 - PASS_DAYS + 1) * DAY)
    add(store, range(4, 7), first + 2)
    assert is_due(store)
    place = step(store, 59)  # the day is written down
    assert left(store) == 11
    # As if a process died there, and another began anew.
    assert place is not None
    step(store, 59, place)
    assert left(store) == 11 - min(8, per_step)
    assert is_due(store) == (per_step <= 8)
    look(store, 59)
    assert left(store) == 3
    assert not is_due(store)


@pytest.mark.parametrize("per_step", [3, 100])
def test_forgetting_takes_as_many_steps_as_there_are_old_ids_however_many_are_left(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, per_step: int
) -> None:
    monkeypatch.setattr(id_memory, "IDS_PER_STEP", per_step)
    begin(store)
    first = today(clock)
    add(store, range(7), first)
    add(store, range(500), first + 40)
    clock.advance(PASS_DAYS * DAY)
    assert look(store, PASS_DAYS - 1) == 1 + 7 // per_step
    assert left(store) == 500


def test_the_day_of_a_report_decides_when_its_id_is_forgotten_not_when_it_came(
    store: Database, clock: ManualClock
) -> None:
    begin(store)
    first = today(clock)
    clock.advance(PASS_DAYS * DAY)
    add(store, range(2), first - 10)
    add(store, range(2, 4), first + 1)
    look(store, PASS_DAYS)
    assert left(store) == 2
    assert add(store, range(2, 4), first + 1, first) == [ReportError.REPORT_REPLAYED] * 2


def test_reports_with_one_id_and_different_days_are_different_reports(store: Database) -> None:
    replayed = ReportError.REPORT_REPLAYED
    arrivals = [(report_id(1), unit(5)), (report_id(2), unit(5)), (report_id(1), unit(5))]

    def work(days: list[int]) -> list[ReportError | None]:
        return store.run_sync(
            "add",
            lambda tx: admit(tx, tables.aggregated_reports, TASK_ID, arrivals, days, (), {}),
        )

    assert work([7, 7, 7]) == [None, None, replayed]
    assert work([8, 7, 7]) == [None, replayed, replayed]
    assert work([9, 8, 6]) == [None, None, None]
    assert work([6, 7, 9]) == [replayed] * 3
    assert left(store) == 6


def test_what_a_full_batch_has_refused_is_remembered_on_no_day(store: Database) -> None:
    """Of two reports with one id, the one that counts is remembered, under its own day."""
    arrivals = [(report_id(1), unit(5)), (report_id(1), unit(9))]

    def work(days: list[int], closed: set[bytes]) -> list[ReportError | None]:
        ids = tables.aggregated_reports
        return store.run_sync("add", lambda tx: admit(tx, ids, TASK_ID, arrivals, days, closed, {}))

    assert work([7, 8], {unit(5)}) == [ReportError.BATCH_COLLECTED, None]
    assert work([7, 8], {unit(9)}) == [None, ReportError.REPORT_REPLAYED]
    assert work([7, 8], set()) == [ReportError.REPORT_REPLAYED] * 2


def test_whoever_adds_ids_is_told_that_some_are_forgotten(
    store: Database, clock: ManualClock
) -> None:
    begin(store)
    first = today(clock)
    assert add(store, range(2), first, first) == [None, None]
    clock.advance(50 * DAY)
    step(store, 40)
    # Nothing is deleted yet, but it may be at any moment.
    with pytest.raises(IdsForgotten) as caught:
        add(store, range(2), first, first)
    assert (caught.value.task_id, caught.value.from_day) == (TASK_ID, first + 10)
    look(store, 40)
    assert left(store) == 0
    with pytest.raises(IdsForgotten):
        add(store, range(2), first + 9, first + 9)
    assert left(store) == 0
    assert add(store, range(2), first + 10, first + 10) == [None, None]


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
        add(store, range(2), first + 9, first + 9)


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
    assert add(store, range(2), now, now - 100 + 60) == [None] * 2
    with pytest.raises(IdsForgotten):
        add(store, range(2), now, now - 100 + 59)


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
    add(store, range(2), today(clock))
    clock.advance(1000 * DAY)
    look(store, 100)
    assert left(store) == 2
    clock.advance(PASS_DAYS * DAY)
    assert is_due(store)
    look(store, 100)
    assert left(store) == 0


@pytest.mark.parametrize("precision", [1, 3600, DAY - 7, 100 * DAY])
def test_no_report_is_taken_whose_id_may_be_forgotten(precision: int) -> None:
    """Of each day: the earliest report that counts, and the rule."""
    for earliest in range(200 * DAY, 203 * DAY, 7_001):
        day = first_day_remembered(earliest, precision)
        assert Time.from_seconds(earliest, precision).day(precision) == day
        for max_age in (0, DAY - 1, DAY, 366 * DAY):
            now = earliest + max_age
            assert now // DAY - days_remembered(max_age, precision) <= day


@pytest.mark.parametrize("precision", [1, 3600, DAY - 7, 100 * DAY])
def test_from_a_day_on_all_that_can_be_recognised_counts(precision: int) -> None:
    for from_day in range(200, 230):
        earliest = earliest_remembered(from_day, precision)
        assert first_day_remembered(earliest, precision) >= from_day
        assert first_day_remembered(earliest - 1, precision) < from_day


@pytest.mark.parametrize("closed", [(), (unit(5),)], ids=["open", "closed"])
def test_ids_of_many_days_take_as_many_statements_as_those_of_one(
    store: Database, closed: tuple[bytes, ...]
) -> None:
    """Anybody may send a request with reports of as many days as are not refused for their age."""
    arrivals = [(report_id(number), unit(5)) for number in range(300)]
    ids = tables.aggregated_reports
    counted = []
    for days in ([7] * 300, [400 + number for number in range(300)]):
        with patch.object(Transaction, "run", autospec=True, side_effect=Transaction.run) as run:
            errors = store.run_sync(
                "add", lambda tx, days=days: admit(tx, ids, TASK_ID, arrivals, days, closed, {})
            )
        assert errors == [ReportError.BATCH_COLLECTED if closed else None] * 300
        counted.append(run.call_count)
    assert counted[0] == counted[1]


def test_ids_of_many_days_are_given_as_bytes_in_which_each_is_found_at_once(
    store: Database,
) -> None:
    """Looking for a place in a text takes longer the later it is: 17 s for 20,000 ids."""
    arrivals = [(report_id(number), unit(5)) for number in range(4)]
    ids, days = tables.aggregated_reports, [7, 8, 7, 20_000]
    with patch.object(Transaction, "run", autospec=True, side_effect=Transaction.run) as run:
        for closed in ((), (unit(5),)):
            store.run_sync(
                "add", lambda tx, closed=closed: admit(tx, ids, TASK_ID, arrivals, days, closed, {})
            )
    given = [values for call in run.call_args_list for values in call.args[2:]]
    assert sum("days" in values for values in given) == 2
    assert not [
        values for values in given if any(isinstance(each, str) for each in values.values())
    ]
    kept = store.read_sync(
        "days", lambda tx: tx.connection.execute(select(ids.c.day)).scalars().all()
    )
    assert sorted(kept) == sorted(days)
