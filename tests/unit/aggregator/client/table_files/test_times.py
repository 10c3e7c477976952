"""A cell of a column of times is read for certain, or refused."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from aggregator.client.table_files.cells import CellError, cell_of
from aggregator.client.table_files.times import TimeReader
from aggregator.errors import ParameterError

DAY = datetime(2026, 11, 3, tzinfo=UTC)
MORNING = DAY.replace(hour=10, minute=15)
EASTERN = timezone(timedelta(hours=-5))


def read(cell: object, time_format: str | None = None, zone: str = "UTC") -> datetime:
    return TimeReader.of(time_format, ZoneInfo(zone)).moment(cell_of(cell))


@pytest.mark.parametrize(
    "cell",
    [
        *("2026-11-03", "20261103", "2026-W45-2", "2026W452", "2026-307", "2026307"),
        *("20261103.0", 20261103, 20261103.0, Decimal(20261103), datetime(2026, 11, 3).date()),  # noqa: DTZ001  as files have times
        *("2026110300000", "2026-11-03T00:00:00Z", "2026-11-03 00:00 UTC", " 2026-11-03 ")[1:],
        *("2026-11-03T01:00+01:00", "20261103T010000+0100", "20261102230000-0100"),
    ],
    ids=repr,
)
def test_a_day_is_written_in_many_ways(cell: object) -> None:
    assert read(cell) == DAY


@pytest.mark.parametrize(
    "cell",
    [
        *("2026-11-03T10:15", "2026-11-03 10:15:00", "20261103T1015", "20261103 101500"),
        *("202611031015", "20261103101500", "20261103101500.0", 202611031015, 20261103101500.0),
        *("20261103101500.000Z", "20261103101500+0000", "2026-W45-2T10:15", "2026-W45-2 10:15"),
        *("2026-11-03T10:15:00,000+00:00", "2026-11-03 10:15:00 gmt", "2026-11-03t10:15z"),
        *("1793700900", 1793700900, "1793700900.0", 1793700900.0, datetime(2026, 11, 3, 10, 15)),  # noqa: DTZ001  as files have times
        *(MORNING, MORNING.astimezone(EASTERN), "2026-11-03 05:15-05:00"),
    ],
    ids=repr,
)
def test_a_time_is_written_in_many_ways(cell: object) -> None:
    assert read(cell) == MORNING


@pytest.mark.parametrize(
    "cell",
    [
        *("46329", 46329, 46329.5, "24413", "20760", "2026", "1", "0"),
        *("14013043200", 2109319200000, "1793700900000", "1793700900000000", "99999999"),
        *(1e300, -1.0, "9" * 5000, "1793700900123456789"),
    ],
    ids=lambda cell: repr(cell)[:20],
)
def test_a_number_that_may_count_anything_is_refused(cell: object) -> None:
    with pytest.raises(CellError, match="must be a time"):
        read(cell)


@pytest.mark.parametrize("cell", ["2026110310", 2026110310, 2026110310.0], ids=repr)
def test_ten_digits_that_may_be_a_day_and_hour_or_seconds_are_refused(cell: object) -> None:
    with pytest.raises(CellError, match=r"may be a date and hour .* --time-format seconds"):
        read(cell)
    assert read(cell, "%Y%m%d%H") == DAY.replace(hour=10)
    assert read(cell, "seconds") == datetime.fromtimestamp(2026110310, UTC)


@pytest.mark.parametrize(
    ("cell", "unit", "said"),
    [
        (46329, "excel", DAY),
        ("46329,427083333", "excel", MORNING),
        (46329.427083333336, "excel", MORNING),
        (44867, "excel-1904", DAY),
        (14013080100, "spss", MORNING),
        (24413, "stata-days", DAY),
        (2109319200000 + 15 * 60_000, "stata", MORNING),
        ("1793700900000", "milliseconds", MORNING),
        (1793700900000000.0, "microseconds", MORNING),
        ("1793700900.25", "seconds", MORNING + timedelta(seconds=0.25)),
    ],
)
def test_what_a_number_counts_can_be_said(cell: object, unit: str, said: datetime) -> None:
    assert read(cell, unit) == said


@pytest.mark.parametrize("cell", ["2026-11-03", "x", 1e18, 1e300, "9" * 300, -5, None], ids=repr)
def test_what_is_no_number_of_a_unit_is_refused(cell: object) -> None:
    with pytest.raises(CellError, match="must be a"):
        read(cell, "excel")


@pytest.mark.parametrize(
    "cell",
    [
        *(
            "yesterday",
            "2026-13-01",
            "20261332",
            "2026-11-03 9:05",
            "2026-11-03T25:00",
            "03.11.2026",
        ),
        *(
            "2026-11",
            "2026-366",
            "2026-000",
            "2026-11-03 10:15 CET",
            "2026-11-03 10:15 PM",
            "11/3/26",
        ),
        *(
            True,
            None,
            b"2026-11-03",
            timedelta(1),
            ["2026-11-03"],
            "2026110310150",
            "\uff12\uff10\uff12\uff16\uff11\uff11\uff10\uff13",
        ),
    ],
    ids=repr,
)
def test_what_is_no_time_is_refused(cell: object) -> None:
    with pytest.raises(CellError, match="must be a time"):
        read(cell)


@pytest.mark.parametrize(
    ("cell", "time_format"),
    [
        ("2026-11-08 22:00:00 UTC", "%Y-%m-%d %H:%M:%S %Z"),
        ("2026-11-08 22:00:00 GMT", "%Y-%m-%d %H:%M:%S %Z"),
        ("2026-11-08 22:00:00 utc", "%Y-%m-%d %H:%M:%S %Z"),
        ("2026-11-08 22:00:00 +0000", "%Y-%m-%d %H:%M:%S %Z"),
        ("2026-11-08 22:00:00 +0000", "%Y-%m-%d %H:%M:%S %z"),
        ("2026-11-08 22:00:00 GMT", "%Y-%m-%d %H:%M:%S GMT"),
        ("2026-11-08T22:00:00Z", "%Y-%m-%dT%H:%M:%SZ"),
        ("2026/11/08 11:00:00 PM GMT+1", "%Y/%m/%d %I:%M:%S %p GMT+1"),
        ("2026-11-08 17:00-05:00", "%Y-%m-%d %H:%M-05:00"),
    ],
)
def test_a_zone_that_a_cell_or_its_format_names_is_not_dropped(cell: str, time_format: str) -> None:
    said = datetime(2026, 11, 8, 22, tzinfo=UTC)
    assert read(cell, time_format, "America/New_York") == said
    # A format that names none takes the zone that is given.
    assert read("08.11.2026 17:00", "%d.%m.%Y %H:%M", "America/New_York") == said


@pytest.mark.parametrize("name", ["CET", "EST", "PDT", "XYZ"])
def test_a_zones_name_that_means_several_is_refused(name: str) -> None:
    with pytest.raises(CellError, match="only UTC and GMT are read"):
        read(f"2026-11-08 22:00 {name}", "%Y-%m-%d %H:%M %Z")


@pytest.mark.parametrize(
    ("time_format", "said"),
    [
        ("%Y-%m-%d %Y", "names a part of a time twice"),
        ("%Y-%m-%d %Q", "bad directive"),
        ("%Y-%", "stray %"),
        ("", "has no year"),
        ("%d.%m.", "has no year"),
        ("hours", "has no year"),
        ("%%Y", "has no year"),
        ("%Y %H CET", "names a zone by letters that mean several"),
        ("%Y %H GMT %z", "names a zone twice"),
        ("%Y %Z %z", "names a (part of a time|zone) twice"),
        ("%Y GMT+99", "names no zone that there is"),
        ("\0%Y GMT%Z", "names a zone twice"),
    ],
    ids=repr,
)
def test_what_is_no_format_is_refused_and_never_a_fault_of_ours(
    time_format: str, said: str
) -> None:
    with pytest.raises(ParameterError, match=said):
        read("2026-11-03", time_format)


def test_a_reader_takes_any_format_and_cell_without_a_fault_of_ours() -> None:
    pieces = [
        "%",
        "Y",
        "%Y",
        "Z",
        "%Z",
        "%z",
        "(",
        "[",
        "\\",
        "+",
        "%G-W%V",
        "\udc80",
        "\n",
        "\u017f",
    ]
    for first in pieces:
        for second in pieces:
            for cell in ("2026", "2026UTC", "+0100", "\udc80", first + second):
                try:
                    read(cell, f"%Y{first}{second}")
                except ParameterError:
                    continue
