"""Sends a DAP message to another party's resource and reads the answer.

A bearer token goes to the configured endpoint's origin and nowhere else: redirects are not followed
and a `Location` of another origin is refused. Transient failures are retried a few times here and
then reported as `PeerUnreachable`, so that a driver comes back later with the same bytes; a problem
document is reported as `PeerRefused`.

We read no more bytes of an answer than the request can yield, uncompressed. All attempts together
take no longer than a fixed time, even if an answer keeps trickling in.

Source: DAP, "HTTP Usage" and "Asynchronous Request Handling"; RFC 9457.
"""

import dataclasses
import email.utils
import json
import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import ClassVar, Protocol

import anyio
import httpx
from typing_extensions import override

from aggregator.codec import DecodeError, Message, decode
from aggregator.dap.auth import TokenHeader
from aggregator.dap.problems import Problem, abort_from_problem
from aggregator.dap.resources import media_type, message_of
from aggregator.errors import PeerError
from aggregator.service.telemetry.metrics import PEER_REQUEST_SECONDS
from aggregator.service.telemetry.tracing import SpanKind, note, span, traceparent

MAX_SHORT_ANSWER = 64 * 2**10
"""The most bytes of a problem document, or of an answer that should carry nothing."""

MAX_LOCATION = 2048
"""The most characters of a resource's URL, which is stored."""

MAX_RETRY_AFTER_SECONDS = 3600
_FAILURES: Mapping[type[BaseException], str] = {
    httpx.ConnectTimeout: "no connection in time",
    httpx.ReadTimeout: "no answer in time",
    httpx.WriteTimeout: "it takes no more of the request",
    httpx.RemoteProtocolError: "the connection broke, or the answer is not HTTP",
    httpx.ReadError: "the connection broke",
}
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_LASTING_STATUSES = frozenset({501, 505})
"""The server errors that are not transient; an unknown one is treated like 500."""


class PeerUnreachable(PeerError):
    """No answer, or one that says to come again: we do not know what the peer did.

    Attributes:
        retry_after: Seconds that the peer asked us to wait, if it did.
        is_unprocessed: Whether we know that the peer did nothing: there was no connection, the peer
            takes no more requests (429), or the body was not sent to its end.
    """

    def __init__(
        self, message: str, retry_after: int | None = None, *, is_unprocessed: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_unprocessed = is_unprocessed


class PeerRefused(PeerError):
    """The peer refused the request for good.

    Attributes:
        problem: Why, by its problem document; of type `about:blank` if there was none.
        status: The HTTP status code.
        is_unprocessed: Whether the request has certainly changed nothing: the status is 4xx, and no
            earlier attempt of the same call has an unknown outcome.
    """

    def __init__(self, problem: Problem, status: int) -> None:
        super().__init__(f"refused with status {status}: {problem}")
        self.problem = problem
        self.status = status
        self.is_unprocessed = httpx.codes.is_client_error(status)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer.

    Attributes:
        body: Empty if the peer is not ready yet.
        location: The resource's absolute URL at the endpoint's origin, if the peer named one.
        retry_after: Seconds that the peer asked us to wait, if it did.
        headers: All headers, lower case.
    """

    body: bytes = dataclasses.field(repr=False)
    location: str | None
    retry_after: int | None
    headers: dict[str, str] = dataclasses.field(repr=False)

    def carried(self, message: str) -> bytes:
        """Return the body, which must be the given message unless it is empty.

        Args:
            message: The message's name in the media type.

        Raises:
            PeerUnreachable: It is something else, such as a proxy's page: we do not know what the
                peer would have answered.
        """
        content_type = self.headers.get("content-type")
        if self.body and message_of(content_type) != message:
            raise PeerUnreachable(f"the answer is not {media_type(message)}")
        return self.body

    def is_whole(self, carried: "type[Carried]") -> bool:
        """Return whether the body is empty or decodes as such a message."""
        try:
            body = self.carried(carried.message)
            if body:
                decode(carried, body)
        except (PeerUnreachable, DecodeError):
            return False
        return True


class Carried(Message, Protocol):
    """A message that is a whole body."""

    message: ClassVar[str]


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
        self._sleep = sleep

    @override
    def __repr__(self) -> str:
        """Name the endpoint, without the token."""
        return f"Peer({str(self._base)!r})"

    async def get(
        self, target: str, *, limit: int = MAX_SHORT_ANSWER, carrying: type[Carried] | None = None
    ) -> Answer:
        """Read a resource, by its path below the endpoint or its absolute URL.

        Args:
            target: The resource.
            limit: The most bytes of the answer.
            carrying: The message that the answer should be, unless it is empty. Any other answer
                may have been truncated in transit, so we ask again; the last is returned as it is.
        """
        return await self._send("GET", target, None, None, limit, carrying)

    async def post(
        self,
        target: str,
        media_type: str,
        body: bytes,
        *,
        limit: int = MAX_SHORT_ANSWER,
        carrying: type[Carried] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a message, with extra headers if given; for `limit` and `carrying` see `get`."""
        return await self._send("POST", target, media_type, body, limit, carrying, headers)

    async def put(
        self,
        target: str,
        media_type: str,
        body: bytes,
        *,
        limit: int = MAX_SHORT_ANSWER,
        carrying: type[Carried] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Create a resource at a path that we choose; for the arguments see `post`."""
        return await self._send("PUT", target, media_type, body, limit, carrying, headers)

    async def delete(self, target: str) -> Answer:
        """Delete a resource."""
        return await self._send("DELETE", target, None, None, MAX_SHORT_ANSWER, None)

    async def _send(
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
        headers = {**(more or {}), "accept-encoding": "identity"}
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
            raise PeerRefused(problem_of(response, content), status)
        location = response.headers.get("location")
        return Answer(
            body=content,
            location=None if location is None else str(self._located(location, request.url)),
            retry_after=retry_after,
            headers={name.lower(): value for name, value in response.headers.items()},
        )

    def _is_foreign(self, response: httpx.Response) -> bool:
        """Return whether a refusal is taken for a proxy's, not the party's own."""
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


def origin(endpoint: str) -> str:
    """Return the scheme, host and port of an endpoint, without its path; a log may show them."""
    url = httpx.URL(endpoint)
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}:{port}/"


def cause_of(error: BaseException) -> str:
    """Return why a request failed: the operating system's message, or the kind of failure."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, ssl.SSLCertVerificationError):
            return f"its certificate is refused: {below.verify_message}"
        if isinstance(below, OSError) and below.errno is not None:
            return os.strerror(below.errno).lower()
        if isinstance(below, BaseExceptionGroup):
            below = below.exceptions[0]
        else:
            below = below.__cause__ or below.__context__
    return _FAILURES.get(type(error), type(error).__name__)


def is_transient(response: httpx.Response) -> bool:
    """Return whether the same request may be answered otherwise soon."""
    status = response.status_code
    is_error = response.is_server_error and status not in _LASTING_STATUSES
    return is_error or status in _TRANSIENT_STATUSES


def is_problem(response: httpx.Response) -> bool:
    """Return whether an answer carries a problem document."""
    media_type: str = response.headers.get("content-type", "").split(";")[0].strip().lower()
    return media_type == "application/problem+json"


def problem_of(response: httpx.Response, content: bytes) -> Problem:
    """Return why a request was refused, as far as the answer says it."""
    if is_problem(response):
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):  # the latter if lists are nested too deeply
            document = None
        if isinstance(document, dict):
            return abort_from_problem(document)
    return Problem(detail=f"the peer answered with status {response.status_code}")


def retry_after_of(headers: httpx.Headers) -> int | None:
    """Return the seconds that a `Retry-After` header names, as a number or as a date.

    A date counts from the answer's own `Date`, so that no two clocks are compared.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        # Python refuses to parse a number with thousands of digits.
        digits = value.lstrip("0")
        is_long = len(digits) > len(str(MAX_RETRY_AFTER_SECONDS))
        return (
            MAX_RETRY_AFTER_SECONDS if is_long else min(int(digits or "0"), MAX_RETRY_AFTER_SECONDS)
        )
    try:
        wait = email.utils.parsedate_to_datetime(value) - email.utils.parsedate_to_datetime(
            headers.get("date", "")
        )
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0, min(int(wait.total_seconds()), MAX_RETRY_AFTER_SECONDS))


def _wait(attempt: int, retry_after: int | None) -> float:
    backoff = 0.25 * 2.0 ** (attempt - 1)
    return backoff if retry_after is None else max(backoff, min(float(retry_after), 5.0))
