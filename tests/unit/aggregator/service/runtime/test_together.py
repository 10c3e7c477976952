"""What comes at once is done together, and what does not go smoothly is done again alone."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from contextvars import Context, ContextVar
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from aggregator.dap.ids import TaskId
from aggregator.errors import StoreError
from aggregator.service.runtime.together import MOST, Together, attempt, store_together
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from tests.support.patience import PATIENCE_SECONDS
from tests.support.store import make_store
from tests.support.tasks import make_task

A, B = (make_task(id=str(TaskId(bytes([number] * 32)))) for number in (1, 2))
NUMBER: ContextVar[int] = ContextVar("number")


class Bench:
    """Doubles numbers; odd ones must be done alone, and 13 cannot be done at all."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.alone: list[int] = []
        self.together: Together[int, int] = Together(self._work)
        self.done: dict[int, int] = {}

    def _work(self, items: Sequence[int], contexts: Sequence[Context]) -> list[int | None]:
        self.groups.append([*items])
        assert [each[NUMBER] for each in contexts] == self.groups[-1]
        return [None if item % 2 else 2 * item for item in items]

    async def put(self, item: int) -> None:
        async def alone() -> int:
            await anyio.lowlevel.checkpoint()
            self.alone.append(item)
            if item == 13:
                raise StoreError("thirteen")
            return 2 * item

        NUMBER.set(item)
        self.done[item] = await self.together.run(b"%d" % (item % 3), item, alone)

    async def put_all(self, *items: int) -> None:
        with anyio.fail_after(PATIENCE_SECONDS):
            async with anyio.create_task_group() as group:
                for item in items:
                    group.start_soon(self.put, item)


async def test_what_comes_at_once_is_done_in_one_go_and_the_rest_alone() -> None:
    bench = Bench()
    await bench.put_all(2, 3, 4)
    assert bench.groups == [[2, 3, 4]]
    assert bench.alone == [3]
    assert bench.done == {2: 4, 3: 6, 4: 8}


async def test_one_by_itself_is_done_alone() -> None:
    bench = Bench()
    for item in (2, 4):
        await bench.put(item)
    assert bench.groups == []
    assert bench.alone == [2, 4]


async def test_no_more_are_done_at_once_than_the_bound() -> None:
    bench = Bench()
    await bench.put_all(*range(0, 4 * MOST + 2, 2))
    assert [len(each) for each in bench.groups] == [MOST, MOST]
    assert bench.alone == [4 * MOST]
    assert bench.done == {each: 2 * each for each in range(0, 4 * MOST + 2, 2)}


async def test_a_task_with_much_that_waits_holds_no_other_up() -> None:
    bench = Bench()
    many = range(0, 6 * MOST, 6)  # all of one task
    await bench.put_all(2, *many, *many, 4)
    assert 4 in bench.groups[0]


async def test_what_fails_alone_fails_nobody_else_and_holds_nobody_up() -> None:
    bench = Bench()
    failed: list[int] = []

    async def put(item: int) -> None:
        try:
            await bench.put(item)
        except StoreError:
            failed.append(item)

    for round_ in ([13], [2, 13, 4], [6]):
        with anyio.fail_after(PATIENCE_SECONDS):
            async with anyio.create_task_group() as group:
                for item in round_:
                    group.start_soon(put, item)
    assert failed == [13, 13]
    assert bench.done == {2: 4, 4: 8, 6: 12}


@pytest.mark.parametrize("first_goes", [True, False])
async def test_what_is_cancelled_while_it_waits_is_done_and_so_are_the_others(
    *, first_goes: bool
) -> None:
    bench = Bench()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            scopes = [anyio.CancelScope() for _ in range(3)]

            async def put(scope: anyio.CancelScope, item: int) -> None:
                with scope:
                    await bench.put(item)

            for scope, item in zip(scopes, (2, 4, 6), strict=True):
                group.start_soon(put, scope, item)
            await anyio.lowlevel.checkpoint()
            scopes[0 if first_goes else 1].cancel()
    assert sorted(item for group in bench.groups for item in group) == [2, 4, 6]
    await bench.put_all(8, 10)
    assert (bench.done[8], bench.done[10]) == (16, 20)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    with ExitStack() as closing:
        database = make_store(tmp_path)
        closing.callback(database.close)
        yield database


def test_works_of_several_tasks_are_one_transaction_in_the_order_of_their_tasks(
    store: Database,
) -> None:
    seen: list[tuple[int, Transaction]] = []

    def work(number: int, tx: Transaction) -> int:
        seen.append((number, tx))
        return number

    works = [(B, partial(work, 0)), None, (A, partial(work, 2)), (B, partial(work, 3))]
    assert store_together(store, "test", works) == [0, None, 2, 3]
    (two, first), (zero, second), (three, third) = seen
    assert (two, zero, three) == (2, 0, 3)
    assert first is second
    assert third is not first  # another one of the same task


@pytest.mark.parametrize("error", [StoreError("no"), MemoryError()])
def test_if_one_work_fails_none_of_its_transaction_is_stored(
    store: Database, error: Exception
) -> None:
    def refuse(tx: Transaction) -> int:
        raise tx.refuse(error)

    assert store_together(store, "test", [(A, lambda _: 1), (B, refuse)]) == [None, None]
    assert store_together(store, "test", [None, (B, lambda _: 1)]) == [None, 1]


def test_an_attempt_that_fails_returns_nothing() -> None:
    assert attempt(lambda: 1 // 1) == 1
    assert attempt(lambda: 1 // 0) is None
