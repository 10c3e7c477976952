"""The one rule by which replayed, untimely and surplus reports are refused.

The leader applies it when a report is uploaded; both aggregators apply it when they add verified
reports to their buckets, in the transaction that stores the ids. The caller gives the facts; the
verdict is the draft's error.

Source: DAP, "Leader Behavior" (of uploads), "Input Share Validation" and "Batch Buckets".
"""

import dataclasses

from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY, Interval, Time


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """When a report was made, and the limits on that time, None where there is no limit.

    The draft has no `earliest`: that a report may be too old is a rule of ours.
    """

    time: Time
    interval: Interval | None
    latest: Time | None
    earliest: Time | None = None


def refusal(
    timing: Timing | None = None,
    *,
    is_seen: bool = False,
    is_closed: bool = False,
    is_full: bool = False,
) -> ReportError | None:
    """Return why a report does not count by these facts, or None if it does.

    A replay is recognised first: a client that repeats an upload because the answer was lost must
    not be told that its report does not count.

    Args:
        timing: The report's time and its limits; None where they were checked before.
        is_seen: Whether its id was seen before.
        is_closed: Whether its batch is being, or was, collected.
        is_full: Whether the smallest batch that it can be collected in holds `max_reports`. A
            larger batch could never be collected: its sum might wrap around.
    """
    if is_seen:
        return ReportError.REPORT_REPLAYED
    untimely = None if timing is None else _untimely(timing)
    if untimely is not None:
        return untimely
    if is_closed:
        return ReportError.BATCH_COLLECTED
    return ReportError.REPORT_DROPPED if is_full else None


def first_day_remembered(earliest: int, time_precision: int) -> int:
    """Return the first day whose ids must be remembered if reports before `earliest` are refused.

    An id is remembered under the day in which the unit of its report's time begins. Reports of the
    unit that holds `earliest` are not refused. Days and seconds are since the epoch.
    """
    return Time.from_seconds(max(0, earliest), time_precision).day(time_precision)


def days_remembered(max_age_seconds: int, time_precision: int) -> int:
    """Return how many days ids must be kept, so that `first_day_remembered` is always covered."""
    return -(-(max_age_seconds + time_precision) // DAY)


def earliest_remembered(from_day: int, time_precision: int) -> int:
    """Return the earliest second from which on reports may count if ids are kept from a day on."""
    return -(-from_day * DAY // time_precision) * time_precision


def _untimely(timing: Timing) -> ReportError | None:
    time, interval, latest = timing.time, timing.interval, timing.latest
    if interval is not None and time < interval.start:
        return ReportError.TASK_NOT_STARTED
    if interval is not None and time >= interval.end:
        return ReportError.TASK_EXPIRED
    if latest is not None and time > latest:
        return ReportError.REPORT_TOO_EARLY
    if timing.earliest is not None and time < timing.earliest:
        return ReportError.REPORT_DROPPED
    return None
