"""Bodies of reports leave together with their generation, and never while one is of use."""

import time
from collections.abc import Iterable

import pytest
from sqlalchemy import Table, insert, select

from aggregator.service.storage.engine import sqlite, tables
from aggregator.service.storage.engine.backends import BodyGone, UnreadableBodies
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import AggregationJob
from aggregator.service.storage.reports import generations, groups
from aggregator.service.storage.reports.bodies import Body, current_generation, rows_of
from aggregator.service.storage.reports.claims import JobReports, reports_of_job
from aggregator.service.storage.reports.generations import (
    LEFT,
    TURN_SECONDS,
    UNUSED_SECONDS,
    rotate_generations,
)
from aggregator.service.storage.reports.rejecting import drop_reports
from aggregator.service.storage.reports.unreadable import set_aside
from tests.support.clock import ManualClock
from tests.support.patience import measured
from tests.support.store import (
    TASK_ID,
    bodies_left,
    body_of,
    create_job,
    finish_job,
    lease_job,
    reports_in,
    rotate_all,
    upload,
)


def turn(store: Database) -> int:
    return store.run_sync("turn", rotate_generations)


def current(store: Database) -> int:
    return store.read_sync("current", current_generation)


def begin_another(store: Database, clock: ManualClock) -> int:
    """Let a minute pass, after which another generation is the current one; return which."""
    before = current(store)
    clock.advance(TURN_SECONDS)
    assert turn(store) == 1
    assert current(store) != before
    return current(store)


def created(store: Database, limit: int = 100) -> AggregationJob:
    job = create_job(store, limit)
    assert job is not None
    return job


def bodies(store: Database, job: AggregationJob) -> list[int]:
    """Return the numbers of a job's reports, which have the bodies that they came with."""
    found = reports_in(store, job.key)
    numbers = [int.from_bytes(each.report_id, "big") for each in found]
    assert [each.body for each in found] == [body_of(number) for number in numbers]
    return numbers


def upload_one_by_one(store: Database, numbers: Iterable[int], time: int = 5) -> None:
    """Upload reports that are a group each."""
    for number in numbers:
        upload(store, [number], time)


def read_job(store: Database, job: AggregationJob) -> JobReports:
    return store.read_sync("read", lambda tx: reports_of_job(tx, job.key))


def drop(store: Database, job: AggregationJob) -> int:
    return store.run_sync("drop", lambda tx: drop_reports(tx, TASK_ID, job.key))


def generations_named(store: Database) -> set[int]:
    query = select(tables.report_groups.c.generation)
    return set(store.read_sync("named", lambda tx: tx.connection.execute(query).scalars().all()))


def test_bodies_leave_together_after_their_reports(store: Database, clock: ManualClock) -> None:
    upload(store, range(5))
    job = created(store)
    assert rotate_all(store, clock) == 1  # another is begun
    assert bodies(store, job) == [*range(5)]
    finish_job(store, lease_job(store))
    assert bodies_left(store) == 1
    assert rotate_all(store, clock) == 1
    assert bodies_left(store) == 0
    upload(store, range(5, 7))
    assert len(bodies(store, created(store))) == 2


def test_a_generation_is_emptied_when_it_was_of_no_use_for_a_while(
    store: Database, clock: ManualClock
) -> None:
    upload(store, range(3))
    job = created(store)
    begin_another(store, clock)
    drop(store, job)
    assert turn(store) == 0  # it is found to be of no use
    clock.advance(UNUSED_SECONDS - 1)
    assert (turn(store), bodies_left(store)) == (0, 1)
    clock.advance(1)
    assert (turn(store), bodies_left(store)) == (1, 0)
    assert turn(store) == 0


def test_a_generation_that_is_used_again_is_not_emptied(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(store, [1])
    job = created(store)
    begin_another(store, clock)
    drop(store, job)
    assert turn(store) == 0
    with monkeypatch.context() as patch:  # an upload that has looked long ago
        patch.setattr(groups, "current_generation", lambda _: 0)
        upload(store, [2])
    clock.advance(UNUSED_SECONDS)
    assert (turn(store), bodies_left(store)) == (0, 2)
    job = created(store)
    assert bodies(store, job) == [2]
    drop(store, job)
    assert turn(store) == 0  # a while begins anew
    clock.advance(UNUSED_SECONDS)
    assert (turn(store), bodies_left(store)) == (1, 0)


def test_a_clock_that_is_put_back_delays_by_a_while_at_most(
    store: Database, clock: ManualClock
) -> None:
    upload(store, [1])
    job = created(store)
    begin_another(store, clock)
    drop(store, job)
    turn(store)
    upload(store, [2])
    clock.advance(-100_000)
    turn(store)
    clock.advance(UNUSED_SECONDS)
    rotate_all(store, clock)
    assert bodies_left(store) == 1
    assert bodies(store, created(store)) == [2]


def test_a_generation_is_current_for_a_minute_and_for_as_long_as_it_is_empty(
    store: Database, clock: ManualClock
) -> None:
    assert rotate_all(store, clock) == 0
    upload(store, [1])
    first = begin_another(store, clock)
    clock.advance(10 * TURN_SECONDS)
    assert turn(store) == 0
    upload(store, [2])
    second = begin_another(store, clock)
    upload(store, [3])
    clock.advance(TURN_SECONDS - 1)
    assert turn(store) == 0
    assert len({0, first, second, current(store)}) == 3


def test_where_none_is_empty_the_current_one_grows(store: Database, clock: ManualClock) -> None:
    for number in range(tables.GENERATIONS):
        upload(store, [number])
        if number + 1 < tables.GENERATIONS:
            begin_another(store, clock)
    last = current(store)
    clock.advance(TURN_SECONDS)
    assert turn(store) == 0
    upload(store, [10])
    assert (current(store), rotate_all(store, clock)) == (last, 0)
    assert bodies(store, created(store)) == [0, 1, 2, 3, 10]


@pytest.mark.parametrize("step_bytes", [1, 12, 10**6])
def test_the_few_that_stay_are_moved_where_none_is_empty(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, step_bytes: int
) -> None:
    monkeypatch.setattr(generations, "STEP_BYTES", step_bytes)
    left: list[AggregationJob] = []
    for number in range(tables.GENERATIONS):
        first = 100 * number
        upload_one_by_one(store, range(first, first + 8), time=number)
        drop(store, created(store, 6))
        left.append(created(store, 2))
        upload(store, [first + 9], time=10 + number)
        if number + 1 < tables.GENERATIONS:
            begin_another(store, clock)
    before = [bodies(store, job) for job in left]
    assert len(generations_named(store)) == tables.GENERATIONS
    rotate_all(store, clock)
    assert len(generations_named(store)) == tables.GENERATIONS  # three of nine are too many
    drop(store, left[0])
    assert rotate_all(store, clock) >= 3
    assert len(generations_named(store)) < tables.GENERATIONS
    assert bodies_left(store) < 9 * tables.GENERATIONS
    assert [bodies(store, job) for job in left] == [[], *before[1:]]
    assert bodies(store, created(store)) == [9, 109, 209, 309]


def test_a_damaged_body_keeps_no_other_from_being_moved(
    store: Database, clock: ManualClock
) -> None:
    for number in range(tables.GENERATIONS - 1):
        upload_one_by_one(store, range(10 * number, 10 * number + 2))
        begin_another(store, clock)
    held = created(store)
    table = tables.report_bodies[0]
    lost = table.delete().where(table.c.report_group == 1)
    store.run_sync("lose", lambda tx: tx.connection.execute(lost))
    for number in range(100, 120):
        upload(store, [number])
        drop(store, created(store))
    assert rotate_all(store, clock)
    assert 0 not in generations_named(store)
    with pytest.raises(UnreadableBodies) as raised:
        read_job(store, held)
    assert [*raised.value.groups] == [1]
    aside = store.run_sync("aside", lambda tx: set_aside(tx, held.key, raised.value.groups))
    assert aside.total() == 1
    assert read_job(store, held).ids == [body_of(number)[:16] for number in (1, 10, 11, 20, 21)]
    drop(store, held)


@pytest.mark.slow
def test_a_few_that_stay_block_no_generation_when_little_is_uploaded(
    store: Database, clock: ManualClock
) -> None:
    for number in range(tables.GENERATIONS - 1):
        upload(store, [number])
        begin_another(store, clock)
    held, last = created(store), current(store)
    for number in range(10, 10 + LEFT):
        assert current(store) == last
        clock.advance(TURN_SECONDS)
        assert turn(store) == 0
        upload(store, [number])
        drop(store, created(store))
    assert rotate_all(store, clock)
    assert current(store) != last
    for number in range(20, 60):
        upload(store, [number])
        drop(store, created(store))
        rotate_all(store, clock)
    assert bodies_left(store) <= 3 * (1 + LEFT)
    assert bodies(store, held) == [0, 1, 2]


def test_what_each_generation_holds_is_told(store: Database, clock: ManualClock) -> None:
    def held() -> dict[int, int]:
        return store.read_sync("held", generations.bodies_held)

    assert held() == dict.fromkeys(range(tables.GENERATIONS), 0)
    upload(store, range(5))
    assert (held()[current(store)], sum(held().values())) == (1, 1)
    second = begin_another(store, clock)
    upload(store, range(5, 8))
    assert (held()[second], sum(held().values())) == (1, 2)
    drop(store, created(store))
    assert sum(held().values()) == 2
    rotate_all(store, clock)
    assert sum(held().values()) == bodies_left(store) == 0


def test_a_read_whose_bodies_were_moved_is_made_again(
    store: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(store, range(3))
    job = created(store)
    looks: list[int] = []

    def late(tx: Transaction, named: dict[int, int]) -> dict[int, Body]:
        looks.append(len(named))
        return {} if len(looks) == 1 else rows_of(tx, named)

    monkeypatch.setattr(groups, "rows_of", late)
    assert len(read_job(store, job)) == 3
    assert looks == [1, 1]
    monkeypatch.setattr(groups, "rows_of", lambda *_: {})
    with pytest.raises(BodyGone):
        read_job(store, job)
    assert clock.now() > 0


def test_no_key_of_a_group_is_used_twice(store: Database, clock: ManualClock) -> None:
    """Its body stays for longer than its row, in which the key would else be free."""
    seen: set[int] = set()
    for number in range(3):
        upload(store, [number])
        (key,) = store.read_sync(
            "keys",
            lambda tx: tx.connection.execute(select(tables.report_groups.c.id)).scalars().all(),
        )
        assert key not in seen
        seen.add(key)
        drop(store, created(store))
    rotate_all(store, clock)
    assert bodies_left(store) == 0


BODY = 5480
"""Bytes of a histogram of 256 buckets, as uploaded."""


def fill(store: Database, table: Table, count: int, size: int) -> None:
    rows = [{"report_group": number, "body": bytes(size)} for number in range(count)]
    store.run_sync("fill", lambda tx: tx.connection.execute(insert(table), rows))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "size"),
    [(sqlite.STEP_BYTES // BODY, BODY), (sqlite.STEP_ROWS, 300), (2, sqlite.STEP_BYTES)],
)
def test_a_generation_is_emptied_in_steps_that_hold_the_writer_for_a_moment(
    store: Database, engine: str, count: int, size: int
) -> None:
    table = tables.report_bodies[0]
    fill(store, table, 2 * count, size)

    def empty() -> float:
        with measured(time.thread_time) as spent:  # who else is on the machine does not count
            store.run_sync("empty", lambda tx: tx.backend.empty(tx.connection, table.c.body))
        return spent.yardsticks

    steps = [empty()]
    while bodies_left(store):
        steps.append(empty())
    assert max(steps) < 12
    assert (len(steps) > 1) == (engine == "sqlite")
