"""Standard input, output and error if they were closed at the start or are abandoned later."""

import os
import sys
from contextlib import suppress
from pathlib import Path


def hold_closed_streams() -> None:
    """Open the null device in place of closed standard streams.

    A file that is opened later, such as a database, would otherwise get their number.
    """
    null = Path(os.devnull)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, null.open(mode, encoding="utf-8"))


def leave_output() -> None:
    """Stop writing to standard output, whose reader is gone: nothing is reported at the exit."""
    with suppress(OSError, ValueError):  # where it is not a file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
