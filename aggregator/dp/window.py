"""Windows of time, agreed beforehand: a batch holds exactly the reports of one window.

To count a person's reports in a batch, a client must know which reports share one. With a window in
the policy it knows that when it sends, whatever the collector asks for later.
"""

import dataclasses
from typing import Self

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

    @classmethod
    def of(cls, length: object, start: object) -> Self | None:
        """Return the window of some settings, or raise `ParameterError`; None if there is none."""
        for value, name in ((length, "window"), (start, "window_start")):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise ParameterError(
                    f"{name} must be a whole number of units of time, not {value!r}"
                )
        if isinstance(length, int):
            return cls(length, start if isinstance(start, int) else 0)
        if start is not None:
            raise ParameterError("window_start: goes with window only")
        return None

    def settings(self) -> dict[str, int]:
        """Return the policy's settings for this window; a start of 0 is left out."""
        return {"window": self.length} | ({"window_start": self.start} if self.start else {})

    def first_unit(self, unit: int) -> int:
        """Return the first unit of the window that holds `unit`; the very first begins below 0."""
        return unit - (unit - self.start) % self.length

    def number(self, unit: int) -> int:
        """Return which window holds `unit`; the very first, which may begin below 0, is 0 or 1."""
        return (unit + self.length - self.start) // self.length

    def first_unit_of(self, number: int) -> int:
        """Return the first unit of the window of this number; that of 0 may begin below 0."""
        return (number - 1) * self.length + self.start
