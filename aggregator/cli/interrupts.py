"""Signals that end a program: while it imports modules, and while it looks after others."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process within the block, which has nothing to clean up: an import.

    An exception would leave half a module behind, or vanish in a library's finalizer.
    """
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class Ending:
    """Whether a program is to end, and how soon.

    Attributes:
        is_urgent: Whether a signal came while it was ending.
    """

    def __init__(self) -> None:
        self.is_urgent = False
        self._has_begun = False

    def begin(self) -> None:
        """Say that the program is ending: no further signal interrupts it."""
        self._has_begun = True

    def take(self, _number: int, _frame: FrameType | None) -> None:
        """Take a signal: the first one interrupts."""
        if self._has_begun:
            self.is_urgent = True
            return
        self._has_begun = True
        raise KeyboardInterrupt


@contextmanager
def ended_by_signals() -> Iterator[Ending]:
    """Let the first SIGINT, SIGTERM or SIGHUP interrupt the block, and no other what it cleans up.

    A signal stays ignored that whoever started us had us ignore, as `nohup` does.
    """
    ending = Ending()
    before = {each: signal.getsignal(each) for each in _TO_END}
    taken = [each for each, handler in before.items() if handler is not signal.SIG_IGN]
    for each in taken:
        signal.signal(each, ending.take)
    try:
        yield ending
    finally:
        for each in taken:
            signal.signal(each, before[each])
