"""Builds an aggregator from its parts and runs it until it is told to stop.

One event loop runs the application, the health listener and, on request, the workers. The first
SIGTERM or SIGINT lets requests and jobs under way finish. A second one, or too long a wait, drops
them, which loses nothing: their leases expire and the work goes on elsewhere.
"""

import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import anyio
import httpx
import structlog
import uvicorn
from anyio import CapacityLimiter, to_thread
from starlette.types import ASGIApp
from typing_extensions import override

from aggregator.cli.processes import become_one_of
from aggregator.clock import SystemClock
from aggregator.config import (
    AggregatorSettings,
    AnySettings,
    HelperSettings,
    LeaderSettings,
    ServiceSettings,
)
from aggregator.dap.profile import Role
from aggregator.entropy import SystemEntropy
from aggregator.errors import ConfigurationError
from aggregator.helper.routes import HelperLimits, HelperResources
from aggregator.leader.collections import CollectionDriver
from aggregator.leader.job_creator import JobCreator
from aggregator.leader.job_driver import JobDriver
from aggregator.leader.routes import LeaderLimits, LeaderResources
from aggregator.leader.scheduler import DriverSettings
from aggregator.runtime import Runtime
from aggregator.runtime.release_steps import delete_leftovers
from aggregator.runtime.status import read_aggregator_health
from aggregator.storage.database import Database
from aggregator.storage.engine import Unreachable
from aggregator.storage.garbage import collect_garbage
from aggregator.storage.journal import Journal
from aggregator.storage.opening import open_aggregator_store
from aggregator.telemetry.by_minute import ByMinute
from aggregator.telemetry.health import Health
from aggregator.telemetry.logs import LogFormat, configure_logs
from aggregator.transport.client import is_loopback, open_client
from aggregator.web.app import create_app
from aggregator.web.connections import BoundedConnection
from aggregator.web.health import create_health_app

log = structlog.get_logger()

GRACE_SECONDS = 20
ROTATION_SECONDS = 60
"""How often HPKE keys are looked at."""
GARBAGE_SECONDS = 3600
"""How often what nobody can ask for any more is looked for."""
WATCH_SECONDS = 60
"""How often the log says that the service is not ready, if it is not."""
SWITCH_SECONDS = 0.001
"""How long a thread that computes in Python may keep the others waiting: the health listener's
thread takes some twenty turns for an answer, which is to come within 200 ms."""
_BACKLOG = 2048

Work = Callable[[anyio.Event], Coroutine[None, None, None]]
"""Something that runs beside the servers until the event is set."""


def serve_leader(settings: LeaderSettings, *, work: bool, processes: int = 1) -> None:
    """Run the leader's application, and with `work` its workers in the same processes."""
    is_one_of_many = _divide(settings, processes)
    _run(settings, lambda: _leader(settings, serve=True, work=work, reuse_port=is_one_of_many))


def work_leader(settings: LeaderSettings) -> None:
    """Run the leader's workers, and the health listener if there is one."""
    _run(settings, lambda: _leader(settings, serve=False, work=True, reuse_port=False))


def serve_helper(settings: HelperSettings, *, processes: int = 1) -> None:
    """Run the helper's application."""
    is_one_of_many = _divide(settings, processes)
    _run(settings, lambda: _helper(settings, reuse_port=is_one_of_many))


def make_runtime(
    role: Role, settings: AggregatorSettings, database: Database, journal: Journal
) -> Runtime:
    """Return an aggregator over its open store, with the system's clock and randomness."""
    return Runtime(
        role,
        database,
        SystemClock(),
        SystemEntropy(),
        journal,
        floor=settings.floor,
        rotation=settings.rotation,
        clock_skew_seconds=settings.clock_skew_seconds,
        verification_threads=settings.verification_threads,
    )


def leader_app(runtime: Runtime, settings: LeaderSettings) -> ASGIApp:
    """Return the leader's application."""
    limits = LeaderLimits(
        max_body_size=settings.max_body_size,
        hpke_cache_seconds=settings.hpke_cache_seconds,
        poll_seconds=settings.collection_poll_seconds,
        max_report_age_seconds=settings.max_report_age_seconds,
    )
    return create_app(
        "leader",
        [LeaderResources(runtime, limits).router()],
        settings.max_bytes_in_flight,
        settings.answer_seconds,
    )


def helper_app(runtime: Runtime, settings: HelperSettings) -> ASGIApp:
    """Return the helper's application."""
    limits = HelperLimits(settings.max_body_size, settings.hpke_cache_seconds)
    return create_app(
        "helper",
        [HelperResources(runtime, limits).router()],
        settings.max_bytes_in_flight,
        settings.answer_seconds,
    )


def leader_work(runtime: Runtime, settings: LeaderSettings, http: httpx.AsyncClient) -> list[Work]:
    """Return the leader's workers."""
    driving = DriverSettings(
        concurrency=settings.concurrency,
        lease_seconds=settings.lease_seconds,
        max_attempts=settings.max_attempts,
        jobs_per_helper=settings.jobs_per_helper,
        refusal_seconds=settings.collection_refusal_seconds,
    )
    creator = JobCreator(
        runtime, job_size=settings.aggregation_job_size, linger_seconds=settings.linger_seconds
    )
    interval = settings.work_interval_seconds
    return [
        _repeating(creator.run_turn, interval),
        partial(JobDriver(runtime, http, driving).run, poll_seconds=interval),
        partial(CollectionDriver(runtime, http, driving).run, poll_seconds=interval),
    ]


async def run_services(
    listeners: Sequence[tuple[ASGIApp, str]],
    works: Sequence[Work],
    max_connections: int,
    health: tuple[ASGIApp, str] | None = None,
    *,
    reuse_port: bool = False,
) -> None:
    """Serve applications at their addresses and run works beside them, until a signal comes.

    Args:
        listeners: Applications, each with its `host:port`; port 0 takes a free one.
        works: What else runs; each ends soon after the event that it is given is set.
        max_connections: The most connections open at once, per address.
        health: The health application and its address; it runs in a thread of its own, so that it
            answers while the others are busy.
        reuse_port: Whether other processes of the service listen at the same addresses.

    Raises:
        ConfigurationError: An address cannot be listened on.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    sockets = [_listen(address, reuse_port=reuse_port) for _, address in listeners]
    health_socket = None if health is None else _listen(health[1], reuse_port=reuse_port)
    stop = anyio.Event()
    async with anyio.create_task_group() as signals:
        signals.start_soon(_stop_on_signal, stop, signals.cancel_scope)
        async with anyio.create_task_group() as group:
            for (app, _), listening in zip(listeners, sockets, strict=True):
                group.start_soon(_serve, _server(app, max_connections), listening, stop)
            if health is not None and health_socket is not None:
                server = _server(health[0], max_connections)
                group.start_soon(_serve_apart, server, health_socket, stop)
            for work in works:
                group.start_soon(work, stop)
        signals.cancel_scope.cancel()


def _divide(settings: AnySettings, processes: int) -> bool:
    """Go on in as many processes as asked for; return whether there are several.

    Raises:
        ConfigurationError: Each of several would listen at another port.
    """
    if processes > 1:
        if settings.listen.endswith(":0"):
            raise ConfigurationError("listen: several processes need one port, which is not 0")
        configure_logs(LogFormat(settings.log_format), settings.log_level, settings.role)
        become_one_of(processes)
    return processes > 1


def _run(settings: AnySettings, main: Callable[[], Awaitable[None]]) -> None:
    configure_logs(LogFormat(settings.log_format), settings.log_level, settings.role)
    anyio.run(main, backend_options={"use_uvloop": True})


async def _leader(settings: LeaderSettings, *, serve: bool, work: bool, reuse_port: bool) -> None:
    database, journal = open_aggregator_store(settings)
    try:
        runtime = make_runtime(Role.LEADER, settings, database, journal)
        await runtime.ensure_keypair()
        await delete_leftovers(database)
        async with open_client(
            settings.request_timeout_seconds,
            insecure_http=settings.insecure_http,
            environment_proxy=settings.environment_proxy,
        ) as http:
            listeners = [(leader_app(runtime, settings), settings.listen)] if serve else []
            works = [_rotating(runtime), _collecting_garbage(settings, database)]
            if work:
                works += [_warming_up(runtime), *leader_work(runtime, settings, http)]
            examine = ByMinute(
                partial(examine_aggregator, settings, Role.LEADER, database),
                lambda: {"helper_answers": http.answers.document()},
            )
            works.append(_watching(examine))
            await run_services(
                listeners,
                works,
                settings.max_connections,
                health_listener(settings, examine),
                reuse_port=reuse_port,
            )
    finally:
        database.close()
        journal.close()


async def _helper(settings: HelperSettings, *, reuse_port: bool) -> None:
    database, journal = open_aggregator_store(settings)
    try:
        runtime = make_runtime(Role.HELPER, settings, database, journal)
        await runtime.ensure_keypair()
        await delete_leftovers(database)
        listeners = [(helper_app(runtime, settings), settings.listen)]
        examine = ByMinute(partial(examine_aggregator, settings, Role.HELPER, database))
        works = [
            _rotating(runtime),
            _collecting_garbage(settings, database),
            _warming_up(runtime),
            _watching(examine),
        ]
        await run_services(
            listeners,
            works,
            settings.max_connections,
            health_listener(settings, examine),
            reuse_port=reuse_port,
        )
    finally:
        database.close()
        journal.close()


def health_listener(
    settings: ServiceSettings, examine: Callable[[], Health]
) -> tuple[ASGIApp, str] | None:
    """Return the health application with its address, if the settings name one.

    Whoever can only be on this machine has only its names for it; a network's monitors and probes
    have its address.
    """
    address = settings.health_listen
    if address is None:
        return None
    host = address.rpartition(":")[0].strip("[]")
    names, is_on_network = settings.health_names, not is_loopback(host)
    return create_health_app(examine, names, any_address=is_on_network), address


def examine_aggregator(settings: AggregatorSettings, role: Role, database: Database) -> Health:
    """Look at an aggregator's store."""
    stalled_seconds = settings.stalled_seconds if isinstance(settings, LeaderSettings) else 0
    return database.read_sync(
        "health", lambda tx: read_aggregator_health(tx, role, stalled_seconds)
    )


def _warming_up(runtime: Runtime) -> Work:
    async def warm_up(_stop: anyio.Event) -> None:
        await runtime.warm_up()

    return warm_up


def _rotating(runtime: Runtime) -> Work:
    return _repeating(runtime.key_rotation().run_once, ROTATION_SECONDS)


def _collecting_garbage(settings: AggregatorSettings, database: Database) -> Work:
    async def collect() -> int:
        return await database.run(
            "collect garbage", lambda tx: collect_garbage(tx, settings.retention_seconds)
        )

    return _repeating(collect, GARBAGE_SECONDS)


def _watching(examine: Callable[[], Health]) -> Work:
    """Return a work that logs why the service is not ready."""

    async def watch() -> int:
        health = await to_thread.run_sync(examine)
        for fault in health.faults:
            log.warning("not ready", reason=fault)
        return 0

    return _repeating(watch, WATCH_SECONDS)


def _repeating(run_once: Callable[[], Awaitable[int]], interval_seconds: float) -> Work:
    """Return a work that does round after round, and rests when there is nothing to do."""

    async def repeat(stop: anyio.Event) -> None:
        while not stop.is_set():
            try:
                done = await run_once()
            except Unreachable as error:
                log.warning("the store cannot be reached", reason=str(error))
                done = 0
            except Exception:  # the outermost edge: logged, and the next round tries again
                log.exception("a round of work failed")
                done = 0
            if not done:
                with anyio.move_on_after(interval_seconds):
                    await stop.wait()

    return repeat


class _Server(uvicorn.Server):
    """A server that leaves signals to us, because several run in one process."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _server(app: ASGIApp, max_connections: int) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            http=BoundedConnection.limited_to(max_connections),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS // 2,
        )
    )


async def _serve(server: _Server, listening: socket.socket, stop: anyio.Event) -> None:
    async with _announced(server, listening, stop):
        await server.serve(sockets=[listening])


async def _serve_apart(server: _Server, listening: socket.socket, stop: anyio.Event) -> None:
    """Serve from a thread with an event loop of its own."""
    async with _announced(server, listening, stop):
        await to_thread.run_sync(
            partial(anyio.run, partial(server.serve, sockets=[listening])),
            abandon_on_cancel=True,
            limiter=CapacityLimiter(1),
        )


@asynccontextmanager
async def _announced(
    server: _Server, listening: socket.socket, stop: anyio.Event
) -> AsyncIterator[None]:
    """Log where a server listens, and end it when `stop` is set."""
    host, port = listening.getsockname()[:2]
    log.info("listening", host=host, port=port)

    async def exit_when_stopped() -> None:
        await stop.wait()
        server.should_exit = True  # it looks at this ten times a second, from any thread

    async with anyio.create_task_group() as group:
        group.start_soon(exit_when_stopped)
        yield
        group.cancel_scope.cancel()


def _listen(address: str, *, reuse_port: bool) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuse_port)
    try:
        listening.bind((host, int(port)))
        # All at once: whoever hears from one listener that we are up can reach the others too.
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"listen: {address}: {error.strerror}") from error
    return listening


async def _stop_on_signal(stop: anyio.Event, scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for number in received:
            if stop.is_set():
                break
            log.info("stopping", signal=number.name)
            stop.set()
            scope.deadline = anyio.current_time() + GRACE_SECONDS
    scope.cancel()
