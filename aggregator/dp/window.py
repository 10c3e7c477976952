"""Windows of time, agreed beforehand: a batch holds the reports of one of them, and of no other.

How many reports one person has in a batch can be counted only by who knows which reports share one.
With a window in the policy the client knows it when it sends, whatever the collector asks later.
"""

import dataclasses

from aggregator.errors import ParameterError

_UNITS_END = 2**64
"""Times are 64-bit counts of units."""


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """Consecutive windows of equal length, in units of the task's time precision since the epoch.

    Attributes:
        length: Units in each, from 1 to 2^64 - 1.
        start: The first unit of one of them, below `length`.

    Raises:
        ParameterError: A number is out of range.
    """

    length: int
    start: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.length < _UNITS_END:
            raise ParameterError(f"window must be from 1 to 2^64 - 1 units, not {self.length}")
        if not 0 <= self.start < self.length:
            raise ParameterError(
                f"window_start must be from 0 to below the window's {self.length} units, "
                f"not {self.start}"
            )

    def first_unit(self, unit: int) -> int:
        """Return the first unit of the window that holds `unit`; the very first begins below 0."""
        return unit - (unit - self.start) % self.length
