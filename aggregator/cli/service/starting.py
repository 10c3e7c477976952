"""Starts an aggregator's service in one process or in several, and lets all read settings again."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

import anyio

from aggregator.cli import sighup
from aggregator.cli.service.heap import keep_memory
from aggregator.cli.service.listening import listen
from aggregator.cli.service.processes import (
    Part,
    become_one_of,
    do_apart,
    processes_by_default,
    succeeds_apart,
)
from aggregator.cli.service.reading import Reading
from aggregator.cli.service.recording import recording
from aggregator.cli.service.running import Opening, run
from aggregator.errors import AggregatorError, ConfigurationError
from aggregator.service.config import AggregatorSettings, HelperSettings, LeaderSettings
from aggregator.service.storage.engine.store_check import StoreCheck
from aggregator.service.storage.opening import open_aggregator_store
from aggregator.service.storage.reports.object_check import prove_waiting, settle_place
from aggregator.service.storage.tasks.hpke_keys import list_hpke_keys
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.logs import LogFormat, configure_logs
from aggregator.service.transport.tls import tls_of
from aggregator.service.web import descriptors

S = TypeVar("S", LeaderSettings, HelperSettings)


def start(
    reading: Reading[S],
    opening: Callable[[S, Part, StoreCheck | None], Opening],
    processes: int | None = 1,
    *,
    is_open: bool = True,
) -> None:
    """Run a service of these settings, in as many processes as asked for.

    By default there is one for each core, but one alone if the system is to choose the port. With
    `is_open` it listens at `listen`, and not only at `health_listen`.
    """
    settings = reading.now
    keep_memory()
    configure_logs(LogFormat(settings.log_format), settings.log_level, settings.role)
    sighup.hold()
    traces = recording(settings)  # begun by each process for itself
    has_port = not settings.listen.endswith(":0")
    if processes is None:
        processes = processes_by_default() if has_port else 1
    part = Part(0, processes)
    if processes > 1 and not has_port:
        raise ConfigurationError(
            "listen: the port must not be 0, because all processes share it; or give --processes 1"
        )
    check = StoreCheck(settings.database_url)
    check.before_serving()  # in this process: it leaves no thread, and no file open
    if processes > 1 or _uses_objects(settings):
        do_apart(lambda: _open_once(settings))
    if processes > 1:
        # Our processes share an address, and would share it with another service unnoticed.
        with ExitStack() as tried:
            for address in (settings.listen if is_open else None, settings.health_listen):
                if address is not None:
                    tried.enter_context(listen(address, reuse_port=False))
        _make_room(settings.max_connections if is_open else 0, settings.outgoing_connections)
        part = Part(become_one_of(processes, lambda: _read_again(reading)), processes)
    # A large store is read by one process.
    own = None if part.number and check.state == "due" else check
    with traces:
        anyio.run(
            partial(run, reuse_port=processes > 1),
            opening(reading.now, part, own),
            lambda: opening(reading.again(), part, own),
            backend_options={"use_uvloop": True},
        )


def _make_room(asked: int, outgoing: int) -> None:
    """Raise the limit of descriptors for several processes, and say once if it is too low."""
    most = descriptors.make_room(asked, outgoing)
    descriptors.refuse_too_few(asked, most, outgoing)
    descriptors.tell_if_fewer(asked, most, outgoing)


def _uses_objects(settings: AggregatorSettings) -> bool:
    return isinstance(settings, LeaderSettings) and settings.report_bodies is not None


def _open_once(settings: AggregatorSettings) -> None:
    """Check that store, object storage and certificate can be used with these settings."""
    tls_of(settings)
    database, journal = open_aggregator_store(settings)
    database.read_sync("hpke keys", list_hpke_keys)  # decrypts them
    settle_place(database)
    database.prove_objects()
    prove_waiting(database)
    database.close()
    journal.close()


def _read_again(reading: Reading[S]) -> bool:
    """Read the settings again if the store opens with them; return whether it does."""
    before = reading.now
    try:
        settings = reading.again()
    except AggregatorError as error:
        log.error("settings stay as they were", reason=str(error))
        return False

    # This process must stay without threads, or it could not start others.
    if succeeds_apart(lambda: _open_once(settings)):
        return True
    reading.now = before
    return False
