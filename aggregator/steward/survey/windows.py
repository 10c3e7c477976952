"""The windows in which people are asked: one answer to each question per person and window."""

import dataclasses
import math
import re
from datetime import UTC, datetime, timedelta

from aggregator.errors import ParameterError
from aggregator.written_times import IN_UTC

_SECONDS = {"hour": 3600, "day": 86400, "week": 7 * 86400}
_TEXT = re.compile(r"(?:(?P<count>[1-9][0-9]{0,5}) )?(?P<unit>hour|day|week)s?")
_MAX_DAYS = 3660
"""Ten years, so that a survey's dates stay within those that calendars have."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """Windows of equal length, back to back, without beginning or end.

    The offset is from the epoch to the beginning of a window, less than the length. Both are in
    seconds.
    """

    seconds: int
    offset: int

    @classmethod
    def of(cls, length: str, first: datetime) -> "Windows":
        """Return the windows of this length ("week", "14 days"), one of which begins at `first`.

        Raises `ParameterError` for another text, over ten years, or fractions of a second.
        """
        match = _TEXT.fullmatch(length)
        if match is None:
            raise ParameterError(
                'window: must be a number of hours, days or weeks, such as "week" or "14 days", '
                f"not {length!r}; months and years differ in length"
            )
        seconds = int(match["count"] or 1) * _SECONDS[match["unit"]]
        if seconds > _MAX_DAYS * _SECONDS["day"]:
            raise ParameterError(f"window: must be at most {_MAX_DAYS} days, not {length!r}")
        since = first - _EPOCH
        if since.microseconds:
            raise ParameterError(f"first: must be a whole second, not {first}")
        return cls(seconds, (since.days * 86400 + since.seconds) % seconds)

    @property
    def time_precision(self) -> int:
        """The coarsest unit of time, in seconds, that divides every window into whole units."""
        return math.gcd(self.seconds, self.offset)

    def start(self, moment: datetime) -> datetime:
        """Return the beginning of the window that holds a moment."""
        since = moment - _EPOCH
        seconds = since.days * 86400 + since.seconds
        return _EPOCH + timedelta(
            seconds=(seconds - self.offset) // self.seconds * self.seconds + self.offset
        )

    def end(self, start: datetime) -> datetime:
        """Return the end of a window."""
        return start + timedelta(seconds=self.seconds)

    def last(self, now: datetime) -> datetime:
        """Return the beginning of the last window that is over."""
        return self.start(now) - timedelta(seconds=self.seconds)

    def describe(self, start: datetime) -> str:
        """Return a window for a reader, in UTC: dates if windows are whole days."""
        seconds = int(start.timestamp())
        return IN_UTC.period(seconds, seconds + self.seconds)
