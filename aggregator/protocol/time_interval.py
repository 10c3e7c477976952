"""The time-interval batch mode: a bucket is one unit of time, a batch is an interval.

A bucket's key is its unit as eight bytes, most significant first: keys sort by time.

Source: DAP, "Time Interval".
"""

from collections.abc import Mapping

from typing_extensions import override

from aggregator.dap.extensions import Extensions
from aggregator.dap.messages import BatchSelector, Query, TimeIntervalQuery, TimeIntervalSelector
from aggregator.dap.problems import BatchInvalid, BatchNotOver, InvalidMessage, UnsupportedExtension
from aggregator.dap.times import Interval, Time
from aggregator.dp.window import Window
from aggregator.protocol.batch_modes import Batching
from aggregator.protocol.batches import Batch

_KEY_SIZE = 8
_UNITS_END = 2 ** (8 * _KEY_SIZE)
_BOUNDS = ("start", "end")
"""How people name an interval: its first second, and the second after its last."""


class TimeInterval(Batching):
    """Reports fall into batches by their times."""

    @override
    def bucket(self, time: Time, job: Extensions = ()) -> bytes:
        return _key(time.units)

    @override
    def job_extensions(self, bucket: bytes) -> Extensions:
        return ()

    @override
    def check_job(self, extensions: Extensions) -> None:
        if extensions:
            raise UnsupportedExtension(
                "no aggregation job extension applies to a time_interval task",
                unsupported_extensions=[kind for kind, _ in extensions],
            )

    @override
    def query(self, named: Mapping[str, int], time_precision: int) -> Query:
        for name in (*_BOUNDS, *named):
            if name not in named:
                raise BatchInvalid(f"{name}: missing; a batch is an interval, from start to end")
            if name not in _BOUNDS:
                raise BatchInvalid(f"{name}: not known; a batch is an interval, from start to end")
            if named[name] % time_precision:
                raise BatchInvalid(
                    f"{name}: must be a multiple of the time precision, {time_precision} seconds, "
                    f"not {named[name]}"
                )
        start, end = (named[name] for name in _BOUNDS)
        if end <= start:
            raise BatchInvalid(f"end: must be after start, {start}, not {end}")
        units = start // time_precision, (end - start) // time_precision
        return TimeIntervalQuery(Interval.of(*units))

    @override
    def named(self, query: Query, time_precision: int) -> Mapping[str, int]:
        return _seconds(_interval(query), time_precision)

    @override
    def asked(self, query: Query, latest: Time, time_precision: int) -> Batch:
        interval = _interval(query)
        early = interval.end.units - (latest.units + 1)
        if early > 0:
            raise BatchNotOver(
                f"the query ends at {interval.end.to_seconds(time_precision)} seconds since the "
                f"epoch, in the future; it may reach to {(latest.units + 1) * time_precision}",
                retry_after=early * time_precision,
            )
        return batch_of_interval(interval)

    @override
    def check_window(
        self, asked: Query | BatchSelector, window: Window, time_precision: int
    ) -> None:
        interval = _interval(asked)
        start, end = interval.start.units, interval.end.units
        first = window.first_unit(start)
        if (start, end) != (first, first + window.length):
            raise BatchInvalid(
                f"the batch is from {start * time_precision} to {end * time_precision} seconds "
                "since the epoch; a batch of this task is one window, such as from "
                f"{first * time_precision} to {(first + window.length) * time_precision}"
            )

    @override
    def smallest_batch(self, bucket: bytes, window: Window | None) -> Batch:
        if window is None:
            return Batch(bucket, bucket)
        first = window.first_unit(int.from_bytes(bucket, "big"))
        return Batch(_key(max(first, 0)), _key(min(first + window.length, _UNITS_END) - 1))

    @override
    def selected(self, selector: BatchSelector, query: Query) -> Batch:
        asked, selected = _interval(query), _interval(selector)
        if not asked.covers(selected):
            raise BatchInvalid("the batch selector reaches beyond the query's interval")
        return batch_of_interval(selected)

    @override
    def may_span(self, query: Query, interval: Interval) -> bool:
        return not interval.is_empty and _interval(query).covers(interval)

    @override
    def selector(self, batch: Batch) -> BatchSelector:
        return TimeIntervalSelector(interval_of_batch(batch))

    @override
    def described(self, batch: Batch, time_precision: int) -> Mapping[str, int | str]:
        return _seconds(interval_of_batch(batch), time_precision)


def batch_of_interval(interval: Interval) -> Batch:
    """Return the batch of all reports in `interval`, which must not be empty."""
    return Batch(_key(interval.start.units), _key(interval.end.units - 1))


def interval_of_batch(batch: Batch) -> Interval:
    """Return the interval that a batch covers."""
    first, last = (Time(int.from_bytes(key, "big")) for key in (batch.first, batch.last))
    return Interval.spanning(first, last)


def _key(unit: int) -> bytes:
    return unit.to_bytes(_KEY_SIZE, "big")


def _seconds(interval: Interval, time_precision: int) -> Mapping[str, int]:
    bounds = (interval.start, interval.end)
    return {
        name: time.to_seconds(time_precision) for name, time in zip(_BOUNDS, bounds, strict=True)
    }


def _interval(query: Query | BatchSelector) -> Interval:
    if not isinstance(query, TimeIntervalQuery | TimeIntervalSelector):
        raise InvalidMessage("the task's batch mode is time_interval")
    if query.batch_interval.is_empty:
        raise BatchInvalid("the interval's duration is 0; it must be at least 1")
    return query.batch_interval
