"""What the machine, a container or a unit gives this service: cores and memory.

A container sees all cores of its machine, and a unit all of its memory. But each may use only what
its control group allows, and every group around that one: the least of these counts.

Source: Linux kernel, "Control Group v2". Version 1 is not read: there, say `--processes`.
"""

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

MEBIBYTE = 2**20

PROCESS_MIB = 666
"""The most memory that a process takes (docs/sizing.md: 0.65 GiB; docs/operations/edge.md)."""

COMPILING_MIB = 400
"""What compiling kernels takes, in one process for all (docs/operations/watch.md)."""


def memory_of(processes: int) -> int:
    """Return the MiB that a service of so many processes must be allowed to take."""
    return processes * PROCESS_MIB + COMPILING_MIB


def usable_cores(root: Path = Path("/")) -> int:
    """Return how many cores this process may use, of which a quota may leave a part."""
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    for said in _limits(root, "cpu.max"):
        quota, _, period = said.partition(" ")
        cores = min(cores, math.ceil(int(quota) / int(period)))
    return max(1, cores)


def processes_in_memory(root: Path = Path("/")) -> int | None:
    """Return how many processes fit into the memory that we may use; None if it has no bound."""
    allowed = [int(said) // MEBIBYTE for said in _limits(root, "memory.max")]
    if not allowed:
        return None
    return max(1, (min(allowed) - COMPILING_MIB) // PROCESS_MIB)


def _limits(root: Path, name: str) -> Iterator[str]:
    """Yield what our control group and those around it say of a limit, if they set one."""
    mounted = root / "sys/fs/cgroup"
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    ours = next((each[3:] for each in groups if each.startswith("0::/")), None)
    if ours is None:
        return
    folder = mounted / ours.lstrip("/")
    for each in (folder, *folder.parents):
        if each != mounted and mounted not in each.parents:
            return
        try:
            said = (each / name).read_text().strip()
        except OSError:
            continue  # the outermost has no limits
        if said and not said.startswith("max"):
            yield said
