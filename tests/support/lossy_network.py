"""A network between parties in one process that loses, repeats, delays and reorders requests."""

import contextlib
import random

import httpx
from typing_extensions import override

from tests.support.pair import Service

LOST, LATE, UNANSWERED, REPEATED = 0.07, 0.14, 0.24, 0.31
"""Where the chances end that a request is lost, late, not answered, or carried twice."""


class Network(httpx.AsyncBaseTransport):
    """Carries requests to both aggregators, not always once, in order, or with an answer."""

    def __init__(self, choose: random.Random, services: dict[str, Service]) -> None:
        self.is_calm = False
        self._choose = choose
        self._wires = {
            httpx.URL(url).host: httpx.ASGITransport(service) for url, service in services.items()
        }
        self._late: list[httpx.Request] = []

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        fate = 1.0 if self.is_calm else self._choose.random()
        if fate < LOST:
            raise httpx.ConnectError("lost", request=request)
        if fate < LATE:
            self._late.append(request)
            raise httpx.ReadTimeout("late", request=request)
        if fate < UNANSWERED:
            await self._deliver(request)
            raise httpx.ReadError("the answer is lost", request=request)
        if fate < REPEATED:
            await self._deliver(request)
        return await self._deliver(request)

    async def deliver_all(self) -> None:
        """Deliver all of the requests that nobody waits for any more."""
        while self._late:
            await self.deliver_late()

    async def deliver_late(self) -> None:
        """Deliver one of them."""
        if not self._late:
            return
        request = self._late.pop(self._choose.randrange(len(self._late)))
        with contextlib.suppress(httpx.TransportError):
            await self._deliver(request)

    async def _deliver(self, request: httpx.Request) -> httpx.Response:
        again = httpx.Request(
            request.method, request.url, headers=request.headers, content=request.content
        )
        answer = await self._wires[request.url.host].handle_async_request(again)
        await answer.aread()
        assert answer.status_code < 500, (request.method, str(request.url), answer.content)
        return answer
