"""How a time or a count is written for people; how a time is read from them, and in which zone."""

import dataclasses
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from aggregator.errors import ParameterError


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """Writes and reads times of one zone; they are in seconds since the epoch.

    Writing raises `OverflowError` or `ValueError` beyond the calendar's end.
    """

    zone: tzinfo = UTC

    @property
    def name(self) -> str:
        """The name of the zone, such as UTC or Europe/Berlin."""
        return str(self.zone)

    def moment(self, seconds: int) -> str:
        """Return a time, such as "2026-11-21 10:00 UTC"."""
        return f"{self._at(seconds):%Y-%m-%d %H:%M} {self.name}"

    def period(self, start: int, end: int) -> str:
        """Return the time from `start` until before `end`: dates if it is of whole days."""
        first, last = self._at(start), self._at(end)
        if start < end and all(f"{each:%H%M%S}" == "000000" for each in (first, last)):
            ends = (f"{day:%Y-%m-%d}" for day in (first, last - timedelta(days=1)))
            days = " to ".join(dict.fromkeys(ends))  # a single day once
            return days if self.zone is UTC else f"{days} {self.name}"
        return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} {self.name}"

    def month(self, seconds: int) -> str:
        """Return the month of a time, such as "2026-11"."""
        return f"{self._at(seconds):%Y-%m}"

    def read(self, text: str, name: str) -> int:
        """Return a time: ISO 8601, of this zone if it names none, or seconds since the epoch.

        Raises `ParameterError`, with the name of what was given, also for a time that the zone
        skips or has twice because its clocks are changed.
        """
        try:
            if text.isascii() and text.isdigit():
                return int(text)  # of fewer than 4,300 digits
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ParameterError(
                f"{name}: must be ISO 8601, such as 2026-11-21T10:00, or seconds since 1970, "
                f"not {text!r}"
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.zone)
            if moment.utcoffset() != moment.replace(fold=1).utcoffset():
                raise ParameterError(
                    f"{name}: clocks of {self.name} are changed then: name the zone, as in "
                    f"{text}+00:00"
                )
        return int(moment.timestamp())

    def _at(self, seconds: int) -> datetime:
        return datetime.fromtimestamp(seconds, self.zone)


IN_UTC: Final = Times()


def utc_text(seconds: int) -> str:
    """Return a time, in seconds since the epoch, as ISO 8601 in UTC, which `Times.read` reads.

    Seconds are left out if there are none. Beyond the calendar's end it is the number.
    """
    try:
        text = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(seconds)
    return f"{text.removesuffix(':00')}Z"


def duration(seconds: float) -> str:
    """Return a length of time for people, rounded: "1 minute", "90 seconds", "5 minutes"."""
    for unit, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if round(seconds) >= 2 * unit or round(seconds) == unit:
            return counted(round(seconds / unit), name)
    return counted(round(seconds), "second")


def counted(count: int, name: str) -> str:
    """Return a number with its noun, in the plural where needed."""
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def zone_named(name: str, option: str) -> tzinfo:
    """Return a time zone by its name in the IANA database.

    Raises `ParameterError`, with the name of the option, if this machine has none of that name.
    """
    if name == "UTC":
        return UTC  # on every machine
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):  # a folder; no name; no such zone
        raise ParameterError(f"{option}: there is no time zone {name!r}") from None
