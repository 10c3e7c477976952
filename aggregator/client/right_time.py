"""What time it is for answers that are given now, on a machine whose clock may be wrong.

A wrong clock would date an answer into another window, which may be over, or not begun. One
aggregator alone is not believed, since it could move a person into another window: the time is
theirs only if both agree.
"""

import threading
import time
from collections.abc import Callable

from aggregator.client.sender import Later, Refused, Sender, TooLarge
from aggregator.clock import Clock
from aggregator.codec import DecodeError, decode
from aggregator.dap.hpke import HpkeConfigList
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import UploadErrors, UploadRequest
from aggregator.dap.resources import path
from aggregator.errors import ParameterError
from aggregator.protocol.reports import CLOCK_SKEW_SECONDS
from aggregator.protocol.task import Task

LOOK_SECONDS = 3600
"""How long an answer of both aggregators is relied on."""

PATIENCE_SECONDS = 5.0
"""How long an aggregator is waited for: somebody has answered, and waits to be told so."""

_STATUS_SIZE = ReportId.size + 1
_AGAIN_SECONDS = 60
_MOST_CONFIG_BYTES = 2**16 + 1


class TimeUnknown(ParameterError):
    """This machine's clock differs from an aggregator's, and the two do not agree on the time."""


class RightTime:
    """Says what time it is; threads may share it.

    Args:
        task: Whose aggregators are asked.
        sender: Asks them.
        clock: This machine's.
        elapsed: Seconds that no setting of the clock changes.
    """

    def __init__(
        self,
        task: Task,
        sender: Sender,
        clock: Clock,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        configuration = task.configuration
        self._urls = [
            f"{base.removesuffix('/')}{path('hpke_config')}"
            for base in (
                configuration.leader_aggregator_endpoint,
                configuration.helper_aggregator_endpoint,
            )
        ]
        self._sender, self._clock, self._elapsed = sender, clock, elapsed
        self._lock = threading.Lock()
        self._ahead: int | None = 0
        self._base: float | None = None
        self._until = 0.0

    def now(self) -> int:
        """Return the time, in seconds since the epoch.

        It is this machine's if no aggregator can be reached, or none differs by more than the skew.
        While one thread asks them again, others go by what they said before.

        Raises `TimeUnknown` if one differs, and the other does not say the same.
        """
        if not self._lock.acquire(blocking=self._ahead is None or self._is_set()):
            return self.known()
        try:
            is_set = self._is_set()
            if is_set or self._elapsed() >= self._until:
                self._look(is_set=is_set)
            if self._ahead is None:
                raise TimeUnknown(
                    "time: this machine's clock differs from an aggregator's, and the two do not "
                    "agree on the time: set it, or try again later"
                )
            return self._clock.now() - self._ahead
        finally:
            self._lock.release()

    def _is_set(self) -> bool:
        """Whether nobody was asked yet, or this machine's clock was set since."""
        base = self._clock.now() - self._elapsed()
        return self._base is None or abs(base - self._base) > CLOCK_SKEW_SECONDS

    def known(self) -> int:
        """Return the time, by what was found before."""
        return self._clock.now() - (self._ahead or 0)

    def _look(self, *, is_set: bool) -> None:
        heard = [self._ahead_of(url) for url in self._urls]
        known = [each for each in heard if each is not None]
        nearest = min(known, key=abs, default=0)
        if len(known) == len(heard) and max(known) - min(known) <= CLOCK_SKEW_SECONDS:
            self._ahead = nearest if abs(nearest) > CLOCK_SKEW_SECONDS else 0
        elif any(abs(each) > CLOCK_SKEW_SECONDS for each in known):
            # What both said before holds while one is away.
            if is_set or len(known) == len(heard):
                self._ahead = None
        elif is_set:
            self._ahead = 0
        now, elapsed = self._clock.now(), self._elapsed()
        self._base = now - elapsed
        is_told = len(known) == len(heard) and self._ahead is not None
        self._until = elapsed + (LOOK_SECONDS if is_told else _AGAIN_SECONDS)
        if self._ahead is None:
            self._until = elapsed  # ask again at once: nothing is taken until then

    def _ahead_of(self, url: str) -> int | None:
        """Return how far this clock is ahead of an aggregator's; None if it does not say."""
        try:
            self._sender.get(url, HpkeConfigList.message, _MOST_CONFIG_BYTES)
        except (Later, Refused, TooLarge):
            return None
        date = self._sender.date_of(url)
        return None if date is None else self._clock.now() - date


def word_now(task: Task, sender: Sender) -> str | None:
    """Return why the leader would take no report now, by a name of the draft.

    None if it would, or says nothing.
    """
    base = task.configuration.leader_aggregator_endpoint.removesuffix("/")
    url = f"{base}{path('reports', task_id=task.task_id)}"
    try:
        answer = sender.post(url, UploadRequest.message, b"", UploadErrors.message, _STATUS_SIZE)
        statuses = decode(UploadErrors, answer).status
    except (Later, Refused, TooLarge, DecodeError):
        return None
    for each in statuses:
        if each.id == ReportId.of_none():
            return task.profile.report_error(each.error).draft_name
    return None
