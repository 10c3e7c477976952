"""What time it is: the system's clock in service, one set by hand in tests; and a time in words."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> int:
        """Return the seconds since the Unix epoch, rounded down."""


class SystemClock:
    """The operating system's clock."""

    def now(self) -> int:
        """Return the seconds since the Unix epoch, rounded down."""
        return int(time.time())


def utc_text(seconds: int) -> str:
    """Return a time, in seconds since the epoch, as ISO 8601 in UTC.

    Beyond the calendar's end it is the number.
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):
        return str(seconds)
