"""How quickly other parties answer this process; kept in memory only."""

import dataclasses
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Mapping

REMEMBERED = 100
"""How many answers of a host are kept; its times are computed from them."""

MAX_HOSTS = 64
"""How many hosts are kept; a new one replaces the one that was asked longest ago."""


@dataclasses.dataclass(slots=True)
class _Host:
    answers: int = 0
    failures: int = 0
    last_at: float | None = None
    seconds: deque[float] = dataclasses.field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def document(self, now: float) -> Mapping[str, object]:
        """Return the row of the host, without its name."""
        since = None if self.last_at is None else int(now - self.last_at)
        taken = sorted(self.seconds)
        middle, slowest = (taken[len(taken) // 2], taken[-1]) if taken else (None, None)
        return {
            "answers": self.answers,
            "failures": self.failures,
            "last_answer_seconds": since,
            "median_milliseconds": None if middle is None else round(1000 * middle),
            "slowest_milliseconds": None if slowest is None else round(1000 * slowest),
        }


class AnswerTimes:
    """Notes the outcomes of requests, by host; may be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    def note(self, host: str, seconds: float, *, is_answer: bool) -> None:
        """Note that after `seconds` a request was answered, or given up."""
        with self._lock:
            found = self._hosts.setdefault(host, _Host())
            self._hosts.move_to_end(host)
            if len(self._hosts) > MAX_HOSTS:
                self._hosts.popitem(last=False)
            if is_answer:
                found.answers += 1
                found.last_at = time.monotonic()
                found.seconds.append(seconds)
            else:
                found.failures += 1

    def document(self) -> list[Mapping[str, object]]:
        """Return a row for each host, for JSON."""
        now = time.monotonic()
        with self._lock:
            return [
                {"host": host, **found.document(now)} for host, found in sorted(self._hosts.items())
            ]
