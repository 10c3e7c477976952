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
_END = datetime.max.replace(tzinfo=UTC)


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """Windows of equal length, back to back; which of them people are asked in is no part of this.

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

    def after(self, first: datetime, count: int) -> datetime:
        """Return the end of the last of a number of windows.

        Raises `ParameterError` if no calendar has that day.
        """
        try:
            return first + timedelta(seconds=count * self.seconds)
        except OverflowError:
            raise ParameterError(
                f"windows: {count:,} of them end after the year 9999; at most "
                f"{int((_END - first).total_seconds()) // self.seconds:,} do not"
            ) from None

    def count(self, first: datetime, until: datetime | None, most: int) -> int:
        """Return how many windows there are from `first` until a moment, or as many as may be.

        Raises `ParameterError` for times that do not fit, or more windows than may be.
        """
        if first < _EPOCH:
            raise ParameterError(f"first: must be in 1970 or later, not {first}")
        ends = self.after(first, most)
        if until is None:
            return most
        count, rest = divmod(until - first, timedelta(seconds=self.seconds))
        if count < 1 or rest:
            raise ParameterError(
                f"until: must be when a window ends, such as {ends.isoformat()}, "
                f"not {until.isoformat()}"
            )
        if count > most:
            raise ParameterError(
                f"until: gives {count:,} windows, and the budget is for {most:,} (windows), which "
                f"end at {ends.isoformat()}; of later ones nothing could be released"
            )
        return count

    def number(self, start: datetime) -> int:
        """Return the number by which permits know the window that begins at a moment."""
        return (start - _EPOCH) // timedelta(seconds=self.seconds) + 1

    def last(self, now: datetime) -> datetime:
        """Return the beginning of the last window that is over."""
        return self.start(now) - timedelta(seconds=self.seconds)

    @property
    def name(self) -> str:
        """What one window is called: "week", or "window" if no unit has its length."""
        return next((unit for unit, size in _SECONDS.items() if size == self.seconds), "window")

    def describe(self, start: datetime) -> str:
        """Return a window for a reader, in UTC: dates if windows are whole days."""
        seconds = int(start.timestamp())
        return IN_UTC.period(seconds, seconds + self.seconds)


def first_window(length: object, now: datetime) -> datetime:
    """Return when a window that holds `now` begins, if no survey says: with its hour, day or week.

    Weeks begin on Monday, and days at midnight, in UTC.
    """
    match = _TEXT.fullmatch(length) if isinstance(length, str) else None
    unit = "day" if match is None else match["unit"]
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if unit == "hour":
        return hour
    day = hour.replace(hour=0)
    return day - timedelta(days=day.weekday()) if unit == "week" else day
