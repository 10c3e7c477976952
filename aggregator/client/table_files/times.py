"""When something was: what a cell of a column of times says.

Digits that can be a date are a date, and a bare number is a time only if it can be nothing else, or
its unit is named. What a cell or a format says of a zone holds.
"""

import dataclasses
import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal

from aggregator.client.table_files.cells import Cell, CellError, plain, shown
from aggregator.errors import ParameterError

_UNITS = {
    "seconds": ("1970-01-01", Decimal(1)),
    "milliseconds": ("1970-01-01", Decimal("0.001")),
    "microseconds": ("1970-01-01", Decimal("0.000001")),
    "excel": ("1899-12-30", Decimal(86400)),
    "excel-1904": ("1904-01-01", Decimal(86400)),
    "spss": ("1582-10-14", Decimal(1)),
    "stata-days": ("1960-01-01", Decimal(86400)),
    "stata": ("1960-01-01", Decimal("0.001")),
}
"""Bare numbers as times, by name: since when, and how many seconds one is."""
_OF_UTC = ("seconds", "milliseconds", "microseconds")
UNITS = ", ".join(_UNITS)

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?")
_WHOLE = re.compile(r"[0-9]+\.0*")
_MOST_DIGITS = 18
_SECONDS = 10
"""Digits of seconds since 1970, from September 2001 to November 2286."""
_DIGITS = re.compile(
    r"(?P<date>(?:19|20)[0-9]{6})(?P<hour>[0-9]{2})?(?P<minute>[0-9]{2})?(?P<second>[0-9]{2})?"
    r"(?P<fraction>[.,][0-9]{1,9})?(?P<zone>Z|[+-][0-9]{2}(?:[0-9]{2})?)?"
)
"""ISO 8601 without any mark, and HL7's times."""
_ISO = re.compile(
    r"(?P<date>[0-9]{4}-?W[0-9]{2}(?:-?[1-7])?|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})"
    r"(?:(?:[T ]|\s+)(?P<time>[0-9:]+(?:[.,][0-9]+)?)\s?(?P<zone>Z|UTC|GMT|[+-][0-9:]+)?)?",
    re.IGNORECASE,
)
_DAY_OF_YEAR = re.compile(r"((?:19|20)[0-9]{2})-?([0-9]{3})")
_DIRECTIVE = re.compile("%.", re.DOTALL)
_ZONE = re.compile(
    "(?<![A-Za-z])(?:UTC|GMT)([+-][0-9]{1,2}(?::?[0-9]{2})?)?(?![A-Za-z])"
    "|(?<=\0) ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
)
"""A zone in the letters of a format, in which a directive is a zero byte."""
_NAMED_ZONE = re.compile(
    "(?<![A-Za-z])(?:A?[ECMP][SD]T|CES?T|MES?Z|BST|IST|WES?T|EES?T|MSK|JST|KST|SGT|HKT|SAST|"
    "A[ECW][SD]T|NZ[SD]T)(?![A-Za-z])"
)
_UTC_NAME = re.compile("(?<![A-Za-z])(?:UTC|GMT|Z)(?![A-Za-z+-])", re.IGNORECASE)
_YEARS = ("%Y", "%y", "%G", "%c", "%x", "%D")
_EXAMPLE = '--time-format "%d.%m.%Y"'


@dataclasses.dataclass(frozen=True, slots=True)
class TimeReader:
    """Reads the cells of one column.

    Attributes:
        zone: The zone of times that name none.
        read: What reads text and numbers; the result may have no zone.
    """

    zone: tzinfo
    read: Callable[[str | Decimal], datetime]

    @classmethod
    def of(cls, time_format: str | None = None, zone: tzinfo = UTC) -> "TimeReader":
        """Return the reader of a format: `strptime`'s, a unit of numbers, or ISO 8601 for None.

        Raises `ParameterError` if there can be no such format.
        """
        if time_format is None:
            return cls(zone, _iso)
        if time_format in _UNITS:
            return cls(zone, lambda cell: _in_unit(cell, time_format))
        return cls(zone, _reader_of(time_format))

    def moment(self, cell: Cell) -> datetime:
        """Return the time that a cell says, or raise `CellError`."""
        match cell:
            case datetime():
                moment = cell
            case str() | Decimal():
                moment = self.read(cell)
            case _:
                raise CellError(f"must be a time, not {shown(cell)}")
        return moment if moment.tzinfo else moment.replace(tzinfo=self.zone)


def _iso(cell: str | Decimal) -> datetime:
    text = _digits_of(cell)
    try:
        if found := _DIGITS.fullmatch(text):
            return _of_digits(text, found)
        if found := _DAY_OF_YEAR.fullmatch(text):
            return _day(int(found[1]), int(found[2]))
        if _NUMBER.fullmatch(text):
            return _of_number(text)
        if found := _ISO.fullmatch(text):
            return _of_iso(found)
    except CellError:
        raise
    except (ValueError, OverflowError):
        pass  # no such day or hour
    raise CellError(
        f"must be a time in ISO 8601 or seconds since 1970, not {shown(cell)}; give another "
        f"format, such as {_EXAMPLE}"
    )


def _digits_of(cell: str | Decimal) -> str:
    """Return a cell's text: of a number its digits, without `.0`."""
    if isinstance(cell, str):
        return cell.rstrip("0").rstrip(".") if _WHOLE.fullmatch(cell) else cell
    return plain(cell) if abs(cell.adjusted()) <= _MOST_DIGITS else f"{cell:e}"


def _of_iso(found: re.Match[str]) -> datetime:
    day = datetime.fromisoformat(found["date"])
    if found["time"] is None:
        return day
    zone = (found["zone"] or "").upper()
    zone = "+00:00" if zone in ("UTC", "GMT", "Z") else zone
    # On any day, as `fromisoformat` takes no week's day with a blank before its time.
    moment = datetime.fromisoformat(f"2000-01-01T{found['time']}{zone}")
    return moment + (day - datetime(2000, 1, 1))  # noqa: DTZ001  a difference


def _of_digits(text: str, found: re.Match[str]) -> datetime:
    """Return the time that eight to fourteen digits write, or raise ValueError."""
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    is_alone = not found["fraction"] and not found["zone"]
    try:
        moment = datetime.combine(datetime.fromisoformat(found["date"]), time(hour, minute, second))
    except ValueError:
        if len(text) == _SECONDS and is_alone:
            return _of_number(text)
        raise
    if len(found["date"] + (found["hour"] or "")) == _SECONDS and not found["minute"] and is_alone:
        raise CellError(
            f"must be a time, not {shown(text)}, which may be a date and hour or seconds since "
            '1970: say which with --time-format "%Y%m%d%H" or --time-format seconds'
        )
    if found["fraction"]:
        if found["second"] is None:
            raise ValueError
        moment += timedelta(microseconds=int(found["fraction"][1:7].ljust(6, "0")))
    return moment.replace(tzinfo=_zone(found["zone"]) if found["zone"] else None)


def _of_number(text: str) -> datetime:
    whole = text.partition(".")[0]
    if len(whole) != _SECONDS:
        raise CellError(
            f"must be a time, not the number {shown(text)}: say what it counts with --time-format, "
            f"such as --time-format milliseconds or excel; known are {UNITS}"
        )
    return _in_unit(Decimal(text), "seconds")


def _in_unit(cell: str | Decimal, unit: str) -> datetime:
    if isinstance(cell, str):
        written = cell.replace(",", ".")
        if not _NUMBER.fullmatch(written):
            raise CellError(f"must be a number, of {unit}, not {shown(cell)}")
        cell = Decimal(written)
    since, seconds = _UNITS[unit]
    if cell < 1 or cell.adjusted() > _MOST_DIGITS:
        raise CellError(f"must be a time in {unit}, not {shown(cell)}, which is too large or small")
    try:
        # Spreadsheets keep no finer time than this.
        milliseconds = round(cell * seconds * 1000)
        moment = datetime.fromisoformat(since) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise CellError(
            f"must be a time in {unit}, not {shown(cell)}, which is too large"
        ) from None
    return moment.replace(tzinfo=UTC) if unit in _OF_UTC else moment


def _day(year: int, day: int) -> datetime:
    moment = datetime(year, 1, 1) + timedelta(days=day - 1)  # noqa: DTZ001  its zone follows
    if day == 0 or moment.year != year:
        raise ValueError
    return moment


def _reader_of(time_format: str) -> Callable[[str | Decimal], datetime]:
    """Return what reads text in a format of `strptime`; a zone that the format names holds."""
    zone = _zone_in(time_format)
    takes_name = "%Z" in time_format.replace("%%", "")
    written = time_format.replace("%Z", "%z") if takes_name else time_format
    _check(written, time_format)
    hint = (
        "; of names of zones only UTC and GMT are read, and --time-zone has others"
        if takes_name
        else ""
    )

    def read(cell: str | Decimal) -> datetime:
        text = cell if isinstance(cell, str) else _digits_of(cell)
        if takes_name:
            text = _UTC_NAME.sub("+0000", text)
        try:
            moment = datetime.strptime(text, written)  # noqa: DTZ007  its zone follows
        except (ValueError, OverflowError):
            raise CellError(f"must be a time as {time_format}, not {shown(cell)}{hint}") from None
        return moment if zone is None else moment.replace(tzinfo=zone)

    return read


def _zone_in(time_format: str) -> tzinfo | None:
    """Return the zone that a format names in plain letters, or raise `ParameterError`."""
    letters = _DIRECTIVE.sub("\0", time_format)
    if _NAMED_ZONE.search(letters):
        raise ParameterError(
            f"time-format: {time_format!r} names a zone by letters that mean several: leave rows "
            "of one zone in a table, and name it with --time-zone"
        )
    found = _ZONE.search(letters)
    if found is None:
        return None
    if "%z" in time_format or "%Z" in time_format:
        raise ParameterError(f"time-format: {time_format!r} names a zone twice")
    try:
        return _zone(found[1] or found[2] or "Z")
    except ValueError:
        raise ParameterError(f"time-format: {time_format!r} names no zone that there is") from None


def _zone(written: str) -> tzinfo:
    """Return the zone of an offset such as +1, +0100 or -05:30, or raise ValueError."""
    if written == "Z":
        return UTC
    digits = written[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if digits[2:] else (digits, "0")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if written[0] == "-" else offset)


def _check(written: str, time_format: str) -> None:
    if not any(each in written.replace("%%", "") for each in _YEARS):
        raise ParameterError(
            f"time-format: {time_format!r} has no year: it is a format such as "
            f'"%d.%m.%Y %H:%M", or one of {UNITS}'
        )
    try:
        datetime.strptime("", written)  # noqa: DTZ007  only whether it is a format
    except re.error:
        raise ParameterError(f"time-format: {time_format!r} names a part of a time twice") from None
    except (ValueError, LookupError) as error:
        if "directive" in str(error) or "stray" in str(error):
            raise ParameterError(f"time-format: {time_format!r}: {error}") from None
