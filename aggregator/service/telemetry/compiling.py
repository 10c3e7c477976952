"""Which kernels are being compiled: for what, since when, and what went wrong.

A service knows the kernels that it awaits (`AWAITED`). Other processes of the machine, such as
`prio status`, read what a compiling process has written into its lock file; the system releases the
lock when that process ends.
"""

import dataclasses
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NOTE = "compiling"
"""The file that a compiling process locks, in the folder of compiled kernels."""


@dataclasses.dataclass(frozen=True, slots=True)
class Awaited:
    """Kernels of a VDAF that are not ready yet, since they were found missing (Unix time).

    The problem is why the last attempt to compile them failed, if it did.
    """

    vdaf: str
    since: float
    problem: str | None = None

    def record(self) -> dict[str, object]:
        """Return it as JSON."""
        seconds = max(0, round(time.time() - self.since))
        return {"vdaf": self.vdaf, "compiling_seconds": seconds, "problem": self.problem}


class AwaitedKernels:
    """The kernels that a process awaits and works without meanwhile; may be used by threads."""

    def __init__(self) -> None:
        self._awaited: dict[str, Awaited] = {}
        self._lock = threading.Lock()

    def begin(self, vdaf: str) -> None:
        """Await kernels from now on, if not already."""
        with self._lock:
            self._awaited.setdefault(vdaf, Awaited(vdaf, time.time()))

    def failed(self, vdaf: str, problem: str) -> None:
        """Record why kernels could not be compiled."""
        with self._lock:
            self._awaited[vdaf] = dataclasses.replace(self._awaited[vdaf], problem=problem)

    def ready(self, vdaf: str) -> None:
        """Stop awaiting kernels."""
        with self._lock:
            self._awaited.pop(vdaf, None)

    def records(self) -> list[dict[str, object]]:
        """Return what is awaited, as JSON."""
        with self._lock:
            return [each.record() for each in self._awaited.values()]


AWAITED = AwaitedKernels()
"""The kernels that this process awaits."""


def kernel_folder() -> Path | None:
    """Return the folder of compiled kernels, if this user has one."""
    if configured := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(configured)
    try:
        return Path.home() / ".cache" / "prio-aggregator"
    except RuntimeError:  # The user has no home.
        return None


@contextmanager
def one_at_a_time(folder: Path, vdafs: Sequence[str]) -> Iterator[None]:
    """Wait until no other process compiles; during the block, tell others what this one compiles.

    Raises OSError if the folder cannot be written.
    """
    with (folder / NOTE).open("a+", encoding="utf-8") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        note.truncate(0)
        note.write(json.dumps({"vdafs": list(vdafs), "since": time.time()}))
        note.flush()
        yield


def compiling_on_this_machine() -> list[dict[str, object]]:
    """Return what a process of this user is compiling now, as `AwaitedKernels.records` does."""
    folder = kernel_folder()
    if folder is None:
        return []
    try:
        with (folder / NOTE).open(encoding="utf-8") as note:
            if _is_free(note.fileno()):
                return []
            said = json.loads(note.read())
            return [Awaited(str(vdaf), float(said["since"])).record() for vdaf in said["vdafs"]]
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or just being written
        return []


def said_of_compiling() -> str:
    """Return text to add to the reason of a wait: what this machine is compiling, if anything."""
    return "".join(
        f"; kernels of {each['vdaf']} are being compiled here, since "
        f"{each['compiling_seconds']} s, and reports are verified more slowly"
        for each in compiling_on_this_machine()
    )


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
