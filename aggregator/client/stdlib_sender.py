"""A client's requests, with the standard library alone, so that a client starts quickly.

It goes through the proxies that it is given and sends a token, or shows a certificate, where a
leader asks for one: whatever changes how an upload is sent is here.
"""

import base64
import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed lacks the second

from aggregator.client.sender import Later, Refused, TooLarge
from aggregator.dap.profile import ERROR_NAMESPACE
from aggregator.dap.resources import media_type, message_of
from aggregator.dap.times import DAY
from aggregator.errors import ParameterError

SECONDS = 30.0
"""How long one request may take."""

_PROXIED = ("http", "https", "all")
_TOO_MANY = 429
_SERVERS_FAULT = 500
_MOST_PROBLEM_BYTES = 2**16
_VISIBLE = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)
_NAMED = re.compile(re.escape(ERROR_NAMESPACE) + r"(\w{1,64})", re.ASCII)


class HttpSender:
    """Sends by `http.client`, over one connection to each host, one request at a time.

    Args:
        seconds: How long one request may take.
        headers: Of every upload, such as a token that the leader asks for; the helper never sees
            them.
        proxies: The URL of the proxy for each scheme, and under "no" the hosts that need none, as
            `environment_proxies` returns them. A proxy is spoken to over plain HTTP; what is
            for an https:// host goes through it unread.
        tls: Which authorities are trusted, and what certificate is shown; by default the system's,
            or those of SSL_CERT_FILE, and none.

    Raises:
        ParameterError: A proxy's URL is none that can be used, or a header cannot be sent. The
            message has no password and no value of a header.
    """

    def __init__(
        self,
        seconds: float = SECONDS,
        *,
        headers: Mapping[str, str] | None = None,
        proxies: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.clock_ahead: int | None = None
        self._heard: dict[str, int] = {}
        self._seconds = seconds
        self._headers = _checked(headers or {})
        self._proxies = dict(proxies or {})
        for scheme, url in self._proxies.items():
            if scheme in _PROXIED:
                _proxy_at(url)  # refused now if it cannot be used
        self._tls = tls
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}
        self._lock = threading.Lock()

    def date_of(self, url: str) -> int | None:
        """See `Sender`."""
        return self._heard.get(url)

    def get(self, url: str, message: str, limit: int) -> bytes:
        """See `Sender`."""
        return self._ask("GET", url, None, {"cache-control": "no-cache"}, message, limit)

    def post(self, url: str, message: str, body: bytes, answer: str, limit: int) -> bytes:
        """See `Sender`."""
        headers = {**self._headers, "content-type": media_type(message)}
        return self._ask("POST", url, body, headers, answer, limit)

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
        with self._lock:
            status, answered, content = self._exchange(
                method, url, body, headers, max(limit, _MOST_PROBLEM_BYTES)
            )
        self._note_date(url, answered)
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
        proxy = self._proxy(parts)
        target, headers = parts.path, {"accept-encoding": "identity", **headers}
        if proxy is not None and parts.scheme == "http":
            target, headers = url, {**headers, **_authorization(proxy)}
        # A kept connection may have been closed by now: then try once more over a new one.
        for is_last in (place not in self._connections, True):
            connection = self._connections.get(place) or self._connect(parts, proxy)
            deadline = time.monotonic() + self._seconds
            try:
                connection.request(method, target, body, headers)
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

    def _connect(self, parts: SplitResult, proxy: SplitResult | None) -> http.client.HTTPConnection:
        reached = parts.netloc if proxy is None else proxy.netloc.rpartition("@")[2]
        if parts.scheme == "https":
            if self._tls is None:
                self._tls = ssl.create_default_context()
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                reached, timeout=self._seconds, context=self._tls
            )
            if proxy is not None:
                made.set_tunnel(parts.hostname or "", parts.port or 443, _authorization(proxy))
        else:
            made = http.client.HTTPConnection(reached, timeout=self._seconds)
        self._connections[parts.scheme, parts.netloc] = made
        return made

    def _proxy(self, parts: SplitResult) -> SplitResult | None:
        url = self._proxies.get(parts.scheme) or self._proxies.get("all")
        if not url or proxy_bypass_environment(parts.netloc, self._proxies):
            return None
        return _proxy_at(url)

    def _note_date(self, url: str, answered: Mapping[str, str]) -> None:
        self._heard.pop(url, None)
        if "age" in answered:  # a cache has kept it
            return
        try:
            date = parsedate_to_datetime(answered.get("date", "")).timestamp()
            self.clock_ahead = round(time.time() - date)
            self._heard[url] = int(date)
        except (ValueError, TypeError, OverflowError, OSError):  # years that no clock has
            return


def environment_proxies() -> Mapping[str, str]:
    """Return the proxies that HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY name."""
    return getproxies()


def _proxy_at(url: str) -> SplitResult:
    try:
        proxy = urlsplit(url if "://" in url else f"http://{url}")
        _ = proxy.port  # read here: in a URL that is cut wrongly it is a part of the password
    except ValueError:
        # `from None`: the cause may quote that part.
        raise ParameterError(
            "proxy: must be a URL; a / or # or [ in its password is written %2F, %23 or %5B"
        ) from None
    if proxy.scheme != "http" or not proxy.hostname:
        shown = f"{proxy.scheme}://{proxy.hostname or ''}"  # without a user's password
        raise ParameterError(f"proxy: must be an http:// URL with a host, not {shown}")
    return proxy


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers that can be sent; the library would quote a token that cannot."""
    for name, value in headers.items():
        if not _VISIBLE.fullmatch(value):
            raise ParameterError(
                f"headers: {name} must be ASCII text in one line, without spaces around it"
            )
    return dict(headers)


def _authorization(proxy: SplitResult) -> dict[str, str]:
    """Return the header that names the user of a proxy, if its URL does."""
    if proxy.username is None:
        return {}
    named = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"proxy-authorization": f"Basic {base64.b64encode(named.encode()).decode()}"}


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
