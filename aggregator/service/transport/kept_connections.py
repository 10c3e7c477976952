"""HTTP/1.1 over connections that are kept: as little as a request to another party needs.

For a small job, httpx's own transport takes as long as all of its verification. Requests are still
made by httpx; `peer` limits an answer's size and all attempts together, and repeats what was lost.

Source: RFC 9112, "HTTP/1.1".
"""

import select
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import anyio
import httpx
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream
from typing_extensions import override

from aggregator.service.transport.http_answer import HttpAnswer

MOST_CONNECTIONS: Final = 100
"""How many requests are under way at once; others wait."""

KEPT: Final = 20
"""How many idle connections are kept."""

KEPT_SECONDS: Final = 4.0
"""How long an idle connection is kept: an aggregator closes it after 5 seconds, and what was sent
just then is lost."""

_MOST_PIECE: Final = 2**16
_PORTS: Final = {"http": 80, "https": 443}
_Origin: TypeAlias = tuple[str, str, int]


class KeptConnections(httpx.AsyncBaseTransport):
    """Sends each request over an idle connection to its origin, or over a new one."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        """Trust and show in TLS what `tls` says."""
        tls.set_alpn_protocols(["http/1.1"])
        self._tls = tls
        self._room = anyio.Semaphore(MOST_CONNECTIONS, fast_acquire=True)
        self._idle: list[_Connection] = []

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        head, seconds = _head(request), request.extensions["timeout"]
        with _raising(seconds["pool"], httpx.PoolTimeout, httpx.ConnectError):
            await self._room.acquire()
        connection = None
        try:
            connection = await self._connection(request.url, seconds["connect"])
            await connection.send(head, request, seconds["write"])
            while not connection.answer.has_head:
                await connection.receive(seconds["read"])
        except BaseException:
            await self.leave(connection)
            raise
        return httpx.Response(
            connection.answer.status,
            headers=connection.answer.headers,
            stream=_Body(self, connection, seconds["read"]),
            extensions={"network_stream": connection},
        )

    async def leave(self, connection: "_Connection | None") -> None:
        """Keep the connection of a request that has ended, if it had one, or close it."""
        self._room.release()
        if connection is None:
            return
        if connection.is_sent and connection.answer.may_go_on and len(self._idle) < KEPT:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            await connection.close()

    @override
    async def aclose(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _connection(self, url: httpx.URL, seconds: float | None) -> "_Connection":
        origin = url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]
        found, worn = None, [each for each in self._idle if not each.is_young]
        for each in reversed(self._idle):
            if found is None and each.origin == origin and each not in worn:
                if each.is_silent:
                    found = each
                else:
                    worn.append(each)
        self._idle = [each for each in self._idle if each is not found and each not in worn]
        for each in worn:
            await each.close()
        return found or await self._connected(origin, seconds)

    async def _connected(self, origin: _Origin, seconds: float | None) -> "_Connection":
        scheme, host, port = origin
        with _raising(seconds, httpx.ConnectTimeout, httpx.ConnectError):
            stream: ByteStream = await anyio.connect_tcp(host, port)
            if scheme == "https":
                try:
                    stream = await TLSStream.wrap(stream, hostname=host, ssl_context=self._tls)
                except BaseException:
                    await anyio.aclose_forcefully(stream)
                    raise
        return _Connection(origin, stream)


class _Connection:
    """A connection, which sends one request after the other.

    Attributes:
        origin: Whose it is.
        answer: That to the last request.
        is_sent: Whether that request was sent to its end: otherwise the next would be read as more
            of it.
        idle_since: When it became idle, in seconds by the monotonic clock.
    """

    def __init__(self, origin: _Origin, stream: ByteStream) -> None:
        self.origin = origin
        self.answer, self.is_sent = HttpAnswer(), False
        self.idle_since = 0.0
        self._stream = stream

    @property
    def is_young(self) -> bool:
        """Whether it has not been idle for too long."""
        return time.monotonic() - self.idle_since < KEPT_SECONDS

    @property
    def is_silent(self) -> bool:
        """Whether the peer has neither closed it nor said anything since it became idle."""
        socket = self._stream.extra(SocketAttribute.raw_socket, None)  # noqa: S610  anyio's extra
        if socket is None or socket.fileno() < 0 or not _is_read_out(self._stream):
            return False
        if sys.platform == "win32":
            return not select.select([socket], [], [], 0)[0]
        readable = select.poll()
        readable.register(socket.fileno(), select.POLLIN)
        return not readable.poll(0)

    async def send(self, head: bytes, request: httpx.Request, seconds: float | None) -> None:
        """Send a request; the head goes out with the first piece of the body.

        If the peer takes no more of it, it may have answered already, so that is no error yet.
        """
        self.answer, self.is_sent = HttpAnswer(), False
        assert isinstance(request.stream, httpx.AsyncByteStream)  # noqa: S101  an async client's
        try:
            with _raising(seconds, httpx.WriteTimeout, httpx.WriteError):
                async for piece in request.stream:
                    await self._stream.send(head + piece)
                    head = b""
                if head:
                    await self._stream.send(head)
        except httpx.WriteError:
            return
        self.is_sent = True

    async def receive(self, seconds: float | None) -> None:
        """Wait for the next bytes of the answer, or for the connection's end."""
        try:
            with _raising(seconds, httpx.ReadTimeout, httpx.ReadError):
                data = await self._stream.receive(_MOST_PIECE)
        except anyio.EndOfStream:
            self.answer.end()
        else:
            self.answer.feed(data)

    async def close(self) -> None:
        """Close it at once."""
        self.answer.drop()
        with anyio.CancelScope(shield=True):  # whoever closes several closes all of them
            await anyio.aclose_forcefully(self._stream)

    def get_extra_info(self, name: str) -> object:
        """Return what `examination` asks for: the object of TLS, if there is one."""
        there = name == "ssl_object"
        return self._stream.extra(TLSAttribute.ssl_object, None) if there else None  # noqa: S610  anyio's extra


class _Body(httpx.AsyncByteStream):
    """The body of an answer, after which the connection is kept or closed."""

    def __init__(
        self, transport: KeptConnections, connection: _Connection, seconds: float | None
    ) -> None:
        self._transport, self._seconds = transport, seconds
        self._connection: _Connection | None = connection

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        connection = self._connection
        assert connection is not None  # noqa: S101  httpx reads no closed answer
        while True:
            while connection.answer.pieces:
                yield connection.answer.pieces.pop(0)
            if connection.answer.is_whole:
                return
            await connection.receive(self._seconds)

    @override
    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._transport.leave(connection)


def _head(request: httpx.Request) -> bytes:
    """Return the request line and the headers of a request.

    Raises:
        httpx.LocalProtocolError: It could be read otherwise than it was meant.
    """
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    is_clean = not any(b"\r" in line or b"\n" in line or b"\0" in line for line in lines)
    if not is_clean or "transfer-encoding" in request.headers or request.method == "HEAD":
        raise httpx.LocalProtocolError("not a request that this transport sends")
    return b"\r\n".join([*lines, b"", b""])


def _is_read_out(stream: Any) -> bool:  # noqa: ANN401  anyio's own classes
    """Return whether no bytes wait in memory: another answer would be taken for the next one.

    What waits is no part of anyio's interface. If it cannot be told, no connection is kept.
    """
    if isinstance(stream, TLSStream):
        try:
            stream.extra(TLSAttribute.ssl_object).read(1)  # noqa: S610  anyio's extra
        except ssl.SSLWantReadError:
            stream = stream.transport_stream
        except ssl.SSLError:
            return False
        else:
            return False
    queue = getattr(getattr(stream, "_protocol", None), "read_queue", None)
    return queue is not None and not queue


@contextmanager
def _raising(
    seconds: float | None, late: type[httpx.TimeoutException], broken: type[httpx.NetworkError]
) -> Iterator[None]:
    """Raise `late` after `seconds`, and `broken` if the connection breaks."""
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError as error:
        raise late("it takes too long") from error
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
        raise broken(str(error)) from error
