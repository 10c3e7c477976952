"""What a peer's answer means: a message, a refusal for good, or that we do not know what it did.

Source: DAP, "HTTP Usage" and "Errors"; RFC 9457.
"""

import dataclasses
import email.utils
import json
import os
import ssl
from collections.abc import Mapping
from typing import ClassVar, Protocol

import httpx

from aggregator.codec import DecodeError, Message, decode
from aggregator.dap.problems import Problem, abort_from_problem
from aggregator.dap.resources import media_type, message_of
from aggregator.errors import PeerError

MAX_RETRY_AFTER_SECONDS = 3600
_FAILURES: Mapping[type[BaseException], str] = {
    httpx.ConnectTimeout: "no connection in time",
    httpx.ReadTimeout: "no answer in time",
    TimeoutError: "no answer in time",
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
        headers: The answer's.
    """

    def __init__(
        self, problem: Problem, status: int, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"refused with status {status}: {problem}")
        self.headers: Mapping[str, str] = {} if headers is None else headers
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


def is_transient(response: httpx.Response) -> bool:
    """Return whether the same request may be answered otherwise soon."""
    status = response.status_code
    is_error = response.is_server_error and status not in _LASTING_STATUSES
    return is_error or status in _TRANSIENT_STATUSES


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
