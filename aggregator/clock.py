"""What time it is: the system's clock in service, one set by hand in tests."""

import time
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
