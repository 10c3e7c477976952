"""A stranger with more kept connections than there are slots locks nobody else out."""

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from anyio import to_thread
from fastapi import APIRouter, Request, Response

from aggregator.dap.auth import hash_token
from aggregator.service.transport.tls import Identity, serving_context
from aggregator.service.web.addresses import forwarded_for, is_trusted_proxy, sharing
from aggregator.service.web.app import create_app
from aggregator.service.web.auth import require_token
from tests.support.certificates import Authority
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import serving

SLOTS = 64  # of `serving`
STRANGERS = SLOTS + 16
HONEST = 20


@pytest.fixture(name="address")
def _address() -> Iterator[tuple[str, int]]:
    router = APIRouter()

    @router.get("/hpke_config")
    async def configurations() -> Response:
        return Response("configurations")

    @router.post("/reports")
    async def upload(request: Request) -> Response:
        await request.body()
        return Response("")

    with serving(create_app("tests", [router])) as url:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        yield parts.hostname, parts.port


def ask_for_ever(
    address: tuple[str, int], source: str, headers: Mapping[str, str], stop: threading.Event
) -> None:
    """Ask again as soon as there is an answer, over one connection as long as it lasts."""
    while not stop.is_set():
        connection = http.client.HTTPConnection(
            *address, timeout=PATIENCE_SECONDS, source_address=(source, 0)
        )
        with suppress(OSError, http.client.HTTPException):
            while not stop.is_set():
                connection.request("GET", "/hpke_config", headers=headers)
                connection.getresponse().read()
        connection.close()


def uploads(address: tuple[str, int], source: str, headers: Mapping[str, str]) -> list[int]:
    """Upload again and again over new connections; return what each was answered at once."""
    statuses = []
    for _ in range(HONEST):
        connection = http.client.HTTPConnection(
            *address, timeout=PATIENCE_SECONDS, source_address=(source, 0)
        )
        connection.request("POST", "/reports", b"report", headers)
        statuses.append(connection.getresponse().status)
        connection.close()
    return statuses


OF_THEIR_OWN = ("127.0.0.2", dict[str, str]()), ("127.0.0.3", dict[str, str]())
BY_THE_PROXY = (
    ("127.0.0.1", {"x-forwarded-for": "192.0.2.1"}),
    ("127.0.0.1", {"x-forwarded-for": "10.0.0.1, 2001:db8::1"}),
)


@pytest.mark.parametrize(
    ("stranger", "honest"),
    [OF_THEIR_OWN, BY_THE_PROXY],
    ids=["addresses of their own", "addresses that the proxy names"],
)
def test_a_stranger_who_keeps_every_connection_locks_no_other_address_out(
    address: tuple[str, int],
    stranger: tuple[str, Mapping[str, str]],
    honest: tuple[str, Mapping[str, str]],
) -> None:
    stop = threading.Event()
    threads = [
        threading.Thread(target=ask_for_ever, args=(address, *stranger, stop))
        for _ in range(STRANGERS)
    ]
    for each in threads:
        each.start()
    try:
        assert uploads(address, *honest) == [200] * HONEST
    finally:
        stop.set()
        for each in threads:
            each.join(PATIENCE_SECONDS)


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_connections_that_were_answered_give_way_at_any_age(
    address: tuple[str, int], source: str
) -> None:
    """One request a second was never displaced, for its pace was unknown for a second."""
    held = []
    try:
        for _ in range(STRANGERS):
            connection = socket.create_connection(
                address, PATIENCE_SECONDS, source_address=(source, 0)
            )
            held.append(connection)
            connection.sendall(b"GET /hpke_config HTTP/1.1\r\nhost: x\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        assert uploads(address, source, {}) == [200] * HONEST
    finally:
        for each in held:
            each.close()


class Gate:
    """An application that answers when it is opened, and takes one token."""

    def __init__(self) -> None:
        self.came = threading.Semaphore(0)
        self.opened = threading.Event()
        router = APIRouter()

        @router.post("/jobs")
        async def job(request: Request) -> Response:
            await request.body()
            self.came.release()
            await to_thread.run_sync(self.opened.wait, PATIENCE_SECONDS)
            return Response("")

        @router.get("/token")
        async def token(request: Request) -> Response:
            require_token(request, [hash_token(TOKEN)])
            return Response("")

        self.app = create_app("tests", [router])

    @contextmanager
    def served(self, slots: int) -> Iterator[tuple[str, int]]:
        with serving(self.app, max_connections=slots) as url:
            parts = urlsplit(url)
            assert parts.hostname is not None
            assert parts.port is not None
            try:
                yield parts.hostname, parts.port
            finally:
                self.opened.set()


TOKEN = "a" * 43
LEADER = "127.0.0.2"
WHOLE = b"POST /jobs HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n"


def connected(address: tuple[str, int], source: str, sent: bytes) -> socket.socket:
    connection = socket.create_connection(address, PATIENCE_SECONDS, (source, 0))
    connection.sendall(sent)
    return connection


def strangers(address: tuple[str, int], count: int) -> list[socket.socket]:
    """Begin a request from each of this many addresses."""
    return [connected(address, f"127.0.1.{each + 1}", b"POST") for each in range(count)]


def fate(connection: socket.socket) -> bytes:
    """Return how the server's answer begins; nothing if it ended the connection."""
    try:
        return connection.recv(4096)[:12]
    except ConnectionError:
        return b""


def test_strangers_with_an_address_each_displace_no_request_that_is_being_answered() -> None:
    gate = Gate()
    with gate.served(slots=8) as address, ExitStack() as closing:
        asked = [connected(address, LEADER, WHOLE + b"jobs") for _ in range(6)]
        for _ in asked:
            assert gate.came.acquire(timeout=PATIENCE_SECONDS)
        for each in asked + strangers(address, 16):
            closing.enter_context(each)
        last = closing.enter_context(connected(address, LEADER, b"GET /none HTTP/1.1\r\n\r\n"))
        assert fate(last)  # all that came before is decided
        gate.opened.set()
        assert [fate(each) for each in asked] == [b"HTTP/1.1 200"] * 6


def test_strangers_with_an_address_each_displace_nothing_of_a_caller_with_a_token() -> None:
    gate = Gate()
    with gate.served(slots=8) as address, ExitStack() as closing:
        known = http.client.HTTPConnection(*address, source_address=(LEADER, 0))
        known.request("GET", "/token", headers={"authorization": f"Bearer {TOKEN}"})
        assert known.getresponse().status == 200
        known.close()
        sending = [connected(address, LEADER, WHOLE) for _ in range(6)]
        for each in sending + strangers(address, 16):
            closing.enter_context(each)
        more = closing.enter_context(connected(address, LEADER, WHOLE + b"jobs"))
        assert gate.came.acquire(timeout=PATIENCE_SECONDS)  # one more of ours displaced a stranger
        for each in sending:
            each.sendall(b"jobs")
        gate.opened.set()
        assert [fate(each) for each in [*sending, more]] == [b"HTTP/1.1 200"] * 7


BEGUN = b"\x16\x03\x01\x02\x00"
"""How the first message of a handshake begins."""


def is_open(connection: socket.socket) -> bool:
    """Return whether the server has not ended a connection over which it has nothing to say."""
    try:
        return bool(connection.recv(1, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@pytest.mark.parametrize("sent", [b"", BEGUN], ids=["silent", "begun"])
def test_handshakes_that_never_end_hold_no_more_than_the_slots_and_lock_nobody_out(
    tmp_path: Path, sent: bytes
) -> None:
    """A stranger could hold as many files and as much memory as it had patience to connect."""
    authority = Authority(tmp_path, "servers")
    shown = authority.issue("server")
    identity = Identity(Path(shown["certificate"]), Path(shown["key"]), ("", ""))
    trusted = ssl.create_default_context(cafile=authority.certificate)
    gate, slots = Gate(), 8
    gate.opened.set()
    with (
        serving(gate.app, slots, tls=serving_context(identity, None)) as url,
        ExitStack() as closing,
    ):
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        address = parts.hostname, parts.port
        held = [connected(address, "127.0.0.2", sent) for _ in range(3 * slots)]
        for each in held:
            closing.enter_context(each)
        for _ in range(HONEST):
            connection = http.client.HTTPSConnection(
                *address,
                timeout=PATIENCE_SECONDS,
                source_address=("127.0.0.3", 0),
                context=trusted,
            )
            connection.request("POST", "/jobs", b"report")
            assert connection.getresponse().status == 200
            connection.close()
        assert sum(map(is_open, held)) < slots


def test_what_a_stranger_writes_before_the_proxy_is_not_believed() -> None:
    headers = [(b"X-Forwarded-For", b"198.51.100.7"), (b"x-forwarded-for", b"::1, 192.0.2.1")]
    assert forwarded_for(headers) == "192.0.2.1"
    assert forwarded_for([]) == ""
    assert sharing("2001:db8::1") == sharing("2001:db8::ffff:1") != sharing("2001:db8:1::1")
    peers = ("127.0.0.1", "::1", "192.0.2.1")
    trusted = [is_trusted_proxy(peer, "127.0.0.1,::1") for peer in peers]
    assert trusted == [True, True, False]
