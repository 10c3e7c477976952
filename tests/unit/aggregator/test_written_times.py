"""Times for people: how they are written and read, in UTC and where clocks are changed."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import aggregator
from aggregator.errors import ParameterError
from aggregator.written_times import IN_UTC, Times, counted, duration, utc_text, zone_named

BERLIN = Times(zone_named("Europe/Berlin", "zone"))


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@pytest.mark.parametrize(
    ("times", "start", "end", "expected"),
    [
        (IN_UTC, "2026-11-02T00Z", "2026-11-09T00Z", "2026-11-02 to 2026-11-08"),
        (IN_UTC, "2026-11-02T00Z", "2026-11-03T00Z", "2026-11-02"),
        (BERLIN, "2026-11-01T23Z", "2026-11-02T23Z", "2026-11-02 Europe/Berlin"),
        (IN_UTC, "2026-11-02T00Z", "2026-11-02T12Z", "2026-11-02 00:00 to 2026-11-02 12:00 UTC"),
        (BERLIN, "2026-11-01T23Z", "2026-11-08T23Z", "2026-11-02 to 2026-11-08 Europe/Berlin"),
        # A week of Berlin in which its clocks are put back has an hour more.
        (BERLIN, "2026-10-18T22Z", "2026-10-25T23Z", "2026-10-19 to 2026-10-25 Europe/Berlin"),
        (
            BERLIN,
            "2026-11-02T00Z",
            "2026-11-09T00Z",
            "2026-11-02 01:00 to 2026-11-09 01:00 Europe/Berlin",
        ),
    ],
)
def test_a_period_is_of_dates_where_it_is_of_whole_days_of_the_zone(
    times: Times, start: str, end: str, expected: str
) -> None:
    assert times.period(seconds(start), seconds(end)) == expected


def test_a_moment_and_its_month_are_those_of_the_zone_which_is_named() -> None:
    turn = seconds("2026-12-31T23:30Z")
    assert (IN_UTC.moment(turn), IN_UTC.month(turn)) == ("2026-12-31 23:30 UTC", "2026-12")
    assert BERLIN.moment(turn) == "2027-01-01 00:30 Europe/Berlin"
    assert BERLIN.month(turn) == "2027-01"


def test_a_time_without_a_zone_is_one_of_ours_and_any_other_is_what_it_says() -> None:
    for times, text in ((IN_UTC, "2026-07-01T10:00"), (BERLIN, "2026-07-01T12:00")):
        assert times.read(text, "start") == seconds("2026-07-01T10:00Z")
        assert times.read("2026-07-01T09:00-01:00", "start") == seconds("2026-07-01T10:00Z")
        assert times.read("1782900000", "start") == 1782900000


@pytest.mark.parametrize("text", ["2026-03-29T02:30", "2026-10-25T02:30"])
def test_a_time_that_clocks_skip_or_have_twice_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="start: clocks of Europe/Berlin are changed then"):
        BERLIN.read(text, "start")
    assert BERLIN.read(f"{text}+00:00", "start") == seconds(f"{text}Z")


@pytest.mark.parametrize("text", ["", "nonsense", "9" * 5000, "2026-13-01"])
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(ParameterError, match=r"^end: must be ISO 8601"):
        IN_UTC.read(text, "end")


def test_a_time_for_programs_is_in_utc_and_leaves_out_what_is_not_there() -> None:
    assert utc_text(0) == "1970-01-01T00:00Z"
    assert utc_text(59) == "1970-01-01T00:00:59Z"
    assert utc_text(10**15) == str(10**15)
    assert IN_UTC.read(utc_text(59), "time") == 59


@pytest.mark.parametrize("name", ["", "Europe", "../etc/passwd", "Nowhere/Here", "a\0b", "x" * 999])
def test_a_zone_that_this_machine_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="time-zone: there is no time zone"):
        zone_named(name, "time-zone")


def test_a_noun_is_in_the_plural_but_for_one() -> None:
    said = [counted(count, "report") for count in (0, 1, 2, 1000)]
    assert said == ["0 reports", "1 report", "2 reports", "1,000 reports"]


def test_no_other_module_has_a_format_of_times_for_people() -> None:
    """A format that another one had would not follow the zone."""
    package = Path(aggregator.__file__).parent
    formats = re.compile(r"strftime\(\"%[YH]|:%Y|:%H|\bUTC\}|\} UTC|\(UTC\)\"")
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if formats.search(path.read_text("utf-8"))
    }
    assert found == {"written_times.py"}
    assert zone_named("UTC", "") is UTC


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 seconds"),
        (0.6, "1 second"),
        (59.7, "1 minute"),
        (90, "90 seconds"),
        (299.967308, "5 minutes"),
        (3600, "1 hour"),
        (5400, "90 minutes"),
        (86_400, "1 day"),
        (10 * 86_400 + 5, "10 days"),
    ],
)
def test_a_length_of_time_is_rounded(seconds: float, text: str) -> None:
    assert duration(seconds) == text
