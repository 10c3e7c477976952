"""A client's sender whose requests go where a test's HTTP client sends them."""

import asyncio
from collections.abc import Mapping

import httpx
from typing_extensions import override

from aggregator.client.sender import Later
from aggregator.client.stdlib_sender import HttpSender


class ThroughHttp(HttpSender):
    """Sends over an HTTP client of the event loop in which it is made, from other threads."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        super().__init__()
        self._http, self._loop = http, asyncio.get_running_loop()

    @override
    def _exchange(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], limit: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        sent = self._http.request(method, url, content=body, headers=dict(headers))
        try:
            answer = asyncio.run_coroutine_threadsafe(sent, self._loop).result()
        except httpx.HTTPError as error:
            raise Later("unreachable") from error
        return answer.status_code, dict(answer.headers), answer.content
