import pytest

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.times import Duration, Interval, IntervalOverflow, Time, seconds_to_units
from aggregator.errors import ParameterError

MAX = 2**64 - 1


def test_the_drafts_example_of_times_holds() -> None:
    interval = Interval.of(123456789, 11)
    assert Time.from_seconds(1234567890, 10) == interval.start
    assert interval.start.to_seconds(10) == 1234567890
    assert interval.end.to_seconds(10) == 1234568000


def test_seconds_are_rounded_down_to_units() -> None:
    assert seconds_to_units(7199, 3600) == 1
    assert seconds_to_units(7200, 3600) == 2


@pytest.mark.parametrize(("seconds", "precision"), [(-1, 10), (2**64, 1), (5, 0), (5, -1)])
def test_seconds_without_units_are_refused(seconds: int, precision: int) -> None:
    with pytest.raises(ParameterError):
        seconds_to_units(seconds, precision)


def test_an_interval_of_no_duration_is_empty() -> None:
    assert Interval.of(10, 0).is_empty
    assert not Interval.of(10, 3).is_empty


def test_an_interval_covers_what_lies_within_it() -> None:
    interval = Interval.of(10, 10)
    assert interval.covers(interval)
    assert interval.covers(Interval.of(15, 5))
    assert not interval.covers(Interval.of(15, 6))
    assert not interval.covers(Interval.of(9, 5))


def test_the_interval_that_spans_two_times_is_the_smallest() -> None:
    assert Interval.spanning(Time(5), Time(5)) == Interval.of(5, 1)
    assert Interval.spanning(Time(5), Time(8)) == Interval.of(5, 4)


def test_an_interval_may_end_at_the_last_time_and_no_later() -> None:
    last = Interval.of(MAX - 1, 1)
    assert decode(Interval, encode(last)) == last
    assert last.end == Time(MAX)
    with pytest.raises(IntervalOverflow, match=str(2**64)):
        Interval(Time(MAX), Duration(1))
    with pytest.raises(DecodeError):
        decode(Interval, b"\xff" * 16)


def test_a_time_that_does_not_fit_is_not_written() -> None:
    with pytest.raises(ParameterError, match="time must be 0 to"):
        encode(Time(2**64))
