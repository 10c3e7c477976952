"""Bodies that come together hold no more than a budget, and the slowest gives way."""

import asyncio

import anyio
import anyio.lowlevel
import pytest
from starlette.requests import Request
from starlette.types import Message

from aggregator.dap.problems import TooManyRequests
from aggregator.web import intake
from aggregator.web.intake import BodyTooSlow, Intake

pytestmark = pytest.mark.anyio

END = b""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Sender:
    """Sends a body in steps, as the test says."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()

    def send(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    def request(self) -> Request:
        async def receive() -> Message:
            chunk = await self._chunks.get()
            return {"type": "http.request", "body": chunk, "more_body": chunk != END}

        return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def read(budget: Intake, sender: Sender, outcomes: list[object], name: str) -> None:
    with budget.request() as body:
        try:
            outcomes.append((name, len(await body.read(sender.request(), 1000))))
        except (BodyTooSlow, TooManyRequests) as error:
            outcomes.append((name, type(error)))


async def test_the_slowest_body_gives_way_to_one_that_comes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "_SETTLED_SECONDS", 0.05)
    outcomes: list[object] = []
    budget = Intake(100)
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


async def test_once_all_bodies_have_come_the_newcomer_is_asked_to_come_again() -> None:
    outcomes: list[object] = []
    budget = Intake(100)
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


async def test_a_body_that_drips_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "GRACE_SECONDS", 0.1)
    outcomes: list[object] = []
    sender = Sender()
    async with anyio.create_task_group() as group:
        group.start_soon(read, Intake(), sender, outcomes, "dripping")
        for _ in range(5):
            sender.send(b"x")
            await anyio.sleep(0.05)
    assert outcomes == [("dripping", BodyTooSlow)]
