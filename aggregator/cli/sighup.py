"""SIGHUP: either a request to read the settings again, or the loss of the terminal.

Both come as the same signal. A service that had a terminal and has lost it ends, as a program does
when its window is closed. One that was started with the signal ignored (`nohup`) is meant to
outlive its terminal: it reads its settings again in both cases.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def hold() -> None:
    """Block the signal, which would otherwise end the process, until it is handled (`released`)."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


@contextmanager
def released() -> Iterator[None]:
    """Unblock the signal during the block, which starts by handling it."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Terminal:
    """The terminal with which the process ends, if any; make it before the signal is handled."""

    def __init__(self) -> None:
        is_to_outlive_it = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._was_there = _is_there() and not is_to_outlive_it

    @property
    def is_gone(self) -> bool:
        """Whether there was a terminal that is gone now."""
        return self._was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
