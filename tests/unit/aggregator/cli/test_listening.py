"""A service's addresses are its own from the moment that it has them."""

import socket

import anyio
import httpx
import pytest
from starlette.types import Receive, Scope, Send

from aggregator.cli.service.listening import Server, listen, serve_apart
from aggregator.errors import ConfigurationError
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import free_ports


def test_an_address_takes_connections_before_any_listener_answers() -> None:
    """The health listener says that a service is up, so the others must be reachable by then."""
    with (
        listen("127.0.0.1:0", reuse_port=False) as listening,
        socket.create_connection(listening.getsockname(), timeout=PATIENCE_SECONDS) as connected,
    ):
        assert connected.getpeername() == listening.getsockname()


def test_two_services_cannot_take_one_address() -> None:
    with listen("127.0.0.1:0", reuse_port=False) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"listen: 127.0.0.1:{port}"):
            listen(f"127.0.0.1:{port}", reuse_port=False)


async def test_health_is_answered_once_another_process_takes_requests() -> None:
    """One that only works would say that a leader is up to which nobody can upload yet."""

    async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    stop = anyio.Event()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with listen("127.0.0.1:0", reuse_port=False) as health:
        url = "http://{}:{}/".format(*health.getsockname())
        async with anyio.create_task_group() as group, httpx.AsyncClient() as http:
            group.start_soon(serve_apart, Server(application, 8), health, stop, address)
            with pytest.raises(httpx.ReadTimeout):
                await http.get(url, timeout=httpx.Timeout(PATIENCE_SECONDS, read=0.5))
            with listen(address, reuse_port=False):
                assert (await http.get(url, timeout=PATIENCE_SECONDS)).is_success
            stop.set()


async def test_health_that_waits_for_another_process_ends_with_the_service() -> None:
    stop = anyio.Event()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with listen("127.0.0.1:0", reuse_port=False) as health, anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(serve_apart, Server(_unasked, 8), health, stop, address)
            await anyio.sleep(0.2)
            stop.set()


async def _unasked(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise AssertionError
