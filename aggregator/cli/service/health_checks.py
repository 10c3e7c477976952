"""Checks of a party's store that every service makes, for its health listener and its log."""

import dataclasses
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio import to_thread
from starlette.types import ASGIApp

from aggregator.cli.service.running import Service, Work
from aggregator.clock import SystemClock
from aggregator.errors import StoreError
from aggregator.protocol.clear_text import is_loopback
from aggregator.service.config import AnySettings, ServiceSettings
from aggregator.service.runtime.lost_sums import sum_faults
from aggregator.service.storage.engine.backends import Damaged, Unreachable
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.sqlite_check import CheckStopped
from aggregator.service.storage.engine.store_check import StoreCheck
from aggregator.service.telemetry.health import Health
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.logs import LogFormat, configure_logs
from aggregator.service.telemetry.probe import Probe
from aggregator.service.transport.certificates import (
    Certificate,
    lines_of,
    own_certificates,
    with_certificates,
)
from aggregator.service.transport.tls import tls_of
from aggregator.service.web.descriptors import SHORTAGE
from aggregator.service.web.health import create_health_app

WATCH_SECONDS = 60
"""How often the log says that the service is not ready, as long as it is not, and how soon other
work is tried again that has failed."""

REMINDER_SECONDS = 24 * 3600
"""How often the log says that a certificate must be renewed."""

LOOK_SECONDS = 3600
"""How often every sum is looked at while none is missing; it takes longer than a look at health."""

_TURN_SECONDS = 0.5
"""How soon a service takes over the check of the store from the one that it replaces."""


async def service_of(
    settings: AnySettings,
    listeners: Sequence[tuple[ASGIApp, str]],
    works: Sequence[Work],
    examine: Callable[[], Health],
    check: StoreCheck | None = None,
) -> Service:
    """Return a service with its health listener, after a first look at the store.

    Its health says how far `check` is, the check of the store's pages; None if another process has
    it.
    """
    configure_logs(LogFormat(settings.log_format), settings.log_level, settings.role)
    certificates = own_certificates(settings)  # as they are shown, whatever the files say later

    def examine_all() -> Health:
        state = "by another process" if check is None else check.state
        found = _with_shortage(examine())
        found = dataclasses.replace(found, document={**found.document, "store_check": state})
        return with_certificates(found, certificates, SystemClock().now())

    probe = Probe(examine_all)
    await to_thread.run_sync(probe.look)
    listener = health_listener(settings, probe)
    is_watched = listener is not None  # the log alone needs a check only once a minute
    watching = [probe.watch] if is_watched else []
    telling = _telling(probe, is_watched=is_watched)
    return Service(
        listeners,
        [
            *works,
            *watching,
            telling,
            _reminding(certificates),
            *([] if check is None else [checking(check), doubting(check)]),
        ],
        settings.max_connections,
        listener,
        tls=tls_of(settings),
        outgoing=settings.outgoing_connections,
    )


def _with_shortage(health: Health) -> Health:
    """Add what health says if file descriptors run short; requests may come nevertheless."""
    short = SHORTAGE.faults
    faults, stalls = [*health.faults, *short], [*health.stalls, *short]
    return dataclasses.replace(health, faults=faults, stalls=stalls)


def health_listener(settings: ServiceSettings, probe: Probe) -> tuple[ASGIApp, str] | None:
    """Return the health application with its address, if the settings name one.

    On a loopback address, requests must use this machine's names; on a network, monitors and probes
    use any address.
    """
    address = settings.health_listen
    if address is None:
        return None
    host = address.rpartition(":")[0].strip("[]")
    names, is_on_network = settings.health_names, not is_loopback(host)
    return create_health_app(probe, names, any_address=is_on_network), address


def _telling(probe: Probe, *, is_watched: bool) -> Work:
    """Return a work that logs why the service is not ready, and checks if nothing else does."""

    async def tell() -> int:
        if not is_watched:
            await to_thread.run_sync(probe.look)
        for fault in probe.latest().faults:
            if fault != SHORTAGE.reason:  # says so by itself
                log.warning("not ready", reason=fault)
        return 0

    return repeating(tell, WATCH_SECONDS)


def _reminding(certificates: list[Certificate]) -> Work:
    """Return a work that logs once a day which certificates must be renewed."""

    async def remind() -> int:
        for line in lines_of(certificates, SystemClock().now()):
            log.warning("a certificate ends soon", reason=line)
        return 0

    return repeating(remind, REMINDER_SECONDS)


def repeating(run_once: Callable[[], Awaitable[int]], interval_seconds: float) -> Work:
    """Return a work that does round after round, and rests when there is nothing to do.

    A round that failed is tried again within `WATCH_SECONDS`.
    """

    async def repeat(stop: anyio.Event) -> None:
        while not stop.is_set():
            done, rest = 0, min(interval_seconds, WATCH_SECONDS)
            try:
                done = await run_once()
                rest = interval_seconds
            except Unreachable as error:
                log.warning("the store cannot be reached", reason=str(error))
            except Damaged as error:
                log.error("the store cannot be trusted", reason=str(error))
            except Exception:  # the outermost edge: log it, and try again in the next round
                log.exception("a round of work failed")
            if not done:
                with anyio.move_on_after(rest):
                    await stop.wait()

    return repeat


def checking(check: StoreCheck) -> Work:
    """Return a work that checks a store which its service did not check before it served.

    What it finds is a fault of every process of the store, and none of them writes any more.
    """

    async def look(stop: anyio.Event) -> None:
        while check.state in ("due", "under way") and not stop.is_set():
            if check.state == "due":
                await _look(check, stop)
            else:  # by the service that this one replaces, which stops it
                with anyio.move_on_after(_TURN_SECONDS):
                    await stop.wait()

    return look


def doubting(check: StoreCheck) -> Work:
    """Return a work that checks a store again that was found damaged, less and less often.

    A disk that was away for a moment is no damage, and then all goes on by itself.
    """

    async def look_again(stop: anyio.Event) -> None:
        rest = float(WATCH_SECONDS)
        while not stop.is_set():
            with anyio.move_on_after(rest):
                await stop.wait()
            if not stop.is_set() and check.is_in_doubt() and check.state != "under way":
                await _look(check, stop)
                rest = min(2 * rest, LOOK_SECONDS)

    return look_again


async def _look(check: StoreCheck, stop: anyio.Event) -> None:
    """Check the store, unless the service ends before; the log says what comes of it."""

    async def end() -> None:
        await stop.wait()
        check.stop()

    async with anyio.create_task_group() as group:
        group.start_soon(end)
        try:
            await to_thread.run_sync(check.run)
        except CheckStopped:
            return
        except StoreError as error:
            log.error("the store cannot be trusted", reason=str(error))
        except Exception:  # the outermost edge: the service goes on
            log.exception("the store could not be checked")
        group.cancel_scope.cancel()


class SumWatch:
    """Knows of which sums the keys are missing, before anybody asks for their batch."""

    def __init__(self, database: Database) -> None:
        """Look at a store when `watch` runs."""
        self.faults: list[str] = []
        self._database = database
        self._due = 0.0

    def watch(self) -> Work:
        """Return a work that looks at the start and every hour, and while sums are missing more."""
        return repeating(self.look, WATCH_SECONDS)

    async def look(self) -> int:
        """Look if it is time for that; there is nothing to be done at once."""
        now = anyio.current_time()
        if self.faults or now >= self._due:
            found = await to_thread.run_sync(sum_faults, self._database)
            for fault in found:
                if fault not in self.faults:
                    log.error("sums cannot be read", reason=fault)
            self.faults, self._due = found, now + LOOK_SECONDS
        return 0
