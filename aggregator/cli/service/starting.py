"""Starts an aggregator's service in one process or in several, and lets all read settings again."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
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
    place_given,
    processes_by_default,
    succeeds_apart,
)
from aggregator.cli.service.reading import Reading
from aggregator.cli.service.recording import recording
from aggregator.cli.service.running import Opening, run
from aggregator.cli.service.sharing import make_ready
from aggregator.dap.profile import Role
from aggregator.errors import AggregatorError, ConfigurationError
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.config import AggregatorSettings, HelperSettings, LeaderSettings
from aggregator.service.runtime.compilation import Kind, kinds_of_bytes, kinds_to_bytes
from aggregator.service.runtime.in_band import agreements_of
from aggregator.service.storage.engine.store_check import StoreCheck
from aggregator.service.storage.opening import open_aggregator_store
from aggregator.service.storage.reports.object_check import prove_waiting, settle_place
from aggregator.service.storage.tasks.hpke_keys import list_hpke_keys
from aggregator.service.storage.tasks.tasks import PublicTask, list_tasks
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.logs import LogFormat, configure_logs
from aggregator.service.transport.tls import tls_of
from aggregator.service.web import descriptors

S = TypeVar("S", LeaderSettings, HelperSettings)

_TASKS_AT_START = 16
"""Of how many tasks, the last ones, processes share the kernels; each has those of others for
itself."""


def start(
    reading: Reading[S],
    opening: Callable[[S, Part, StoreCheck | None], Opening],
    processes: int | None,
    *,
    is_open: bool = True,
    verifies: bool = True,
) -> None:
    """Run a service of these settings, in as many processes as asked for.

    By default there are as many as `processes_by_default` says, but one alone if the system is to
    choose the port. With `is_open` it listens at `listen`, and not only at `health_listen`; if it
    `verifies`, it needs kernels.
    """
    settings = reading.now
    place = place_given()
    keep_memory()
    configure_logs(LogFormat(settings.log_format), settings.log_level, settings.role)
    sighup.hold()
    traces = recording(settings)  # begun by each process for itself
    has_port = not settings.listen.endswith(":0")
    if processes is None:
        processes = processes_by_default() if has_port else 1
    if processes > 1 and not has_port:
        raise ConfigurationError(
            "listen: the port must not be 0, because all processes share it; or give --processes 1"
        )
    check = StoreCheck(settings.database_url)
    if place is not None:  # the process that began this one has looked at everything
        part = Part(place, processes)
    else:
        part = _begun(reading, processes, check, is_open=is_open, verifies=verifies)
    # A large store is read by one process.
    own = None if part.number and check.state == "due" else check
    with traces:
        anyio.run(
            partial(run, reuse_port=processes > 1),
            opening(reading.now, part, own),
            lambda: opening(reading.again(), part, own),
            backend_options={"use_uvloop": True},
        )


def _begun(
    reading: Reading[S], processes: int, check: StoreCheck, *, is_open: bool, verifies: bool
) -> Part:
    """Look at what a service needs, and begin its processes; return in each of them."""
    settings = reading.now
    check.before_serving()  # in this process: it leaves no thread, and no file open
    kinds = []
    if processes > 1 or _uses_objects(settings):
        kinds = kinds_of_bytes(do_apart(lambda: _open_once(settings)))
    if processes > 1:
        # Our processes share an address, and would share it with another service unnoticed.
        with ExitStack() as tried:
            for address in (settings.listen if is_open else None, settings.health_listen):
                if address is not None:
                    tried.enter_context(listen(address, reuse_port=False))
        _make_room(settings.max_connections if is_open else 0, settings.outgoing_connections)
        make_ready(kinds if verifies else [])
        return Part(become_one_of(processes, lambda: _read_again(reading)), processes)
    return Part(0, processes)


def _make_room(asked: int, outgoing: int) -> None:
    """Raise the limit of descriptors for several processes, and say once if it is too low."""
    most = descriptors.make_room(asked, outgoing)
    descriptors.refuse_too_few(asked, most, outgoing)
    descriptors.tell_if_fewer(asked, most, outgoing)


def _uses_objects(settings: AggregatorSettings) -> bool:
    return isinstance(settings, LeaderSettings) and settings.report_bodies is not None


def _open_once(settings: LeaderSettings | HelperSettings) -> bytes:
    """Check that what these settings name can be used: store, objects, certificate, agreements.

    Returns:
        The kinds of kernels that its last tasks need (`kinds_to_bytes`).
    """
    tls_of(settings)
    agreements_of(settings)
    database, journal = open_aggregator_store(settings)
    database.read_sync("hpke keys", list_hpke_keys)  # decrypts them
    settle_place(database)
    database.prove_objects()
    prove_waiting(database)
    kinds = kinds_to_bytes(_kinds_of(database.read_sync("tasks", list_tasks), settings.role))
    database.close()
    journal.close()
    return kinds


def _kinds_of(tasks: Sequence[PublicTask], role: str) -> dict[Kind, None]:
    found = dict[Kind, None]()
    for each in tasks[-_TASKS_AT_START:]:
        if each.role == role:
            with suppress(AggregatorError):  # each process says what is wrong with it
                of = task_from_toml(each.definition).configuration
                found[Kind(Role[role.upper()], of.vdaf_type, of.vdaf_configuration)] = None
    return found


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
