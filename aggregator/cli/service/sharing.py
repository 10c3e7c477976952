"""What the processes of a service have in common: the memory of one that begets them all.

The first process loads code and maps the kernels of its tasks, and leaves all of that alone from
then on, so the others share its memory until they write to it. It must have nothing that two
processes may not both have: a thread, whose locks nobody would release in a copy; a connection, an
event loop, an open store; or a key.
"""

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from aggregator.cli.service.heap import give_back_memory
from aggregator.cli.service.running import leave_out_of_collections
from aggregator.dap.hpke import HpkeKeypair
from aggregator.service.runtime.compilation import Kind
from aggregator.service.runtime.kernels import are_compiled
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.telemetry.lines import log
from aggregator.vdaf.instances import prio3_from_configuration

FORKS = sys.platform == "linux"
"""Whether a process may become two. macOS' own libraries do not survive it: there each process of a
service starts as the first one did."""

_NOT_SHARED = (asyncio.AbstractEventLoop, Database, Crypter, HpkeKeypair)


def make_ready(kinds: Sequence[Kind]) -> None:
    """Map the kernels of these kinds that are compiled, and have all that there is be shared."""
    for kind in kinds:
        try:
            are_compiled(prio3_from_configuration(kind.vdaf_type, kind.configuration), kind.role)
        except Exception:  # each process looks for them again, and can do without
            log.exception("kernels could not be looked for", vdaf=kind.vdaf)
    if not _objects():  # they would no longer be found, and nothing is shared beside them
        leave_out_of_collections()
    give_back_memory()


def hindrances() -> list[str]:
    """Return what this process has that a copy of it must not have, in words; usually nothing.

    Standard streams, and what was open when the program began, may be shared.
    """
    threads = {each.name for each in threading.enumerate()} - {threading.current_thread().name}
    if not threads and len(_entries("task")) > 1:
        threads = {"not Python's"}
    return [
        *(f"a thread, {each}" for each in sorted(threads)),
        *(f"an object, {each}" for each in sorted(_objects())),
        *(f"open, {each}" for each in _opened()),
    ]


def _objects() -> set[str]:
    """Return the kinds of objects that must not be shared, among those that are collected."""
    return {type(each).__name__ for each in gc.get_objects() if isinstance(each, _NOT_SHARED)}


def _opened() -> list[str]:
    found = []
    for entry in _entries("fd"):
        with suppress(OSError):  # the descriptor by which the folder was read
            # What we open ends with the program, and what was open when it began does not.
            if not os.get_inheritable(int(entry.name)):
                found.append(str(entry.readlink()))
    return found


def _entries(folder: str) -> list[Path]:
    with suppress(OSError):
        return [*(Path("/proc/self") / folder).iterdir()]
    return []
