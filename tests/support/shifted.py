"""Runs `prio` with clocks, its own and its store's, that are ahead of the system's, or behind it.

python -m tests.support.shifted SECONDS leader serve --config ...

Instead of a number, a file that holds one may be named, for a clock that jumps when it changes.
"""

import os
import sys
import time
from pathlib import Path
from unittest.mock import patch

from aggregator import cli
from aggregator.clock import SystemClock
from aggregator.service.runtime import key_rotation
from aggregator.service.storage import opening
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.reports import bodies

SETTLING = "SHIFTED_SETTLING_SECONDS"
"""The variable that says how long HPKE keys have to be of no use, if not as usual."""

LEAST_OBJECT = "SHIFTED_LEAST_OBJECT_BYTES"
"""The variable that says how large a group of reports must be to lie in object storage."""


def command(seconds: int | Path) -> tuple[str, ...]:
    """Return the command to run instead of `prio`, this many seconds ahead, or as the file says."""
    return (sys.executable, "-m", "tests.support.shifted", str(seconds))


def jump(file: Path, seconds: int) -> None:
    """Let clocks that look at the file be this many seconds ahead from now on."""
    draft = file.with_suffix(".draft")
    draft.write_text(str(seconds))
    draft.rename(file)


def _now(given: str) -> int:
    ahead = given if given.removeprefix("-").isdigit() else Path(given).read_text()
    return int(time.time()) + int(ahead)


class Shifted:
    """`Database` with `SystemClock` instead of the database's own."""

    open = staticmethod(
        lambda url, crypter, _clock, *rest, **named: Database.open(
            url, crypter, SystemClock(), *rest, **named
        )
    )


if __name__ == "__main__":
    _, ahead, *sys.argv[1:] = sys.argv
    with (
        patch.object(SystemClock, "now", lambda _: _now(ahead)),
        patch.object(opening, "Database", Shifted),
        patch.object(
            key_rotation,
            "SETTLING_SECONDS",
            float(os.environ.get(SETTLING, key_rotation.SETTLING_SECONDS)),
        ),
        patch.object(bodies, "LEAST_BYTES", int(os.environ.get(LEAST_OBJECT, bodies.LEAST_BYTES))),
    ):
        cli.main()
