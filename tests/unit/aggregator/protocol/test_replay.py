"""Whether a report may count: the facts, and which of them comes first."""

import pytest

from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Interval, Time
from aggregator.protocol.replay import Timing, refusal

TASK = Interval.of(10, 5)
NOW = Time(13)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (9, ReportError.TASK_NOT_STARTED),
        (10, None),
        (13, None),
        (14, ReportError.REPORT_TOO_EARLY),
        (15, ReportError.TASK_EXPIRED),
    ],
)
def test_a_report_counts_within_its_task_and_not_ahead_of_the_clock(
    time: int, expected: ReportError | None
) -> None:
    assert refusal(Timing(Time(time), TASK, NOW)) is expected


def test_without_limits_any_time_counts() -> None:
    assert refusal(Timing(Time(2**64 - 1), None, None)) is None
    assert refusal() is None


def test_a_report_of_a_closed_batch_does_not_count() -> None:
    assert refusal(is_closed=True) is ReportError.BATCH_COLLECTED
    untimely = Timing(Time(9), TASK, NOW)
    assert refusal(untimely, is_closed=True) is ReportError.TASK_NOT_STARTED


def test_a_report_of_a_full_bucket_does_not_count() -> None:
    assert refusal(is_full=True) is ReportError.REPORT_DROPPED
    assert refusal(is_full=True, is_closed=True) is ReportError.BATCH_COLLECTED
    assert refusal(is_full=True, is_seen=True) is ReportError.REPORT_REPLAYED


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_report_that_was_seen_is_a_replay_whatever_else_is_wrong(*, is_closed: bool) -> None:
    untimely = Timing(Time(9), TASK, NOW)
    assert refusal(untimely, is_seen=True, is_closed=is_closed) is ReportError.REPORT_REPLAYED
