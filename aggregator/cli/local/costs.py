"""What processes on this machine cost, as Linux counts it, and what one exchange costs here.

Opening an input share takes at least one exchange (X25519), so costs in exchanges can be compared
between machines.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.errors import ConfigurationError

_EXCHANGES: Final = 2000
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Costs:
    """What some processes have used since they began.

    Written bytes are None if a process belongs to another user and so does not tell. The peak is
    the most memory that one of the processes ever had.
    """

    cpu_seconds: float = 0.0
    written_bytes: int | None = 0
    peak_mib: int = 0

    def __add__(self, other: "Costs") -> "Costs":
        return Costs(
            self.cpu_seconds + other.cpu_seconds,
            None
            if self.written_bytes is None or other.written_bytes is None
            else self.written_bytes + other.written_bytes,
            max(self.peak_mib, other.peak_mib),
        )

    def since(self, before: "Costs") -> "Costs":
        """Return what was used since `before`; the peak is that of all time."""
        return Costs(
            self.cpu_seconds - before.cpu_seconds,
            None
            if self.written_bytes is None or before.written_bytes is None
            else self.written_bytes - before.written_bytes,
            self.peak_mib,
        )


def costs_of(processes: Iterable[int]) -> Costs:
    """Return what processes, and their children that have ended, have used."""
    return sum((_costs(process) for process in processes), Costs())


def _costs(process: int) -> Costs:
    place = _PROC / str(process)
    try:
        fields = (place / "stat").read_text().rpartition(")")[2].split()
        peak = _line(place / "status", "VmHWM:") // 2**10
        written = _written(place)
    except (FileNotFoundError, ProcessLookupError):  # it has ended, and its parent counts its time
        return Costs()
    return Costs(sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"), written, peak)


def _written(place: Path) -> int | None:
    try:
        return _line(place / "io", "write_bytes:")
    except PermissionError:
        return None


def _line(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


def processes_with(argument: Path) -> list[int]:
    """Return the processes that were started with a file as one of their arguments.

    Raises `ConfigurationError` if there are none, or this system cannot tell.
    """
    if not _PROC.is_dir():
        raise ConfigurationError("what processes spend is counted on Linux only")
    wanted = str(argument).encode()
    found = []
    for place in _PROC.iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            arguments = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:  # the process has ended
            continue
        if wanted in arguments:
            found.append(int(place.name))
    if not found:
        raise ConfigurationError(f"{argument}: no service runs with it")
    return found


def server_processes(process: int) -> list[int]:
    """Return the processes of a PostgreSQL server, given one of its session processes."""
    try:
        name = (_PROC / str(process) / "comm").read_text().strip()
        fields = (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        name, fields = "", []
    if name != "postgres":
        raise ConfigurationError(
            "postgres: the server's processes cannot be seen from here: it may be in a container"
        )
    server = int(fields[1])
    children = (_PROC / str(server) / "task" / str(server) / "children").read_text().split()
    return [server, *map(int, children)]


def exchange_seconds() -> float:
    """Return the processor time of one X25519 exchange, by the library that opens reports."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    ours, theirs = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    began = time.process_time()
    for _ in range(_EXCHANGES):
        ours.exchange(theirs)
    return (time.process_time() - began) / _EXCHANGES
