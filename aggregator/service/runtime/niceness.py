"""Lets a background process give way to all others."""

import os
from contextlib import suppress
from pathlib import Path

NICENESS = 10
"""Leaves about a tenth of a normal process's weight, so that the work still ends under load."""

_GROUP = Path("/proc/self/autogroup")


def give_way() -> None:
    """Lower this process's share of the CPU to about a tenth of a normal process's."""
    # A systemd unit may forbid either call; that does no harm.
    with suppress(OSError):
        niceness = os.nice(NICENESS)
        # Where Linux groups processes by session (autogroup), niceness counts only within the
        # group and means nothing to a session's only process. So we lower the group's as well.
        _GROUP.write_text(f"{niceness}\n", encoding="ascii")
