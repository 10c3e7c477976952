"""What every party's service has: a look at its store, told to whoever asks and to the log."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio import to_thread
from starlette.types import ASGIApp

from aggregator.cli.service.running import Service, Work
from aggregator.service.config import AnySettings, ServiceSettings
from aggregator.service.storage.engine.backends import Unreachable
from aggregator.service.telemetry.health import Health
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.logs import LogFormat, configure_logs
from aggregator.service.telemetry.probe import Probe
from aggregator.service.transport.client import is_loopback
from aggregator.service.transport.tls import tls_of
from aggregator.service.web.health import create_health_app

WATCH_SECONDS = 60
"""How often the log says that the service is not ready, if it is not."""


async def service_of(
    settings: AnySettings,
    listeners: Sequence[tuple[ASGIApp, str]],
    works: Sequence[Work],
    examine: Callable[[], Health],
) -> Service:
    """Return a service with its health listener; the store was looked at by then."""
    configure_logs(LogFormat(settings.log_format), settings.log_level, settings.role)
    probe = Probe(examine)
    await to_thread.run_sync(probe.look)
    listener = health_listener(settings, probe)
    is_watched = listener is not None  # for the log alone a look a minute is enough
    watching = [probe.watch] if is_watched else []
    telling = _telling(probe, is_watched=is_watched)
    return Service(
        listeners,
        [*works, *watching, telling],
        settings.max_connections,
        listener,
        tls=tls_of(settings),
    )


def health_listener(settings: ServiceSettings, probe: Probe) -> tuple[ASGIApp, str] | None:
    """Return the health application with its address, if the settings name one.

    Whoever can only be on this machine has only its names for it; a network's monitors and probes
    have its address.

    Args:
        settings: The service's.
        probe: What was seen of its store.
    """
    address = settings.health_listen
    if address is None:
        return None
    host = address.rpartition(":")[0].strip("[]")
    names, is_on_network = settings.health_names, not is_loopback(host)
    return create_health_app(probe, names, any_address=is_on_network), address


def _telling(probe: Probe, *, is_watched: bool) -> Work:
    """Return a work that logs why the service is not ready, and looks if nobody else does."""

    async def tell() -> int:
        if not is_watched:
            await to_thread.run_sync(probe.look)
        for fault in probe.latest().faults:
            log.warning("not ready", reason=fault)
        return 0

    return repeating(tell, WATCH_SECONDS)


def repeating(run_once: Callable[[], Awaitable[int]], interval_seconds: float) -> Work:
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
