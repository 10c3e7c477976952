"""A man in the middle drops, cuts and changes answers of both aggregators, to all who ask.

He gains if a report counts twice, or not at all, or if a batch is spent and nobody can open it.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from typing_extensions import override

from aggregator.client import AsyncClient, bulk
from aggregator.collector.collect import Collection, Pending, TaskCollector
from aggregator.collector.results.result import Result
from aggregator.service.leader.collections import CollectionDriver
from aggregator.service.transport import peer
from aggregator.service.transport.driver import DriverSettings
from aggregator.service.transport.interpretation import PeerUnreachable
from tests.support.pair import COLLECTOR_TOKEN, LEASE_SECONDS, Pair, Service
from tests.support.tasks import HELPER_URL, LEADER_URL, collector_keypair, make_task
from tests.support.through_http import ThroughHttp

MEASUREMENTS = [0, 1, 1, 2, 3, 3, 3, 0, 1]
Plan = Callable[[int, httpx.Request, httpx.Response], httpx.Response]


def dropped(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("the connection broke", request=request)


def cut(answer: httpx.Response) -> httpx.Response:
    """Return half of an answer that looks whole."""
    half = answer.content[: len(answer.content) // 2]
    headers = {k: v for k, v in answer.headers.items() if k.lower() != "content-length"}
    return httpx.Response(answer.status_code, content=half, headers=headers)


def drop_and_cut(number: int, request: httpx.Request, answer: httpx.Response) -> httpx.Response:
    """Drop every third answer to a request, and cut every second of the rest."""
    if number % 3 == 0:
        return dropped(request)
    return cut(answer) if number % 3 == 1 else answer


def lie(number: int, request: httpx.Request, answer: httpx.Response) -> httpx.Response:
    """Turn some bit of every second share, and answer every third upload with a page."""
    path = request.url.path
    if "/aggregate_shares" in path and number % 2 and answer.content:
        turned = bytearray(answer.content)
        turned[-1 - number % 40] ^= 1  # in its ciphertext, which nobody but the collector can open
        return httpx.Response(answer.status_code, content=bytes(turned), headers=answer.headers)
    if path.endswith("/reports") and number % 3 == 0:
        return httpx.Response(404, text="<html>no such page</html>")
    return answer


class Middle(httpx.AsyncBaseTransport):
    """Carries every request, and does with the answers what he has planned."""

    def __init__(self, plan: Plan, *services: tuple[str, Service]) -> None:
        self._numbers = Counter[tuple[str, str, bytes]]()
        self.seen: list[str] = []
        self._plan = plan
        self._wires = {
            httpx.URL(url).host: httpx.ASGITransport(service) for url, service in services
        }

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        answer = await self._wires[request.url.host].handle_async_request(request)
        await answer.aread()
        self.seen.append(f"{request.method} {request.url.path}")
        same = (request.method, request.url.path, request.content)
        self._numbers[same] += 1
        return self._plan(self._numbers[same] - 1, request, answer)


async def outlasting(collector: TaskCollector, pair: Pair) -> tuple[Collection, Result]:
    """Collect as the collector's service does, which asks again whatever came of it."""
    request, collection = pair.request(), None
    for _ in range(60):
        try:
            if collection is None:
                collection, state = await collector.start(request)
            else:
                state = await collector.poll(collection)
            if not isinstance(state, Pending):
                return collection, state
        except PeerUnreachable:
            pass
        await pair.work()
        pair.clock.advance(LEASE_SECONDS + 31)
    raise AssertionError("the collection never ends")


@pytest.mark.parametrize("plan", [drop_and_cut, lie], ids=lambda plan: plan.__name__)
@pytest.mark.parametrize("batch_mode", ["time_interval", "leader_selected"])
async def test_every_report_counts_once_whatever_becomes_of_answers(
    tmp_path: Path, batch_mode: str, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "_wait", lambda *_: 0.0)
    monkeypatch.setattr(bulk._Call, "_pause", lambda *_: None)
    monkeypatch.setattr(bulk, "ATTEMPTS", 12)
    task = make_task(min_batch_size=len(MEASUREMENTS), batch_mode=batch_mode)
    pair = Pair(tmp_path, task, job_size=2)
    middle = Middle(plan, (LEADER_URL, pair.leader), (HELPER_URL, pair.helper))
    try:
        await pair.provision()
        async with httpx.AsyncClient(transport=middle) as pair.http:
            sender = ThroughHttp(pair.http)
            client = AsyncClient(task, sender=sender, clock=pair.clock, reports_per_request=2)
            summary = await client.upload(MEASUREMENTS)
            assert (summary.accepted, dict(summary.refused)) == (len(MEASUREMENTS), {})
            collector = TaskCollector(task, collector_keypair(), COLLECTOR_TOKEN, pair.http)
            collection, result = await outlasting(collector, pair)
            assert (result.report_count, result.values) == (9, (2, 3, 1, 3))
            if task.batching.leader_selects:
                await collector.forget(collection)
        assert any("/aggregate_shares" in each for each in middle.seen)
    finally:
        await pair.close()


async def test_a_share_is_confirmed_by_a_helper_that_asks_for_rest_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the one answer, with a bit turned on its way, would be the batch's for ever."""
    monkeypatch.setattr(peer, "_wait", lambda *_: 0.0)

    def turned_and_busy(
        number: int, request: httpx.Request, answer: httpx.Response
    ) -> httpx.Response:
        if "/aggregate_shares" not in request.url.path or number > 5:
            return answer
        return lie(1, request, answer) if number == 0 else busy

    busy = httpx.Response(503, headers={"retry-after": "60"})
    pair = Pair(tmp_path, make_task(min_batch_size=len(MEASUREMENTS)))
    middle = Middle(turned_and_busy, (LEADER_URL, pair.leader), (HELPER_URL, pair.helper))
    try:
        await pair.provision()
        await pair.upload(await pair.reports(MEASUREMENTS))
        async with httpx.AsyncClient(transport=middle) as pair.http:
            await pair.work()
            answer = await pair.ask()
            settings = DriverSettings(concurrency=1, lease_seconds=LEASE_SECONDS, max_attempts=5)
            driver = CollectionDriver(pair.leader.runtime, pair.http, settings)
            await driver.run_once()
            body = (await pair.poll(answer.headers["location"])).body
        assert pair.open(body).values == (2, 3, 1, 3)
    finally:
        await pair.close()


@pytest.mark.parametrize(
    ("status", "content"), [(503, b""), (202, b""), (200, b"no share"), (200, b"")]
)
async def test_a_share_of_which_one_answer_came_waits_for_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, content: bytes
) -> None:
    """The helper is away for long after an answer with a bit turned on its way, or seems to be."""
    monkeypatch.setattr(peer, "_wait", lambda *_: 0.0)
    is_away = True

    def turned_and_away(
        number: int, request: httpx.Request, answer: httpx.Response
    ) -> httpx.Response:
        if "/aggregate_shares" not in request.url.path or not is_away:
            return answer
        headers = {name: answer.headers[name] for name in ("location", "content-type")}
        away = httpx.Response(status, content=content, headers=headers)
        return lie(1, request, answer) if number == 0 else away

    pair = Pair(tmp_path, make_task(min_batch_size=len(MEASUREMENTS)))
    middle = Middle(turned_and_away, (LEADER_URL, pair.leader), (HELPER_URL, pair.helper))
    try:
        await pair.provision()
        await pair.upload(await pair.reports(MEASUREMENTS))
        async with httpx.AsyncClient(transport=middle) as pair.http:
            await pair.work()
            answer = await pair.ask()
            settings = DriverSettings(concurrency=1, lease_seconds=LEASE_SECONDS, max_attempts=5)
            driver = CollectionDriver(pair.leader.runtime, pair.http, settings)
            await driver.run_once()
            assert (await pair.poll(answer.headers["location"])).body == b""
            is_away = False
            pair.clock.advance(3600)
            await driver.run_once()
            body = (await pair.poll(answer.headers["location"])).body
        assert pair.open(body).values == (2, 3, 1, 3)
    finally:
        await pair.close()
