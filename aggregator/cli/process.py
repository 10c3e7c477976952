"""The process of a command: the signals that end it, and its standard streams."""

import _thread
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AFTER_SWALLOWED_SECONDS = 0.02
"""Until an interrupt is repeated: what swallowed the first one is to be over, as it would swallow
the next, which then is repeated in turn."""


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process at once in the block, an import, which has nothing to clean up.

    An exception would leave half a module behind, or be swallowed by a library's finalizer.
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


def interrupt_again_if_swallowed() -> None:
    """Let Ctrl-C interrupt once more where a finalizer or a callback swallowed its exception.

    Python would print its traceback there and go on with the command.
    """
    before = sys.unraisablehook

    def interrupt() -> None:
        time.sleep(_AFTER_SWALLOWED_SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
        elif not sys.is_finalizing():
            _thread.start_new_thread(interrupt, ())

    sys.unraisablehook = hook


class Ending:
    """Whether a program is to end; it is urgent if another signal came while it was ending."""

    def __init__(self) -> None:
        self.is_urgent = False
        self._has_begun = self._has_interrupted = False

    def begin(self) -> None:
        """Mark the program as ending: no further signal interrupts it."""
        self._has_begun = True

    def take(self, _number: int, _frame: FrameType | None) -> None:
        """Handle a signal: the first one interrupts."""
        if self._has_begun or self._has_interrupted:
            self.is_urgent = True
            return
        self._has_interrupted = True
        raise KeyboardInterrupt

    def swallowed(self) -> None:
        """Let the next signal interrupt: a finalizer swallowed what the first one raised."""
        self._has_interrupted = False


@contextmanager
def ended_by_signals() -> Iterator[Ending]:
    """Let the first SIGINT, SIGTERM or SIGHUP interrupt the block, and none its clean-up.

    A signal that was ignored when the program started stays ignored, as `nohup` wants.
    """
    ending, hook = Ending(), sys.unraisablehook

    def unraisable(what: "sys.UnraisableHookArgs") -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            ending.swallowed()
        hook(what)

    before = {each: signal.getsignal(each) for each in _TO_END}
    taken = [each for each, handler in before.items() if handler is not signal.SIG_IGN]
    for each in taken:
        signal.signal(each, ending.take)
    sys.unraisablehook = unraisable
    try:
        yield ending
    finally:
        sys.unraisablehook = hook
        for each in taken:
            signal.signal(each, before[each])


def hold_closed_streams() -> None:
    """Open the null device in place of closed standard streams.

    A file that is opened later, such as a database, would otherwise get their number.
    """
    from pathlib import Path  # here: `main` imports the rest before Ctrl-C ends it at once

    null = Path(os.devnull)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, null.open(mode, encoding="utf-8"))


def write_every_letter() -> None:
    """Write letters that standard output's encoding lacks as escapes, as standard error does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def leave_output() -> None:
    """Stop writing to standard output, whose reader is gone: nothing is reported at the exit."""
    with suppress(OSError, ValueError):  # where it is not a file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
