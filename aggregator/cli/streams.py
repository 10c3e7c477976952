"""Standard input, output and error where whoever started the program has closed or left them."""

import os
import sys
from contextlib import suppress
from pathlib import Path


def hold_closed_streams() -> None:
    """Put the null device in the place of streams that are closed.

    A file that is opened later, such as a database, would otherwise get their number.
    """
    null = Path(os.devnull)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, null.open(mode, encoding="utf-8"))


def leave_output() -> None:
    """Write no more to standard output, whose reader has gone: nothing is said at the exit."""
    with suppress(OSError, ValueError):  # where it is no file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
