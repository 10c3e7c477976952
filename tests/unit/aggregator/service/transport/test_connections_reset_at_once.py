"""A peer that is killed while connections to it are made."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import httpx
import pytest

from aggregator.service.transport.interpretation import PeerUnreachable
from aggregator.service.transport.peer import Peer
from tests.support.patience import PATIENCE_SECONDS

CONNECTIONS = 8
REQUESTS = 25
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@contextmanager
def resetting_server() -> Iterator[str]:
    """Accept every connection and reset it; the way that a kernel ends those of the dead."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:

        def serve() -> None:
            while True:
                try:
                    accepted, _ = server.accept()
                except OSError:
                    return
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                accepted.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("use_uvloop", [True, False])
def test_a_connection_that_is_reset_at_once_is_no_answer(*, use_uvloop: bool) -> None:
    """The services' event loop, kept busy, finds some of these closed before they are used."""
    unanswered: list[PeerUnreachable] = []

    async def ask(peer: Peer) -> None:
        for _ in range(REQUESTS):
            with pytest.raises(PeerUnreachable) as caught:
                await peer.get("resource")
            unanswered.append(caught.value)
            time.sleep(0.001)  # noqa: ASYNC251 - it is to be busy

    async def ask_all(endpoint: str) -> None:
        async with (
            httpx.AsyncClient(timeout=PATIENCE_SECONDS) as http,
            anyio.create_task_group() as group,
        ):
            for _ in range(CONNECTIONS):
                group.start_soon(ask, Peer(http, endpoint, attempts=1))

    with resetting_server() as endpoint:
        anyio.run(ask_all, endpoint, backend_options={"use_uvloop": use_uvloop})
    assert len(unanswered) == CONNECTIONS * REQUESTS


async def answer_wrongly(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=getattr(request, "body"))  # noqa: B009 - there is none


async def test_our_own_fault_is_not_taken_for_a_reset_connection() -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer_wrongly)) as http:
        with pytest.raises(AttributeError, match="body"):
            await Peer(http, "http://helper.example/", attempts=1).get("resource")
