"""Runs `prio` with clocks, its own and its store's, that are ahead of the system's, or behind it.

python -m tests.support.shifted SECONDS leader serve --config ...
"""

import sys
import time
from unittest.mock import patch

from aggregator import cli
from aggregator.clock import SystemClock
from aggregator.storage import opening
from aggregator.storage.database import Database


def command(seconds: int) -> tuple[str, ...]:
    """Return the command to run instead of `prio`, so many seconds ahead."""
    return (sys.executable, "-m", "tests.support.shifted", str(seconds))


class Shifted:
    """`Database` with `SystemClock` instead of the database's own."""

    open = staticmethod(
        lambda url, crypter, _clock, *rest: Database.open(url, crypter, SystemClock(), *rest)
    )


if __name__ == "__main__":
    _, ahead, *sys.argv[1:] = sys.argv
    with (
        patch.object(SystemClock, "now", lambda _: int(time.time()) + int(ahead)),
        patch.object(opening, "Database", Shifted),
    ):
        cli.main()
