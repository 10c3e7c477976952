"""How a process in the background gives way to all others."""

import os
from contextlib import suppress
from pathlib import Path

NICENESS = 10
"""A tenth of the weight of a process that does not give way: it must come to its end under load."""

_GROUP = Path("/proc/self/autogroup")


def give_way() -> None:
    """Run only where others leave time, but for a tenth of what one of them gets."""
    # A unit of systemd may forbid either, and means no harm.
    with suppress(OSError):
        niceness = os.nice(NICENESS)
        # Where Linux makes a group of each session, niceness counts only within it, and so for
        # nothing in a session of one process: the group gives way like the process.
        _GROUP.write_text(f"{niceness}\n", encoding="ascii")
