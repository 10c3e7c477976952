"""SIGHUP: read the settings again; or the terminal from which the service was started is gone.

Both come as the same signal. A service that had a terminal and has none any more ends, as a program
does whose window is closed. One that was told to ignore the signal (`nohup`) goes on ignoring it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def hold() -> None:
    """Let the signal wait, which would end the process until somebody takes it (`taken`)."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def are_ignored() -> bool:
    """Return whether whoever started us wants us to hear nothing of it."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@contextmanager
def released() -> Iterator[None]:
    """Let the signal come during the block, at whose beginning somebody takes it."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Terminal:
    """The terminal that the process was started from, if any."""

    def __init__(self) -> None:
        self._was_there = _is_there()

    @property
    def is_gone(self) -> bool:
        """Whether there was one, and is none now."""
        return self._was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
