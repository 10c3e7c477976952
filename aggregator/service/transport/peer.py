"""Sends a DAP message to another party's resource and reads the answer.

A bearer token goes to the configured endpoint's origin and nowhere else: redirects are not followed
and a `Location` of another origin is refused. Transient failures are retried a few times here and
then reported as `PeerUnreachable`, so that a driver comes back later with the same bytes; a problem
document is reported as `PeerRefused`.

We read no more bytes of an answer than the request can yield, uncompressed. All attempts together
take no longer than a fixed time, even if an answer keeps trickling in.

Source: DAP, "HTTP Usage" and "Asynchronous Request Handling"; RFC 9457.
"""

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Literal

import anyio
import httpx
from typing_extensions import override

from aggregator.dap.auth import TokenHeader
from aggregator.dap.problems import Problem
from aggregator.dap.urls import origin
from aggregator.service.telemetry.metrics import PEER_REQUEST_SECONDS
from aggregator.service.telemetry.tracing import SpanKind, note, span, traceparent
from aggregator.service.transport.interpretation import (
    Answer,
    Carried,
    PeerRefused,
    PeerUnreachable,
    cause_of,
    is_problem,
    is_transient,
    problem_of,
    retry_after_of,
)

MAX_SHORT_ANSWER = 64 * 2**10
"""The most bytes of a problem document, or of an answer that should carry nothing."""

MAX_LOCATION = 2048
"""The most characters of a resource's URL, which is stored."""

LONGEST_PAUSE_SECONDS = 5
"""How long we wait between two attempts, at most. The last attempt tells the caller to wait longer:
some callers have only this request, and give up when it fails."""


class _Body:
    """A request's body, which knows how far it was sent.

    Its length is declared, so a peer that never got its end has no request to process. A peer that
    answers early and closes the connection may break it while we still send, and its answer is
    lost.

    Attributes:
        is_whole: Whether the last attempt handed over the last piece; the peer may then have
            processed the request.
    """

    _PIECE = 2**16

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.is_whole = not content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield its pieces, anew for each attempt."""
        self.is_whole = not self._content
        for start in range(0, len(self._content), self._PIECE):
            self.is_whole = start + self._PIECE >= len(self._content)
            yield self._content[start : start + self._PIECE]


class Peer:
    """One party's endpoint, and the token that it expects from us."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        endpoint: str,
        token: str | None = None,
        *,
        name: str = "peer",
        attempts: int = 3,
        seconds: float | None = None,
        only_problems_refuse: bool = False,
        token_header: TokenHeader = TokenHeader.AUTHORIZATION,
        headers: Mapping[str, str] | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Hold what all requests to one party share.

        Args:
            http: The client to send with; its redirects are never followed.
            endpoint: The party's base URL, with or without a path prefix.
            token: The token, if the party asks for one.
            name: What messages call it, such as "the helper".
            attempts: How many times a request is sent before it counts as unanswered.
            seconds: How long all attempts may take together; by default the client's read timeout.
            only_problems_refuse: Whether a 4xx status without a problem document is taken for a
                page of a proxy that cannot reach the party at the moment, and not for a refusal.
                Only 413 (body too large) always counts as a refusal.
            token_header: Where the token is shown.
            headers: Headers of each request.
            sleep: Waits between attempts.
        """
        self._http = http
        self._base = httpx.URL(endpoint if endpoint.endswith("/") else endpoint + "/")
        self._token = token
        self._origin = origin(endpoint)
        self._name = f"{name} {self._origin}"
        self._attempts = attempts
        self._seconds = seconds or http.timeout.read or math.inf
        self._only_problems_refuse = only_problems_refuse
        self._token_header = token_header
        self._headers = headers or {}
        self._sleep = sleep

    @override
    def __repr__(self) -> str:
        """Name the endpoint, without the token."""
        return f"Peer({str(self._base)!r})"

    async def get(
        self,
        target: str,
        *,
        limit: int = MAX_SHORT_ANSWER,
        carrying: type[Carried] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Read a resource, by its path below the endpoint or its absolute URL.

        Args:
            target: The resource.
            limit: The most bytes of the answer.
            carrying: The message that the answer should be, unless it is empty. Any other answer
                may have been truncated in transit, so we ask again; the last is returned as it is.
            headers: Extra headers.
        """
        return await self._request("GET", target, None, None, limit, carrying, headers)

    async def send(
        self,
        target: str,
        media_type: str,
        body: bytes,
        *,
        method: Literal["POST", "PUT"] = "POST",
        limit: int = MAX_SHORT_ANSWER,
        carrying: type[Carried] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a message, with extra headers if given; for `limit` and `carrying` see `get`."""
        return await self._request(method, target, media_type, body, limit, carrying, headers)

    async def delete(self, target: str) -> Answer:
        """Delete a resource."""
        return await self._request("DELETE", target, None, None, MAX_SHORT_ANSWER, None)

    async def _request(
        self,
        method: str,
        target: str,
        media_type: str | None,
        body: bytes | None,
        limit: int,
        carrying: type[Carried] | None,
        more: Mapping[str, str] | None = None,
    ) -> Answer:
        url = self._resource(target)
        # A few compressed bytes could expand to any number.
        headers = {**self._headers, **(more or {}), "accept-encoding": "identity"}
        if media_type is not None:
            headers["content-type"] = media_type
        if self._token is not None:
            headers |= self._token_header.shows(self._token)
        sent = None
        if body is not None:
            headers["content-length"] = str(len(body))
            sent = _Body(body)
        request = self._http.build_request(method, url, headers=headers, content=sent)
        # One deadline for all attempts bounds how long a driver holds its job.
        with anyio.move_on_after(self._seconds):
            return await self._send_patiently(request, sent, limit, carrying)
        raise self._unreachable("no complete answer in time")

    async def _send_patiently(
        self,
        request: httpx.Request,
        body: _Body | None,
        limit: int,
        carrying: type[Carried] | None,
    ) -> Answer:
        is_unprocessed = True
        for attempt in range(1, self._attempts + 1):
            try:
                answer = await self._send_timed(request, body, limit)
                if attempt == self._attempts or carrying is None or answer.is_whole(carrying):
                    return answer
                is_unprocessed = False
                await self._sleep(_wait(attempt, answer.retry_after))
            except PeerRefused as error:
                error.is_unprocessed &= is_unprocessed
                raise
            except PeerUnreachable as error:
                is_unprocessed &= error.is_unprocessed
                if attempt == self._attempts:
                    error.is_unprocessed = is_unprocessed
                    raise
                await self._sleep(_wait(attempt, error.retry_after))
        raise self._unreachable("no attempt was allowed")

    async def _send_timed(self, request: httpx.Request, body: _Body | None, limit: int) -> Answer:
        outcome, started = "unreachable", time.perf_counter()
        http = {"http.request.method": request.method}
        with span(request.method, SpanKind.CLIENT, None, http, peer=self._origin):
            request.headers["traceparent"] = traceparent()
            try:
                answer = await self._send_once(request, body, limit)
                outcome = "answered"
            except PeerRefused:
                outcome = "refused"
                raise
            finally:
                note(outcome=outcome)
                seconds = time.perf_counter() - started
                PEER_REQUEST_SECONDS.labels(self._origin, outcome).observe(seconds)
            return answer

    async def _send_once(self, request: httpx.Request, body: _Body | None, limit: int) -> Answer:
        try:
            response = await self._begin(request)
            try:
                content = await self._read(response, limit)
            finally:
                await response.aclose()
        except httpx.RequestError as error:
            is_cut = body is not None and not body.is_whole
            is_unsent = is_cut or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise self._unreachable(cause_of(error), is_unprocessed=is_unsent) from error
        retry_after = retry_after_of(response.headers)
        status = response.status_code
        note({"http.response.status_code": status})
        if is_transient(response):
            is_turned_away = status == httpx.codes.TOO_MANY_REQUESTS
            cause = f"status {status}"
            if is_turned_away and is_problem(response):
                cause += f": {problem_of(response, content)}"
            raise self._unreachable(cause, retry_after, is_unprocessed=is_turned_away)
        if self._is_foreign(response):
            raise self._unreachable(f"status {status} without a problem document", retry_after)
        if not response.is_success:
            raise PeerRefused(problem_of(response, content), status, response.headers)
        location = response.headers.get("location")
        return Answer(
            body=content,
            location=None if location is None else str(self._located(location, request.url)),
            retry_after=retry_after,
            headers={name.lower(): value for name, value in response.headers.items()},
        )

    def _is_foreign(self, response: httpx.Response) -> bool:
        """Return whether a refusal counts as a proxy's, not the party's own."""
        is_too_large = response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
        is_refusal = not response.is_success and not is_too_large
        return self._only_problems_refuse and is_refusal and not is_problem(response)

    def _unreachable(
        self, cause: str, retry_after: int | None = None, *, is_unprocessed: bool = False
    ) -> PeerUnreachable:
        return PeerUnreachable(
            f"{self._name} does not answer: {cause}", retry_after, is_unprocessed=is_unprocessed
        )

    async def _read(self, response: httpx.Response, limit: int) -> bytes:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise self._unreachable("the answer is compressed, which was not asked for")
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if not response.is_success:
                if len(content) > MAX_SHORT_ANSWER:
                    return b""  # its status says enough
            elif len(content) > limit:
                raise self._unreachable(
                    f"the answer is longer than the {limit} bytes that the request can yield"
                )
        return bytes(content)

    async def _begin(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._http.send(request, stream=True, follow_redirects=False)
        except AttributeError as error:
            # anyio over uvloop: if the peer resets a connection at once, as a dying process does,
            # the connection's socket is None, and anyio asks it for its address.
            if error.obj is not None:
                raise
            raise httpx.ConnectError("reset as it was made", request=request) from error
        except httpx.InvalidURL as error:  # where it redirects to: httpx looks, but does not follow
            raise httpx.RemoteProtocolError("it redirects to no URL", request=request) from error

    def _resource(self, target: str) -> httpx.URL:
        """Return the URL of a resource: a path below the endpoint, or a URL that we were given."""
        return self._own(self._base.join(target.removeprefix("/")))

    def _located(self, location: str, requested: httpx.URL) -> httpx.URL:
        """Return the URL that a `Location` names.

        An absolute path may leave out the endpoint's path prefix, as the draft's own examples do.
        """
        if len(location) > MAX_LOCATION:
            raise PeerRefused(Problem("the peer gave a resource too long a URL"), 502)
        is_absolute_path = location.startswith("/") and not location.startswith("//")
        is_without_prefix = is_absolute_path and not location.startswith(self._base.path)
        try:
            return (
                self._resource(location)
                if is_without_prefix
                else self._own(requested.join(location))
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise PeerRefused(Problem("the peer gave a resource an invalid URL"), 502) from error

    def _own(self, url: httpx.URL) -> httpx.URL:
        """Return `url` if it is of the endpoint's origin: the token goes nowhere else."""
        base = self._base
        if (url.scheme, url.host, url.port) != (base.scheme, base.host, base.port):
            raise PeerRefused(Problem("the peer named a resource of another origin"), 502)
        return url


def _wait(attempt: int, retry_after: int | None) -> float:
    """Return the seconds until a request's next attempt."""
    backoff = 0.25 * 2.0 ** (attempt - 1)
    return max(backoff, min(float(retry_after or 0), LONGEST_PAUSE_SECONDS))
