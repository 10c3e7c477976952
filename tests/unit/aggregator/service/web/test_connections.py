"""Where a request ends: no part of it is taken for another request, or for a header."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPResponse, RemoteDisconnected
from urllib.parse import urlsplit

import pytest
from fastapi import APIRouter, Request, Response

from aggregator.service.web.app import create_app
from aggregator.service.web.body_budget import IS_WHOLE
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.serving import serving

_BODY = b"GET /elsewhere HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture(name="seen")
def _seen() -> list[tuple[str, bytes, str | None]]:
    return []


@pytest.fixture(name="address")
def _address(seen: list[tuple[str, bytes, str | None]]) -> Iterator[tuple[str | None, int | None]]:
    router = APIRouter()

    @router.api_route("/{path}", methods=["GET", "POST"])
    async def note(request: Request) -> Response:
        body = await request.body()
        seen.append((request.url.path, body, request.headers.get("authorization")))
        return Response(json.dumps({"bytes": len(body)}))

    with serving(create_app("tests", [router])) as url:
        parts = urlsplit(url)
        yield parts.hostname, parts.port


def _statuses(address: tuple[str, int], *pieces: bytes) -> list[int]:
    """Send pieces, each when the one before was answered; return the status of each answer."""
    statuses = []
    with (
        socket.create_connection(address, timeout=PATIENCE_SECONDS) as connection,
        suppress(ConnectionError, RemoteDisconnected),
    ):
        for piece in pieces:
            connection.sendall(piece)
            answer = HTTPResponse(connection)
            answer.begin()
            answer.read()
            statuses.append(answer.status)
    return statuses


@pytest.mark.parametrize("framing", [f"content-length: {len(_BODY)}", "transfer-encoding: chunked"])
@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_the_body_of_a_request_for_another_protocol_is_not_the_next_request(
    address: tuple[str, int], seen: list[tuple[str, bytes, str | None]], framing: str, protocol: str
) -> None:
    """The parser skips it: an upload would be lost with a 200, and its body answered as well."""
    head = (
        f"POST /upload HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n"
        f"{framing}\r\n\r\n"
    )
    assert _statuses(address, head.encode(), _BODY) == [400]
    assert seen == []


def test_a_request_without_a_body_is_answered_though_it_asks_for_another_protocol(
    address: tuple[str, int], seen: list[tuple[str, bytes, str | None]]
) -> None:
    ask = b"GET /%d HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    assert _statuses(address, ask % 1, ask % 2) == [200, 200]
    assert [path for path, _, _ in seen] == ["/1", "/2"]


def test_what_follows_a_body_is_no_header(
    address: tuple[str, int], seen: list[tuple[str, bytes, str | None]]
) -> None:
    head = b"POST /upload HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"4\r\nabcd\r\n0\r\nauthorization: Bearer of-a-trailer\r\n\r\n"
    assert _statuses(address, head + body) == [200]
    assert seen == [("/upload", b"abcd", None)]


def test_a_request_knows_when_all_of_its_body_has_come() -> None:
    told: list[bool] = []
    router = APIRouter()

    @router.post("/")
    async def tell(request: Request) -> Response:
        told.append(request.scope[IS_WHOLE]())
        await request.body()
        told.append(request.scope[IS_WHOLE]())
        return Response()

    with serving(create_app("tests", [router])) as url:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), PATIENCE_SECONDS) as connection:
            for rest in (b"", b"end"):
                head = f"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {2 + len(rest)}\r\n\r\n"
                connection.sendall(head.encode() + b"to")
                if rest:
                    wait_until(lambda: len(told) > 2)
                    connection.sendall(rest)
                answer = HTTPResponse(connection)
                answer.begin()
                answer.read()
    assert told == [True, True, False, True]


def test_a_proxys_connections_that_name_nobody_are_bounded_and_the_oldest_gives_way() -> None:
    router = APIRouter()

    @router.get("/")
    async def answer() -> Response:
        return Response("")

    slots = 4
    with serving(create_app("tests", [router]), slots) as url, ExitStack() as stack:
        parts = urlsplit(url)
        assert parts.hostname is not None
        address = (parts.hostname, parts.port)
        silent = []
        for _ in range(5 * slots):
            connection = stack.enter_context(socket.create_connection(address, PATIENCE_SECONDS))
            connection.sendall(b"GET /")
            silent.append(connection)
        for each in silent[: -2 * slots]:
            with suppress(ConnectionError):
                assert each.recv(100) == b""
        newest = stack.enter_context(socket.create_connection(address, PATIENCE_SECONDS))
        newest.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert newest.recv(100).startswith(b"HTTP/1.1 200")
