"""Times and durations, counted in units of a task's time precision.

A `Time` of one task means nothing in another: seconds become units with the precision of the task
at hand, and a `Time` is never compared with seconds.

Source: DAP, "Times, Durations and Intervals".
"""

from dataclasses import dataclass
from struct import Struct
from typing import Self

from aggregator.codec import U64_MAX, DecodeError, Reader, Writer
from aggregator.errors import ParameterError

DAY = 86_400
"""In seconds."""

_INTERVAL = Struct(">QQ")


class IntervalOverflow(DecodeError):
    """An interval whose end does not fit in 64 bits: not well-formed."""


@dataclass(frozen=True, slots=True, order=True)
class Time:
    """A moment, in units since the Unix epoch; rounded down."""

    units: int

    @classmethod
    def from_seconds(cls, seconds: int, time_precision: int) -> Self:
        """Return the unit that contains the second `seconds` after the epoch."""
        return cls(seconds_to_units(seconds, time_precision))

    def to_seconds(self, time_precision: int) -> int:
        """Return the first second of this unit, counted from the epoch."""
        return self.units * time_precision

    def day(self, time_precision: int) -> int:
        """Return the day in which this unit begins, counted from the epoch."""
        return self.units * time_precision // DAY

    def write(self, writer: Writer) -> None:
        """Append the eight bytes."""
        writer.u64(self.units, "time")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one time."""
        return cls(reader.u64())


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, in units."""

    units: int

    def write(self, writer: Writer) -> None:
        """Append the eight bytes."""
        writer.u64(self.units, "duration")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one duration."""
        return cls(reader.u64())


@dataclass(frozen=True, slots=True)
class Interval:
    """The half-open interval `[start, start + duration)`.

    Raises `IntervalOverflow` if the start, the duration or the end is not within 0 to 2^64 - 1
    units.
    """

    start: Time
    duration: Duration

    def __post_init__(self) -> None:
        start, duration = self.start.units, self.duration.units
        if start < 0 or duration < 0 or start + duration > U64_MAX:
            limits = f"start and start + duration must be 0 to {U64_MAX} units"
            raise IntervalOverflow(f"{limits}, not {start} and {start + duration}")

    @classmethod
    def of(cls, start_units: int, duration_units: int) -> Self:
        """Return the interval of `duration_units` units from `start_units` on."""
        return cls(Time(start_units), Duration(duration_units))

    @classmethod
    def spanning(cls, first: Time, last: Time) -> Self:
        """Return the smallest interval that contains both times, `first <= last`."""
        return cls.of(first.units, last.units - first.units + 1)

    @property
    def end(self) -> Time:
        """The first time after the interval."""
        return Time(self.start.units + self.duration.units)

    @property
    def is_empty(self) -> bool:
        """Whether the duration is zero."""
        return self.duration.units == 0

    def covers(self, other: "Interval") -> bool:
        """Return whether `other` neither begins before this interval nor ends after it."""
        return self.start <= other.start and other.end <= self.end

    def write(self, writer: Writer) -> None:
        """Append start and duration."""
        self.start.write(writer)
        self.duration.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one interval, or raise `IntervalOverflow`."""
        start, duration = reader.unpack(_INTERVAL)
        return cls(Time(start), Duration(duration))


def seconds_to_units(seconds: int, time_precision: int) -> int:
    """Return how many whole units of `time_precision` seconds lie in `seconds`.

    Raises `ParameterError` if `time_precision` is not positive, or the result does not fit in 64
    bits.
    """
    if time_precision < 1:
        raise ParameterError(f"time_precision must be at least 1 second, not {time_precision}")
    units = seconds // time_precision
    if not 0 <= units <= U64_MAX:
        raise ParameterError(f"seconds must be 0 to 2^64 - 1 units, not {seconds}")
    return units
