"""Runs a service until it is told to stop, and replaces its parts while it runs.

Sockets and connections last as long as the process. Behind them is a `Service`: everything that was
built from one reading of the settings, its store included. On SIGHUP the settings are read again
and a new service is built beside it. If that fails, the log says why, and nothing changes.
Otherwise every further request goes to the new service, on the same connections; the old one
answers the requests it has, ends its jobs' steps, and closes its store. No request is refused.

The first SIGTERM or SIGINT lets requests and jobs under way finish. A second signal, or too long a
wait, drops them, which loses nothing: their leases expire and the work goes on elsewhere.
"""

import dataclasses
import gc
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
from anyio import TASK_STATUS_IGNORED, to_thread
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.types import ASGIApp, Receive, Scope, Send

from aggregator.cli import sighup
from aggregator.cli.garbage import collect_as_usual
from aggregator.cli.service.listening import GRACE_SECONDS, Server, listen, serve, serve_apart
from aggregator.errors import AggregatorError
from aggregator.service.config import OUTGOING
from aggregator.service.telemetry.lines import log
from aggregator.service.web import descriptors
from aggregator.service.web.at_once import WholeRequest, takes_at_once

SWITCH_SECONDS = 0.001
"""How long a thread that computes in Python may keep others waiting: the health listener's thread
needs some twenty turns for an answer, which must come within 200 ms."""

_LOOK_SECONDS = 0.05
"""How often a replaced service checks whether its last request is answered."""

Work = Callable[[anyio.Event], Coroutine[None, None, None]]
"""A function that runs beside the servers until the event is set."""


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """Everything built from one reading of the settings.

    Attributes:
        listeners: Applications, each with its `host:port`; port 0 takes a free one.
        works: What else runs; each ends soon after its event is set.
        max_connections: The most open connections for each address of a listener.
        health: The health application and its address; it runs in its own thread, so that it
            answers while the others are busy.
        after: An address at which another process of the same service takes requests: the health
            listener answers only once a connection to it succeeds.
        tls: The TLS context of all applications but the health application; None for plain HTTP.
        outgoing: The most connections to other parties.
    """

    listeners: Sequence[tuple[ASGIApp, str]]
    works: Sequence[Work]
    max_connections: int
    health: tuple[ASGIApp, str] | None = None
    after: str | None = None
    tls: ssl.SSLContext | None = None
    outgoing: int = OUTGOING

    @property
    def connections(self) -> int:
        """The most connections at its listeners; health has its own bound."""
        return len(self.listeners) * self.max_connections


Opening = AbstractAsyncContextManager[Service]
"""Builds a service, and takes it down once nobody uses it."""


async def run_services(
    listeners: Sequence[tuple[ASGIApp, str]],
    works: Sequence[Work],
    max_connections: int,
    health: tuple[ASGIApp, str] | None = None,
) -> None:
    """Run a service that is never replaced; the arguments are those of `Service`.

    Raises `ConfigurationError` if an address cannot be listened on.
    """

    @asynccontextmanager
    async def opening() -> AsyncIterator[Service]:
        yield Service(listeners, works, max_connections, health)

    await run(opening())


async def run(
    first: Opening, again: Callable[[], Opening] | None = None, *, reuse_port: bool = False
) -> None:
    """Run a service until a signal comes, and replace it on SIGHUP.

    Args:
        first: The service.
        again: Reads the settings again, and builds a service at the same addresses; without it
            SIGHUP is not handled.
        reuse_port: Whether other processes of the service listen at the same addresses.

    Raises:
        ConfigurationError: An address cannot be listened on.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    leave_out_of_collections()
    stop = anyio.Event()
    asking, asked = anyio.create_memory_object_stream[None](1)
    with asking, asked:
        async with anyio.create_task_group() as signals:
            await signals.start(
                _watch_signals, stop, signals.cancel_scope, asking if again else None
            )
            async with anyio.create_task_group() as services:
                front = Front(await services.start(_live, first), reuse_port=reuse_port)
                async with anyio.create_task_group() as group:
                    front.serve(group, stop)
                    if again is not None:
                        group.start_soon(_replace, front, services, again, asked)
                    await stop.wait()
                    asking.close()
                    front.present.stop.set()
                front.present.stop.set()  # a service about to replace it has done so by now
                front.present.leave.set()
            signals.cancel_scope.cancel()


def leave_out_of_collections() -> None:
    """Exempt all present objects from garbage collection.

    Modules and compiled kernels are some 200,000 permanent objects. Under load they were scanned
    every second or two, for 0.2 s, in which no other thread of the process could run. A scan also
    writes to each object, and processes share only memory to which none of them writes.
    """
    gc.collect()
    gc.freeze()
    collect_as_usual()


def look_for_garbage_again() -> None:
    """Collect also what was exempt and has become garbage, such as a replaced service."""
    gc.unfreeze()
    leave_out_of_collections()


class RunningService:
    """A running service, which may already have been replaced.

    Its health listener's application is the last. `leave` tells it that no further request will
    come.
    """

    def __init__(self, service: Service) -> None:
        listening = [app for app, _ in service.listeners]
        health = [] if service.health is None else [service.health[0]]
        self.service = service
        self.apps = [Answering(app) for app in (*listening, *health)]
        self.stop = anyio.Event()
        self.leave = anyio.Event()

    async def last_answer(self) -> None:
        """Wait until no more requests come and the last one is answered."""
        await self.leave.wait()
        await anyio.sleep(_LOOK_SECONDS)  # a request may be on its way between two threads
        while any(app.under_way for app in self.apps):  # noqa: ASYNC110  one answers in its own thread
            await anyio.sleep(_LOOK_SECONDS)


class Answering:
    """An application that knows how many requests it is answering."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self.under_way += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._leave()

    def at_once(self, request: WholeRequest) -> bool:
        """Answer a request at once, if the application takes it."""
        if not takes_at_once(self._app, request):
            return False
        self.under_way += 1
        request.at_end.append(self._leave)
        return True

    def _leave(self) -> None:
        self.under_way -= 1


class Front:
    """The sockets and servers of a service, and the service that answers behind them, `present`."""

    def __init__(self, present: RunningService, *, reuse_port: bool) -> None:
        """Listen at the addresses of `present`.

        Raises `ConfigurationError` if that is impossible, or if there are too few descriptors.
        """
        service = present.service
        self.present = present
        most = descriptors.make_room(service.connections, service.outgoing)
        descriptors.refuse_too_few(service.connections, most, service.outgoing)
        if not reuse_port:  # else the process that watches us has said so
            descriptors.tell_if_fewer(service.connections, most, service.outgoing)
        self._sockets = [
            listen(address, reuse_port=reuse_port)
            for _, address in (*service.listeners, *([service.health] if service.health else []))
        ]
        self._switches = [_Switch(app) for app in present.apps]
        each = _each(most, service)
        self._servers = [
            Server(switch, each, service.tls) for switch in self._switches[: len(service.listeners)]
        ]
        if service.health is not None:
            bound = descriptors.HEALTH_CONNECTIONS
            self._servers.append(Server(self._switches[-1], bound, minds_shortage=False))

    def serve(self, group: TaskGroup, stop: anyio.Event) -> None:
        """Serve from tasks of `group` until `stop` is set."""
        for number, (server, listening) in enumerate(
            zip(self._servers, self._sockets, strict=True)
        ):
            if number < len(self.present.service.listeners):
                group.start_soon(serve, server, listening, stop)
            else:
                after = self.present.service.after
                group.start_soon(serve_apart, server, listening, stop, after)

    def turn_to(self, other: RunningService) -> None:
        """Let `other` answer from now on, and end the present service."""
        before, self.present = self.present, other
        service = other.service
        most = descriptors.make_room(service.connections, service.outgoing)
        if service.connections != before.service.connections:
            descriptors.tell_if_fewer(service.connections, most, service.outgoing)
        for switch, app in zip(self._switches, other.apps, strict=True):
            switch.app = app
        for server, _ in zip(self._servers, service.listeners, strict=False):
            server.limit_to(_each(most, service))
            if service.tls is not None:
                server.show(service.tls)
        before.stop.set()
        before.leave.set()


def _each(most: int, service: Service) -> int:
    """Return how many connections each listener gets of those of all."""
    return max(1, most // max(1, len(service.listeners)))


class _Switch:
    """Passes each request to an application that can be exchanged."""

    def __init__(self, app: Answering) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    def at_once(self, request: WholeRequest) -> bool:
        return takes_at_once(self.app, request)


async def _live(
    opening: Opening, *, task_status: TaskStatus[RunningService] = TASK_STATUS_IGNORED
) -> None:
    """Run a service from its opening until it is told to leave and has answered everything."""
    async with opening as service:
        running = RunningService(service)
        async with anyio.create_task_group() as works:
            for work in service.works:
                works.start_soon(work, running.stop)
            task_status.started(running)
        await running.last_answer()


async def _replace(
    front: Front,
    services: TaskGroup,
    again: Callable[[], Opening],
    asked: MemoryObjectReceiveStream[None],
) -> None:
    """Replace the service whenever asked; it stays if a new one cannot be built."""
    async for _ in asked:
        try:
            running = await services.start(_live, again())
        except AggregatorError as error:
            log.error("settings stay as they were", reason=str(error))
        except Exception:  # last resort: whatever went wrong, the service keeps running
            log.exception("settings stay as they were")
        else:
            front.turn_to(running)
            log.info("settings read again")
            await to_thread.run_sync(look_for_garbage_again)


async def _watch_signals(
    stop: anyio.Event,
    scope: anyio.CancelScope,
    asking: MemoryObjectSendStream[None] | None,
    *,
    task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
) -> None:
    """Set `stop` at the first signal, cancel `scope` at the second; on SIGHUP ask for another."""
    taken = [signal.SIGTERM, signal.SIGINT]
    if asking is not None:
        taken.append(signal.SIGHUP)
    terminal = sighup.Terminal()
    with anyio.open_signal_receiver(*taken) as received, sighup.released():
        task_status.started()
        async for number in received:
            if number is signal.SIGHUP and asking is not None and not terminal.is_gone:
                with suppress(anyio.WouldBlock, anyio.ClosedResourceError):
                    asking.send_nowait(None)  # a queued reload will see this change, too
                continue
            if stop.is_set():
                break
            log.info("stopping", signal=number.name)
            stop.set()
            scope.deadline = anyio.current_time() + GRACE_SECONDS
    scope.cancel()
