"""Who gets the permits: fair shares of tasks, bounds on hosts, rests for silent ones."""

from collections import Counter

import anyio
import pytest

from aggregator.dap.problems import Problem
from aggregator.service.transport.interpretation import PeerRefused, PeerUnreachable
from aggregator.service.transport.permits import WHOLE, Demand, Permits
from tests.support.clock import ManualClock
from tests.support.patience import PATIENCE_SECONDS

A, B, C = b"A", b"B", b"C"


def permits_of(total: int, per_host: int = 256) -> tuple[Permits, ManualClock]:
    clock = ManualClock(1000)
    return Permits(total, per_host, clock.now, jitter=lambda: 0.0), clock


def fail(permits: Permits, host: str, retry_after: int | None = None) -> None:
    with pytest.raises(PeerUnreachable), permits.asking(host):
        raise PeerUnreachable("silent", retry_after)


def test_tasks_with_any_backlog_get_equal_shares() -> None:
    permits, _ = permits_of(8)
    assert permits.shares([Demand(A, "x", 10_000), Demand(B, "y", 20), Demand(C, "z", 1)]) == {
        A: 4,
        B: 3,
        C: 1,
    }


def test_a_task_with_jobs_in_progress_waits_for_the_others() -> None:
    permits, _ = permits_of(4)
    for _ in range(3):
        permits.take(A, "x")
    assert permits.shares([Demand(A, "x", 100), Demand(B, "y", 100)]) == {B: 1}


def test_one_permit_goes_from_task_to_task() -> None:
    permits, _ = permits_of(1)
    turns: Counter[bytes] = Counter()
    for _ in range(30):
        (task,) = permits.shares([Demand(each, "x", 100) for each in (A, B, C)])
        permits.take(task, "x")
        permits.give_back(task, "x")
        turns[task] += 1
    assert turns == {A: 10, B: 10, C: 10}


def test_one_host_leaves_permits_to_the_others_even_before_it_fails() -> None:
    permits, _ = permits_of(8, per_host=4)
    shares = permits.shares([Demand(A, "silent", 100), Demand(B, "silent", 100)])
    assert shares.total() == 4
    assert permits.shares([Demand(A, "silent", 100), Demand(C, "well", 100)]) == {A: 4, C: 4}


def test_a_host_that_did_not_answer_rests_ever_longer_and_is_then_asked_once() -> None:
    permits, clock = permits_of(8)
    rests = []
    for _ in range(8):
        fail(permits, "x")
        began = clock.now()
        while not permits.shares([Demand(A, "x", 9)]):
            clock.advance(1)
        assert permits.shares([Demand(A, "x", 9)]) == {A: 1}
        rests.append(clock.now() - began)
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
    with permits.asking("x"):
        pass
    assert permits.shares([Demand(A, "x", 9)]) == {A: 8}


def test_jobs_that_fail_together_are_one_failure() -> None:
    permits, clock = permits_of(8)
    for _ in range(5):
        fail(permits, "x")
    clock.advance(1)
    assert permits.shares([Demand(A, "x", 9)]) == {A: 1}


def test_a_host_is_left_alone_as_long_as_it_asks_but_not_for_ever() -> None:
    permits, clock = permits_of(8)
    fail(permits, "x", retry_after=10)
    clock.advance(9)
    assert not permits.shares([Demand(A, "x", 1)])
    clock.advance(1)
    assert permits.shares([Demand(A, "x", 1)]) == {A: 1}
    fail(permits, "x", retry_after=3600)
    clock.advance(60)
    assert permits.shares([Demand(A, "x", 1)]) == {A: 1}


def test_however_many_hosts_are_silent_half_of_the_permits_are_for_the_others() -> None:
    permits, clock = permits_of(8)
    silent = [Demand(b"%d" % number, f"host{number}", 100) for number in range(100)]
    for each in silent:
        fail(permits, each.host)
    clock.advance(60)
    assert permits.shares(silent).total() == 4
    assert permits.shares([*silent, Demand(A, "well", 100)])[A] == 4


def test_a_clock_that_is_set_back_silences_no_host() -> None:
    permits, clock = permits_of(8)
    fail(permits, "x")
    clock.advance(-86_400)
    assert permits.shares([Demand(A, "x", 1)]) == {A: 1}


def test_a_refusal_is_an_answer() -> None:
    permits, _ = permits_of(8)
    fail(permits, "x")
    with pytest.raises(PeerRefused), permits.asking("x"):
        raise PeerRefused(Problem("no"), 400)
    assert permits.shares([Demand(A, "x", 9)]) == {A: 8}


async def test_what_was_given_up_for_its_time_is_a_failure() -> None:
    permits, _ = permits_of(8)
    with anyio.move_on_after(0.01), permits.asking("x"):
        await anyio.sleep_forever()
    assert not permits.shares([Demand(A, "x", 9)])


async def test_whoever_waits_is_woken_by_a_permit_that_came_back_before() -> None:
    permits, _ = permits_of(1)
    permits.take(A, "x")
    assert not permits.is_free
    permits.give_back(A, "x")
    with anyio.fail_after(PATIENCE_SECONDS):
        await permits.wait(2 * PATIENCE_SECONDS)
    assert permits.is_free


def test_small_work_takes_a_part_of_a_permit_and_large_work_a_whole_one() -> None:
    permits, _ = permits_of(4, per_host=2)
    many = [Demand(b"%d" % number, "x", 1) for number in range(100)]
    assert permits.shares(many, lambda _: 1).total() == 2 * WHOLE
    large = {b"3", b"7", b"20"}
    begun = permits.shares(many, lambda task: WHOLE if task in large else 1)
    assert begun.keys() & large == {b"3", b"7"}
    assert begun.total() < 2 * WHOLE


def test_however_small_work_is_a_host_has_no_more_large_work_than_permits() -> None:
    permits, _ = permits_of(4, per_host=2)
    for number in range(WHOLE):
        permits.take(b"%d" % number, "x", 1)
    assert permits.shares([Demand(A, "x", 9)]) == {A: 1}
    permits.take(A, "x")
    assert not permits.shares([Demand(B, "x", 9)])
    permits.give_back(A, "x")
    permits.give_back(b"0", "x", 1)
    assert permits.shares([Demand(B, "x", 9)]) == {B: 2}


def test_a_task_that_has_nothing_left_leaves_its_turn_to_the_others() -> None:
    permits, _ = permits_of(2)
    demands = [Demand(A, "x", 9), Demand(B, "y", 9)]
    assert permits.shares(demands, lambda task: 0 if task == A else WHOLE) == {B: 2}
