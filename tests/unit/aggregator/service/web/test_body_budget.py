"""Bodies that come together hold no more than a budget, and the slowest gives way."""

import asyncio
import traceback
import tracemalloc
from contextlib import nullcontext

import anyio
import anyio.lowlevel
import pytest
from starlette.requests import Request
from starlette.types import Message

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import MessageTooLarge, Problem, TooManyRequests
from aggregator.service.web import body_budget
from aggregator.service.web.body_budget import IS_WHOLE, BodyBudget, BodyTooSlow

END = b""
FLOOD, OTHER = TaskId(bytes(32)), TaskId(bytes([1] * 32))


class Sender:
    """Sends a body in steps, as the test says."""

    def __init__(self, task: TaskId | None = None, size: int = 0) -> None:
        """Send for a task; `size` bytes at once and no more, if given."""
        self._task = task
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()

        if size:
            self.send(bytes(size))
            self.send(END)

    def send(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    def request(self) -> Request:
        async def receive() -> Message:
            chunk = await self._chunks.get()
            return {"type": "http.request", "body": chunk, "more_body": chunk != END}

        scope = {"type": "http", "method": "POST", "headers": [], "dap_task_id": self._task}
        return Request(scope, receive)


async def read(
    budget: BodyBudget,
    sender: Sender,
    outcomes: list[object],
    name: str,
    answered: anyio.Event | None = None,
) -> None:
    with budget.request() as body:
        try:
            outcomes.append((name, len(await body.read(sender.request(), 1000))))
            if answered is not None:
                await answered.wait()
        except (BodyTooSlow, TooManyRequests) as error:
            outcomes.append((name, type(error)))


async def test_the_slowest_body_gives_way_to_one_that_comes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_budget, "_SETTLED_SECONDS", 0.05)
    outcomes: list[object] = []
    budget = BodyBudget(100)
    slow, slower, quick = Sender(), Sender(), Sender()
    async with anyio.create_task_group() as group:
        for name, sender, size in (("slow", slow, 60), ("slower", slower, 40)):
            group.start_soon(read, budget, sender, outcomes, name)
            sender.send(bytes(size))
        await anyio.sleep(0.1)
        quick.send(bytes(30))
        quick.send(END)
        await read(budget, quick, outcomes, "quick")
        await anyio.lowlevel.checkpoint()
        slow.send(END)
    assert sorted(map(str, outcomes)) == sorted(
        map(str, [("quick", 30), ("slower", BodyTooSlow), ("slow", 60)])
    )


async def test_a_body_in_pieces_of_two_bytes_takes_little_more_memory_than_one_at_once() -> None:
    """A stranger chooses the pieces, and the budget counts bytes: an object of two takes forty."""
    pieces, taken = 20_000, 0

    async def receive() -> Message:
        nonlocal pieces, taken
        pieces -= 1
        if not pieces:
            taken = tracemalloc.get_traced_memory()[0]
        return {"type": "http.request", "body": b"%02d" % (pieces % 100), "more_body": pieces > 0}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    tracemalloc.start()
    try:
        with BodyBudget(100_000).request() as body:
            assert len(await body.read(request, 100_000)) == 40_000
    finally:
        tracemalloc.stop()
    assert taken < 4 * 40_000


async def test_once_all_bodies_have_come_the_newcomer_is_asked_to_come_again() -> None:
    outcomes: list[object] = []
    budget = BodyBudget(100)
    first, second = Sender(), Sender()
    for sender in (first, second):
        sender.send(bytes(80))
        sender.send(END)
    with budget.request() as held:
        assert len(await held.read(first.request(), 1000)) == 80
        await read(budget, second, outcomes, "second")
    third = Sender()
    third.send(bytes(100))
    third.send(END)
    await read(budget, third, outcomes, "third")
    assert outcomes == [("second", TooManyRequests), ("third", 100)]


async def test_one_task_may_use_an_idle_budget_and_gives_way_to_another() -> None:
    outcomes: list[object] = []
    budget, uploading = BodyBudget(100), Sender(FLOOD)
    async with anyio.create_task_group() as group:
        group.start_soon(read, budget, uploading, outcomes, "flood")
        uploading.send(bytes(90))
        await anyio.sleep(0.01)
        await read(budget, Sender(OTHER, 40), outcomes, "other")
        uploading.send(END)
    assert outcomes == [("other", 40), ("flood", TooManyRequests)]


async def test_what_a_flood_gives_back_is_for_the_task_that_has_less_than_its_share() -> None:
    outcomes: list[object] = []
    budget, answered = BodyBudget(100), anyio.Event()
    async with anyio.create_task_group() as group:
        for name in ("first", "second"):
            group.start_soon(read, budget, Sender(FLOOD, 50), outcomes, name, answered)
        await anyio.sleep(0.01)
        group.start_soon(read, budget, Sender(OTHER, 50), outcomes, "other")
        await anyio.sleep(0.01)
        await read(budget, Sender(FLOOD, 10), outcomes, "third")
        assert outcomes == [("first", 50), ("second", 50), ("third", TooManyRequests)]
        answered.set()
        await read(budget, Sender(FLOOD, 10), outcomes, "fourth")
    assert ("other", 50) in outcomes


async def test_no_task_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "GRACE_SECONDS", 0.05)
    outcomes: list[object] = []
    budget, answered = BodyBudget(100), anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(read, budget, Sender(FLOOD, 100), outcomes, "flood", answered)
        await anyio.sleep(0.01)
        await read(budget, Sender(OTHER, 50), outcomes, "other")
        answered.set()
    assert outcomes == [("flood", 100), ("other", TooManyRequests)]
    await read(budget, Sender(OTHER, 100), outcomes, "later")
    assert outcomes[-1] == ("later", 100)


async def test_a_body_that_drips_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "GRACE_SECONDS", 0.1)
    outcomes: list[object] = []
    sender = Sender()
    async with anyio.create_task_group() as group:
        group.start_soon(read, BodyBudget(100), sender, outcomes, "dripping")
        for _ in range(5):
            sender.send(b"x")
            await anyio.sleep(0.05)
    assert outcomes == [("dripping", BodyTooSlow)]


@pytest.mark.parametrize(("more", "error"), [(0, BodyTooSlow), (2000, MessageTooLarge)])
async def test_an_error_that_is_kept_keeps_none_of_the_bytes_that_were_given_to_others(
    monkeypatch: pytest.MonkeyPatch, more: int, error: type[Problem]
) -> None:
    """Or who sends slowly fills the memory of an aggregator until it collects garbage."""
    monkeypatch.setattr(body_budget, "GRACE_SECONDS", 0.0)
    sender = Sender()
    sender.send(bytes(60))
    if more:
        sender.send(bytes(more))
    with BodyBudget(100).request() as body:
        with pytest.raises(error) as kept:
            await body.read(sender.request(), 1000)
        assert body.held == 60
    frames = [frame for frame, _ in traceback.walk_tb(kept.value.__traceback__)]
    buffers = [frame.f_locals["pieces"] for frame in frames if "pieces" in frame.f_locals]
    assert bool(buffers) is bool(more)
    assert not any(buffers)


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_body_that_has_come_whole_is_read_without_a_time_limit(
    monkeypatch: pytest.MonkeyPatch, *, is_whole: bool
) -> None:
    class Refused(Exception):
        pass

    def refuse() -> None:
        raise Refused

    monkeypatch.setattr(body_budget, "TimeLimit", refuse)
    request = Sender(size=60).request()
    request.scope[IS_WHOLE] = lambda: is_whole
    with BodyBudget(100).request() as body, nullcontext() if is_whole else pytest.raises(Refused):
        assert await body.read(request, 1000) == bytes(60)
