"""A proxy between the leader and the helper of a pair that changes what passes."""

from collections.abc import Callable

import httpx

from tests.support.pair import Pair
from tests.support.tasks import HELPER_URL

Gate = Callable[[httpx.Request], httpx.Response | None]
"""Returns an answer in the helper's place, which then never sees the request; may raise."""

Change = Callable[[httpx.Request, httpx.Response], httpx.Response]
"""Returns what the leader gets for a request, given the helper's answer; may raise."""


class Between:
    """Stands between the aggregators; what it gets from the leader is in `requests`."""

    def __init__(self, pair: Pair) -> None:
        """Stand between the aggregators of `pair` from now on, and change nothing yet."""
        self._real = pair.http
        self.requests: list[httpx.Request] = []
        self.gate: Gate | None = None
        self.change: Change | None = None
        pair.http = httpx.AsyncClient(transport=httpx.MockTransport(self._pass))

    @property
    def posts(self) -> list[bytes]:
        """The bodies of the aggregation requests so far."""
        return [
            request.content
            for request in self.requests
            if request.method == "POST" and request.url.path.endswith("/aggregation_jobs")
        ]

    async def close(self) -> None:
        """Close the connection to the pair."""
        await self._real.aclose()

    async def _pass(self, request: httpx.Request) -> httpx.Response:
        is_inner = str(request.url).startswith(HELPER_URL) and "/tasks/" in request.url.path
        if is_inner:
            self.requests.append(request)
            instead = self.gate(request) if self.gate else None
            if instead is not None:
                return instead
        answer = await self._real.request(
            request.method, request.url, content=request.content, headers=request.headers
        )
        passed = httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)
        return self.change(request, passed) if is_inner and self.change else passed


def refusal(status: int, kind: str = "about:blank") -> httpx.Response:
    """Return an answer with a problem document."""
    headers = {"content-type": "application/problem+json"}
    return httpx.Response(status, json={"type": kind}, headers=headers)


def cut_short(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
    """Take the last byte off an answer."""
    headers = {name: answer.headers[name] for name in ("location", "content-type")}
    return httpx.Response(answer.status_code, content=answer.content[:-1], headers=headers)
