"""A client's requests, with the standard library alone, so that a client starts quickly."""

import http.client
import json
import re
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from aggregator.client.sender import Later, Refused, TooLarge
from aggregator.dap.profile import ERROR_NAMESPACE
from aggregator.dap.resources import media_type, message_of
from aggregator.dap.times import DAY

SECONDS = 30.0
"""How long one request may take."""

_TOO_MANY = 429
_SERVERS_FAULT = 500
_MOST_PROBLEM_BYTES = 2**16
_NAMED = re.compile(re.escape(ERROR_NAMESPACE) + r"(\w{1,64})", re.ASCII)


class HttpSender:
    """Sends by `http.client`, over one connection to each host, from one thread at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.clock_ahead: int | None = None
        self._seconds = seconds
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def get(self, url: str, message: str, limit: int) -> bytes:
        """See `Sender`."""
        return self._ask("GET", url, None, {}, message, limit)

    def post(self, url: str, message: str, body: bytes, answer: str, limit: int) -> bytes:
        """See `Sender`."""
        return self._ask("POST", url, body, {"content-type": media_type(message)}, answer, limit)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _ask(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        message: str,
        limit: int,
    ) -> bytes:
        status, answered, content = self._exchange(
            method, url, body, headers, max(limit, _MOST_PROBLEM_BYTES)
        )
        self._note_date(answered.get("date", ""))
        if status == http.client.OK:
            given = answered.get("content-type")
            is_another = bool(content or given) and message_of(given) != message
            if len(content) > limit or is_another:
                raise Later("not_an_aggregator")
            return content
        if status == http.client.REQUEST_ENTITY_TOO_LARGE:
            raise TooLarge
        wait = answered.get("retry-after", "")
        seconds = min(int(wait[:10]), DAY) if wait.isdecimal() else 0
        if status == _TOO_MANY or status >= _SERVERS_FAULT:
            raise Later("busy", seconds)
        raise _refusal(answered.get("content-type", ""), content) or Later(
            "not_an_aggregator", seconds
        )

    def _exchange(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], limit: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        parts = urlsplit(url)
        place = (parts.scheme, parts.netloc)
        # A kept connection may have been closed by now: then try once more over a new one.
        for is_last in (place not in self._connections, True):
            connection = self._connections.get(place) or self._connect(*place)
            deadline = time.monotonic() + self._seconds
            try:
                connection.request(
                    method, parts.path, body, {"accept-encoding": "identity", **headers}
                )
                answer = connection.getresponse()
                content = _whole(answer, limit, deadline)
                if answer.will_close or len(content) > limit:
                    self._connections.pop(place).close()
            except (OSError, http.client.HTTPException) as error:
                self._connections.pop(place, connection).close()
                if is_last:
                    raise Later("unreachable") from error
            else:
                return answer.status, {k.lower(): v for k, v in answer.getheaders()}, content
        raise AssertionError  # the last round returns or raises

    def _connect(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        connection = (
            http.client.HTTPSConnection(
                netloc, timeout=self._seconds, context=ssl.create_default_context()
            )
            if scheme == "https"
            else http.client.HTTPConnection(netloc, timeout=self._seconds)
        )
        self._connections[scheme, netloc] = connection
        return connection

    def _note_date(self, date: str) -> None:
        try:
            self.clock_ahead = round(time.time() - parsedate_to_datetime(date).timestamp())
        except (ValueError, TypeError, OverflowError, OSError):  # years that no clock has
            return


def _whole(answer: http.client.HTTPResponse, limit: int, deadline: float) -> bytes:
    """Return the body of an answer, or more than `limit` bytes of it.

    An answer to an upload that was cut off would make the reports whose refusals are missing count
    as accepted, and the library does not report that. So an answer without a marked end is refused.
    """
    size = answer.length
    if size is None and not answer.chunked and answer.status == http.client.OK:
        raise http.client.UnknownTransferEncoding
    content = b""
    while len(content) <= limit and (size is None or len(content) < size):
        part = answer.read1(2**16 if size is None else min(2**16, size - len(content)))
        if not part:
            if size is not None:
                raise http.client.IncompleteRead(b"", size - len(content))
            break
        content += part
        if time.monotonic() > deadline:
            raise TimeoutError
    answer.close()  # or the connection is not free, and the next request is sent twice
    return content


def _refusal(content_type: str, content: bytes) -> Refused | None:
    """Return an aggregator's refusal, if this is one."""
    if not content_type.lower().startswith("application/problem+json"):
        return None
    try:
        kind = json.loads(content)["type"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    named = _NAMED.fullmatch(str(kind))
    return Refused(named[1]) if named else None
