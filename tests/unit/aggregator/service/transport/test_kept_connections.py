"""Requests over kept connections, to a server that answers byte by byte as it is told."""

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path

import anyio
import anyio.abc
import httpx
import pytest
import uvicorn
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSStream

from aggregator.service.transport import kept_connections
from aggregator.service.transport.client import Client, open_client
from aggregator.service.transport.http_answer import MOST_HEAD_BYTES, HttpAnswer
from aggregator.service.transport.tls import asking_context
from tests.support.certificates import Authority
from tests.support.patience import PATIENCE_SECONDS

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CLOSE = b""
"""The server closes the connection."""


class Server:
    """Answers each request by the next of some lists of pieces."""

    def __init__(self, *answers: Sequence[bytes]) -> None:
        self.answers = [*answers]
        self.connections = 0
        self.requests: list[bytes] = []
        self.asked = anyio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
                body = await reader.readexactly(int(length or b"0"))
                self.requests.append(head + body)
                self.asked.set()
                for piece in self.answers.pop(0):
                    if piece == CLOSE:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.001)  # so that it comes by itself
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def asking(
    *answers: Sequence[bytes], authority: Authority | None = None
) -> AsyncIterator[tuple[Server, Client]]:
    server = Server(*answers)
    tls = None
    if authority is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shown = authority.issue("server")
        tls.load_cert_chain(shown["certificate"], shown["key"])
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    server.url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/a%20b?c"
    trusted = None if authority is None else asking_context(authority.certificate)
    async with open_client(PATIENCE_SECONDS, tls=trusted) as http:
        yield server, http
    listening.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def answer_of(size: int) -> bytes:
    """Return an answer of so many bytes together, of which at least a thousand are its body."""
    for digits in range(4, 8):
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %b\r\n\r\n"
        length = size - len(head % (b"0" * digits))
        if len(str(length)) == digits:
            return head % str(length).encode() + b"x" * length
    raise ValueError(size)


async def test_a_request_is_sent_as_it_was_made_and_its_connection_is_kept() -> None:
    async with asking([OK], [OK]) as (server, http):
        for _ in range(2):
            answer = await http.post(server.url, content=b"body", headers={"a": "b"})
            assert (answer.status_code, answer.content) == (200, b"ok")
    assert server.connections == 1
    first = server.requests[0]
    assert first.startswith(b"POST /a%20b?c HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\na: b\r\n" in first
    assert first.endswith(b"\r\n\r\nbody")


@pytest.mark.parametrize(
    ("pieces", "body", "is_kept"),
    [
        ([OK[:9], OK[9:30], OK[30:-1], OK[-1:]], b"ok", True),
        ([b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", OK], b"ok", True),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" + OK], b"ok", True),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b"", True),
        (
            [
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
                b"0\r\nx: y\r\n\r\n",
            ],
            b"ok",
            True,
        ),
        ([b"HTTP/1.1 200 OK\r\n\r\no", b"k", CLOSE], b"ok", False),
        ([b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"], b"ok", False),
        ([b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"], b"ok", False),
        ([OK + OK], b"ok", False),
        ([b"HTTP/1.1 104 Ours\r\n\r\n", OK], b"ok", True),
        (
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;a=b\r\nok\r\n0\r\n\r\n"],
            b"ok",
            True,
        ),
    ],
)
async def test_every_form_of_an_answer_is_read(
    pieces: Sequence[bytes], body: bytes, *, is_kept: bool
) -> None:
    async with asking(pieces, [OK]) as (server, http):
        answer = await http.get(server.url)
        assert (answer.content, "x" in answer.headers) == (body, False)
        assert (await http.get(server.url)).content == b"ok"
    assert server.connections == (1 if is_kept else 2)


@pytest.mark.parametrize(
    "pieces",
    [
        [CLOSE],
        [OK[:20], CLOSE],
        [OK[:-1], CLOSE],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", CLOSE],
        [b"SSH-2.0-x\r\n"],
        [b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok"],
        [b"HTTP/1.1 200 OK\r\nx: ", *[b"x" * 2**14] * (MOST_HEAD_BYTES // 2**14 + 1)],
        [
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ",
            *[b"x" * 2**14] * (MOST_HEAD_BYTES // 2**14 + 1),
        ],
        [  # however long the body was
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n20000\r\n",
            b"x" * 2**17 + b"\r\n0\r\nx: ",
            *[b"x" * 2**14] * (MOST_HEAD_BYTES // 2**14 + 1),
        ],
        [b"HTTP/1.1 104 Ours\r\ncontent-length: 3\r\n\r\nnot" + OK],
        [b"HTTP/1.1 104 Ours\r\ntransfer-encoding: chunked\r\n\r\n1\r\nn\r\n0\r\n\r\n" + OK],
        *(
            [
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: %b\r\n\r\n2\r\nok\r\n0\r\n\r\n" % coding,
                CLOSE,
            ]
            for coding in (b"gzip, chunked", b"chunked, identity", b"xchunked", b"gzip")
        ),
    ],
)
async def test_an_answer_that_is_cut_endless_or_not_http_is_none(pieces: Sequence[bytes]) -> None:
    async with asking(pieces, [OK]) as (server, http):
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await http.get(server.url)
        assert (await http.get(server.url)).content == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize("size", [1100, 2**14, 2**16, 2**17, 2**18])
async def test_an_answer_that_nobody_asked_for_answers_no_request(
    size: int, authority: Authority, *, is_tls: bool
) -> None:
    first, second = answer_of(size), answer_of(1200)
    pieces = [first[:-1000], first[-1000:] + second]  # the last bytes come at once
    for together in (pieces, [first + second], [first, second]):
        async with asking(together, [OK], authority=authority if is_tls else None) as (
            server,
            http,
        ):
            assert len((await http.get(server.url)).content) < size
            with anyio.fail_after(PATIENCE_SECONDS):
                while kept := [*http._transport._idle]:  # type: ignore[attr-defined]  # its own
                    if not kept[0].is_silent:
                        break
                    await anyio.sleep(0.001)
            assert (await http.get(server.url)).content == b"ok"
        assert server.connections == 2


async def test_a_request_without_a_body_is_sent() -> None:
    async def nothing() -> AsyncIterator[bytes]:
        return
        yield b""

    async with asking([OK]) as (server, http):
        headers = {"content-length": "0"}
        answer = await http.post(server.url, content=nothing(), headers=headers)
    assert (answer.content, len(server.requests)) == (b"ok", 1)


async def test_after_a_request_that_was_cut_its_connection_is_not_used() -> None:
    async def cut() -> AsyncIterator[bytes]:
        yield b"half"
        raise OSError("of which the rest cannot be read")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(2**16):
            writer.write(OK)
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with open_client() as http:
        await http.post(url, content=cut(), headers={"content-length": "8"})
        assert http._transport._idle == []  # type: ignore[attr-defined]  # its own
    listening.close()


async def test_a_connection_that_ends_during_the_handshake_is_an_error_of_the_network(
    authority: Authority,
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    listening = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with open_client(tls=asking_context(authority.certificate)) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(url)
    listening.close()


@pytest.mark.parametrize("is_ended", [False, True])
async def test_over_tls_only_its_end_ends_an_answer_without_a_length(
    authority: Authority, *, is_ended: bool
) -> None:
    shown = authority.issue("server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(shown["certificate"], shown["key"])

    async def cut(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            wrapped = await TLSStream.wrap(stream, server_side=True, ssl_context=tls)
            await wrapped.receive()
            await wrapped.send(b"HTTP/1.1 200 OK\r\n\r\nok")
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream):  # it is not answered
                await (wrapped.unwrap() if is_ended else stream.send_eof())

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listening,
        anyio.create_task_group() as group,
        open_client(tls=asking_context(authority.certificate)) as http,
    ):
        group.start_soon(listening.serve, cut)
        port = listening.extra(SocketAttribute.local_port)  # noqa: S610  anyio's extra
        expected = nullcontext() if is_ended else pytest.raises(httpx.ReadError)
        with expected:
            assert (await http.get(f"https://127.0.0.1:{port}")).content == b"ok"
        group.cancel_scope.cancel()


async def test_whoever_is_cancelled_closes_all_old_connections_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with asking(*[[OK]] * 3) as (server, http):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(http.get, server.url)
        idle = [*http._transport._idle]  # type: ignore[attr-defined]  # its own
        monkeypatch.setattr(kept_connections, "KEPT_SECONDS", 0.0)
        with anyio.CancelScope() as scope:
            scope.cancel()
            transport = http._transport
            await transport._connection(httpx.URL(server.url), 1)  # type: ignore[attr-defined]  # its own
        assert len(idle) == server.connections
        assert not any(each.is_silent for each in idle)


async def test_a_connection_that_was_closed_while_it_was_idle_is_not_used() -> None:
    async with asking([OK, CLOSE], [OK]) as (server, http):
        await http.get(server.url)
        with anyio.fail_after(PATIENCE_SECONDS):
            (kept,) = http._transport._idle  # type: ignore[attr-defined]  # its own
            while kept.is_silent:  # noqa: ASYNC110  nothing tells
                await anyio.sleep(0.001)
        assert (await http.get(server.url)).content == b"ok"
    assert server.connections == 2


async def test_connections_are_kept_for_so_long_and_only_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_connections, "KEPT_SECONDS", 0.0)
    async with asking([OK], [OK]) as (server, http):
        for _ in range(2):
            await http.get(server.url)
    assert server.connections == 2
    monkeypatch.setattr(kept_connections, "KEPT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(kept_connections, "KEPT", 1)
    async with asking(*[[OK]] * 3) as (server, http), anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(http.get, server.url)
    assert len(http._transport._idle) <= 1  # type: ignore[attr-defined]  # its own


def test_a_connection_is_given_up_before_an_aggregator_closes_it() -> None:
    assert uvicorn.Config("").timeout_keep_alive > kept_connections.KEPT_SECONDS


async def test_so_many_requests_are_under_way_and_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_connections, "MOST_CONNECTIONS", 1)
    async with asking(*[[OK]] * 5) as (server, http), anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(http.get, server.url)
    assert (server.connections, len(server.requests)) == (1, 5)


async def test_a_request_that_is_cancelled_closes_its_connection_and_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_connections, "MOST_CONNECTIONS", 1)
    async with asking([OK[:-1]], [OK]) as (server, http):
        async with anyio.create_task_group() as group:
            group.start_soon(http.get, server.url)
            await server.asked.wait()
            group.cancel_scope.cancel()
        assert (await http.get(server.url)).content == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb: c", "a\0"])
async def test_a_header_that_would_be_two_is_not_sent(value: str) -> None:
    async with asking([OK]) as (server, http):
        with pytest.raises(httpx.LocalProtocolError):
            await http.get(server.url, headers={"a": value})
    assert server.connections == 0


async def test_a_client_that_waits_too_long_is_told_so() -> None:
    async with asking([b"HTTP/1.1 200 OK\r\n"], [OK]) as (server, http):
        with pytest.raises(httpx.ReadTimeout):
            await http.get(server.url, timeout=httpx.Timeout(None, read=0.01))


def test_an_answer_leaves_nothing_to_the_collector_of_garbage() -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            answer = HttpAnswer()
            answer.feed(OK)
            assert answer.is_whole
        del answer
        assert not any(isinstance(each, HttpAnswer) for each in gc.get_objects())
    finally:
        gc.enable()
