"""A service's addresses: sockets that are its own from the start, and their servers."""

import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

import anyio
import uvicorn
from anyio import CapacityLimiter, to_thread
from starlette.types import ASGIApp
from typing_extensions import override

from aggregator.errors import ConfigurationError
from aggregator.service.telemetry.lines import log
from aggregator.service.web.descriptors import BURST, are_left
from aggregator.service.web.handshakes import SecuredConnection, connections

GRACE_SECONDS = 20
"""How long requests under way may take once the service is told to stop."""

_PAUSE_SECONDS = 1.0
_LEFT_AFTER_PAUSE = 4
"""How many descriptors must be left before connections are accepted again."""

_LOOK_SECONDS = 0.05
"""How often to check whether another process listens."""


class Server(uvicorn.Server):
    """A server that leaves signals to us, because several servers run in one process."""

    def __init__(
        self,
        app: ASGIApp,
        max_connections: int,
        tls: ssl.SSLContext | None = None,
        *,
        minds_shortage: bool = True,
    ) -> None:
        """Serve `app`.

        Args:
            app: The application.
            max_connections: The most connections at once.
            tls: If there is a context, it speaks TLS.
            minds_shortage: Whether connections give way if file descriptors run short.
        """
        self._protocol = connections(max_connections, tls)
        self._protocol.minds_shortage = minds_shortage
        self._listening: list[socket.socket] = []
        self._pause_ends: float | None = None  # while it is pausing
        super().__init__(
            uvicorn.Config(
                app,
                http=self._protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS // 2,
            )
        )

    def show(self, tls: ssl.SSLContext) -> None:
        """Use this context for new connections, if the server speaks TLS at all."""
        if issubclass(self._protocol, SecuredConnection):
            self._protocol.tls = tls

    def limit_to(self, max_connections: int) -> None:
        """Limit the number of connections from now on."""
        self._protocol.max_connections = max_connections

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._listening = [each.dup() for each in sockets or []]
        await super().startup(sockets)

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in self._listening:
            each.close()
        await super().shutdown(sockets)

    @override
    async def on_tick(self, counter: int) -> bool:
        await self._pause_without_descriptors()
        return await super().on_tick(counter)

    async def _pause_without_descriptors(self) -> None:
        """Take no connections as long as there are no descriptors for them.

        The event loop would ask for one without end. Newcomers wait in the sockets' own queues.
        """
        now = time.monotonic()
        if self._pause_ends is None:
            if not are_left(1):
                self._pause_ends = now + _PAUSE_SECONDS
                for each in self.servers:
                    each.close()
        elif now >= self._pause_ends and are_left(_LEFT_AFTER_PAUSE):
            with suppress(OSError):  # they are used up again
                await super().startup([each.dup() for each in self._listening])
                self._pause_ends = None

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(server: Server, listening: socket.socket, stop: anyio.Event) -> None:
    """Serve at a socket until `stop` is set and the requests under way have ended."""
    async with _announced(server, listening, stop):
        await server.serve(sockets=[listening])


async def serve_apart(
    server: Server, listening: socket.socket, stop: anyio.Event, after: str | None = None
) -> None:
    """Serve like `serve`, but in a thread with its own event loop.

    If `after` names an address, `host:port`, clients wait until something listens there.
    """
    if after is not None and not await _is_taken(after, stop):
        return
    async with _announced(server, listening, stop):
        await to_thread.run_sync(
            partial(
                anyio.run,
                partial(server.serve, sockets=[listening]),
                # Not asyncio's: if descriptors run out, it asks for a connection, and logs that it
                # got none, as often as the backlog is long.
                backend_options={"use_uvloop": True},
            ),
            abandon_on_cancel=True,
            limiter=CapacityLimiter(1),
        )


async def _is_taken(address: str, stop: anyio.Event) -> bool:
    """Wait until something listens at an address; return whether it did before `stop` was set."""
    host, _, port = address.rpartition(":")
    while not stop.is_set():
        with suppress(OSError):
            async with await anyio.connect_tcp(host.strip("[]"), int(port)):
                return True
        with anyio.move_on_after(_LOOK_SECONDS):
            await stop.wait()
    return False


@asynccontextmanager
async def _announced(
    server: Server, listening: socket.socket, stop: anyio.Event
) -> AsyncIterator[None]:
    """Log where a server listens, and end it when `stop` is set."""
    host, port = listening.getsockname()[:2]
    log.info("listening", host=host, port=port)

    async def exit_when_stopped() -> None:
        await stop.wait()
        server.should_exit = True  # it checks this ten times a second, from any thread

    async with anyio.create_task_group() as group:
        group.start_soon(exit_when_stopped)
        yield
        group.cancel_scope.cancel()


def listen(address: str, *, reuse_port: bool) -> socket.socket:
    """Return a socket that listens at `host:port`; port 0 takes a free one.

    With `reuse_port` other processes of the service may also listen there. Raises
    `ConfigurationError` if the address cannot be listened on.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuse_port)
    try:
        listening.bind((host, int(port)))
        # All sockets listen now: a client that learns from one that we are up can reach the others.
        listening.listen(BURST)
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"listen: {address}: {error.strerror}") from error
    return listening
