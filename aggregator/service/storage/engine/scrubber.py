"""Removes destroyed secrets from the database's log, in a thread of its own.

While anything reads the store, such as a backup, its log cannot be emptied. So no commit waits for
that: the thread tries until it succeeds.
"""

import threading
import time
from collections.abc import Callable

from aggregator.service.telemetry.lines import log

_FIRST_DELAY_SECONDS = 0.02
_LONGEST_DELAY_SECONDS = 5.0
_OVERDUE_SECONDS = 60.0


class Scrubber:
    """Empties the log after each request, as soon as that is possible."""

    def __init__(self, empty_log: Callable[[], bool]) -> None:
        """Use `empty_log`, which returns whether it succeeded, and never waits."""
        self._empty_log = empty_log
        self._condition = threading.Condition()
        self._is_wanted = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def request(self) -> None:
        """Ask that everything committed until now be removed from the log."""
        with self._condition:
            self._is_wanted = True
            self._condition.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="scrubber", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Try a last time if the log is still to be emptied, and end the thread."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while self._await_request():
            began = time.monotonic()
            delay, is_overdue = _FIRST_DELAY_SECONDS, False
            while not self._attempt():
                if self._pause(delay):
                    return
                delay = min(2 * delay, _LONGEST_DELAY_SECONDS)
                if not is_overdue and time.monotonic() - began > _OVERDUE_SECONDS:
                    is_overdue = True
                    log.warning("destroyed secrets stay in the log", reason="the store is read")
            if is_overdue:
                log.info("the log was emptied", seconds=round(time.monotonic() - began))

    def _await_request(self) -> bool:
        with self._condition:
            self._condition.wait_for(lambda: self._is_wanted or self._is_closed)
            return self._is_wanted

    def _attempt(self) -> bool:
        with self._condition:
            self._is_wanted = False  # later requests need another attempt
        return self._empty_log()

    def _pause(self, seconds: float) -> bool:
        """Wait up to `seconds`; return whether the scrubber was closed."""
        with self._condition:
            self._is_wanted = True
            return self._condition.wait_for(lambda: self._is_closed, seconds)
