"""A batch as a value, and what each batch mode makes of reports and queries."""

import pytest

from aggregator.collector.results.result import collection_request
from aggregator.dap.extensions import Extension, Extensions
from aggregator.dap.ids import BatchId, ReportId
from aggregator.dap.messages import (
    AggregateShareReq,
    CollectionJobReq,
    LeaderSelectedQuery,
    LeaderSelectedSelector,
    TimeIntervalQuery,
    TimeIntervalSelector,
)
from aggregator.dap.problems import (
    BatchInvalid,
    BatchNotOver,
    InvalidMessage,
    Problem,
    UnsupportedExtension,
)
from aggregator.dap.times import Interval, Time
from aggregator.dp.window import Window
from aggregator.errors import LocalError, ParameterError
from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.protocol.collection import check_aggregate_share_request, check_collection_request
from aggregator.protocol.leader_selected import LeaderSelected, new_bucket
from aggregator.protocol.time_interval import TimeInterval, batch_of_interval, interval_of_batch
from tests.support.entropy import SeededEntropy
from tests.support.tasks import LAPLACE, make_task

MODE = TimeInterval()
SELECTED = LeaderSelected()
IDS = [ReportId(bytes([n] * 16)) for n in range(5)]
TIMES = [7 * n for n in range(5)]


def totals(ids: list[ReportId], times: list[int]) -> BatchTotals:
    return BatchTotals.of([report_id.value for report_id in ids], times)


def checksum(*ids: ReportId) -> bytes:
    return totals([*ids], [0] * len(ids)).checksum


def test_the_checksum_is_the_exclusive_or_over_all_reports_in_any_order() -> None:
    assert checksum(*IDS) == checksum(*reversed(IDS))
    assert checksum(IDS[0], IDS[0]) == bytes(32)
    assert checksum(IDS[0]).hex().startswith("374708ff")  # SHA-256 of sixteen zero bytes


@pytest.mark.parametrize("cut", range(6))
def test_totals_of_parts_add_up_to_those_of_the_whole(cut: int) -> None:
    whole = totals(IDS, TIMES)
    assert totals(IDS[:cut], TIMES[:cut]) + totals(IDS[cut:], TIMES[cut:]) == whole
    assert (whole.report_count, whole.interval) == (5, Interval.of(0, 29))


def test_the_totals_of_no_reports_have_no_interval() -> None:
    with pytest.raises(LocalError, match="empty batch"):
        _ = BatchTotals().interval


@pytest.mark.parametrize(("first", "last"), [(b"\1", b"\0"), (b"\0", b"\0\0")])
def test_a_batch_that_ends_before_it_begins_is_refused(first: bytes, last: bytes) -> None:
    with pytest.raises(ParameterError, match="before its first one"):
        Batch(first, last)


@pytest.mark.parametrize(
    "interval", [Interval.of(0, 1), Interval.of(5, 2**63), Interval.of(0, 2**64 - 1)]
)
def test_an_interval_is_the_batch_from_its_first_unit_to_its_last(interval: Interval) -> None:
    batch = batch_of_interval(interval)
    assert interval_of_batch(batch) == interval
    for time in (interval.start, Time(interval.end.units - 1)):
        assert batch.first <= MODE.bucket(time) <= batch.last
    if interval.end.units < 2**64 - 1:
        assert MODE.bucket(interval.end) > batch.last


def test_the_order_of_buckets_is_the_order_of_time() -> None:
    times = [0, 1, 255, 256, 2**32, 2**63, 2**64 - 1]
    buckets = [MODE.bucket(Time(time)) for time in times]
    assert buckets == sorted(buckets)


def test_the_leader_selects_within_what_the_collector_asked_for() -> None:
    query = TimeIntervalQuery(Interval.of(5, 10))
    inside = TimeIntervalSelector(Interval.of(6, 3))
    assert MODE.selected(inside, query) == batch_of_interval(Interval.of(6, 3))
    assert MODE.selector(MODE.selected(inside, query)) == inside
    for beyond in (Interval.of(4, 2), Interval.of(14, 2), Interval.of(0, 100)):
        with pytest.raises(BatchInvalid, match="beyond"):
            MODE.selected(TimeIntervalSelector(beyond), query)


def test_a_query_of_another_mode_or_for_no_bucket_names_no_batch() -> None:
    with pytest.raises(InvalidMessage, match="time_interval"):
        MODE.asked(LeaderSelectedQuery(), Time(9), 100)
    with pytest.raises(InvalidMessage, match="time_interval"):
        MODE.selected(
            LeaderSelectedSelector(BatchId(bytes(32))), TimeIntervalQuery(Interval.of(5, 1))
        )
    with pytest.raises(BatchInvalid, match="duration is 0"):
        MODE.asked(TimeIntervalQuery(Interval.of(5, 0)), Time(9), 100)


def test_an_interval_is_named_by_its_bounds_in_seconds() -> None:
    named = {"start": 18000, "end": 25200}
    query = MODE.query(named, 3600)
    assert query == TimeIntervalQuery(Interval.of(5, 2))
    assert MODE.named(query, 3600) == named


@pytest.mark.parametrize(
    ("named", "fault"),
    [
        ({}, "start: missing"),
        ({"start": 0}, "end: missing"),
        ({"start": 0, "end": 3600, "month": 3}, "month: not known"),
        ({"start": 1, "end": 3600}, "start: must be a multiple of the time precision, 3600"),
        ({"start": 3600, "end": 3600}, "end: must be after start"),
    ],
)
def test_what_names_no_interval_is_refused_by_name(named: dict[str, int], fault: str) -> None:
    with pytest.raises(BatchInvalid, match=fault):
        MODE.query(named, 3600)


def test_the_window_of_now_may_be_asked_for_and_none_that_has_not_begun() -> None:
    task = make_task(privacy={**LAPLACE, "window": 7, "window_start": 4})
    unit = task.time_precision
    begin = 4 + 7 * 1000

    def asked(start: int) -> CollectionJobReq:
        return collection_request(task, {"start": start * unit, "end": (start + 7) * unit})

    now = (begin + 2) * unit
    assert check_collection_request(task, asked(begin), now) is not None
    with pytest.raises(BatchNotOver, match=f"in the future; it may reach to {(begin + 7) * unit}"):
        check_collection_request(task, asked(begin + 7), now)
    # A collector's clock that is ahead does not begin the next window.
    with pytest.raises(BatchNotOver, match="in the future"):
        check_collection_request(task, asked(begin + 7), (begin + 7) * unit - 1, skew_seconds=60)


def test_the_helper_takes_the_batch_from_the_selector_where_a_query_names_none() -> None:
    task = make_task(batch_mode="leader_selected")
    query = collection_request(task, {})
    assert check_collection_request(task, query, 0) is None
    request = AggregateShareReq(
        query, LeaderSelectedSelector(BatchId(b"b" * 32)), 1, checksum(IDS[0])
    )
    batch = check_aggregate_share_request(task, request)
    assert batch == Batch(b"b" * 32, b"b" * 32)
    assert task.batching.selector(batch) == request.batch_selector
    assert task.batching.described(batch, 100) == {"batch_id": str(BatchId(b"b" * 32))}


def test_a_query_or_selector_for_an_interval_names_no_batch_of_a_leader() -> None:
    interval = Interval.of(5, 1)
    selector = LeaderSelectedSelector(BatchId(bytes(32)))
    for refused in (
        lambda: SELECTED.asked(TimeIntervalQuery(interval), Time(9), 100),
        lambda: SELECTED.selected(selector, TimeIntervalQuery(interval)),
        lambda: SELECTED.selected(TimeIntervalSelector(interval), LeaderSelectedQuery()),
    ):
        with pytest.raises(InvalidMessage, match="leader_selected"):
            refused()
    with pytest.raises(BatchInvalid, match="start: the task is leader_selected"):
        SELECTED.query({"start": 0}, 100)


@pytest.mark.parametrize(
    ("extensions", "problem", "fault"),
    [
        ((), InvalidMessage, "leader_selected_batch_id: missing"),
        ((Extension(1, bytes(31)),), InvalidMessage, "must be 32 bytes, not 31"),
        ((Extension(1, bytes(33)),), InvalidMessage, "must be 32 bytes, not 33"),
        ((Extension(2, b""),), UnsupportedExtension, "no other"),
        ((Extension(1, bytes(32)), Extension(2, b"")), UnsupportedExtension, "no other"),
    ],
)
def test_a_job_of_the_leader_selected_mode_names_its_batch_and_says_nothing_else(
    extensions: Extensions, problem: type[Problem], fault: str
) -> None:
    SELECTED.check_job((Extension(1, bytes(32)),))
    with pytest.raises(problem, match=fault):
        SELECTED.check_job(extensions)


def test_a_report_is_in_no_batch_of_a_leader_until_a_job_puts_it_there() -> None:
    time = Time(5)
    assert SELECTED.bucket(time) == b""
    assert SELECTED.bucket(time, SELECTED.job_extensions(b"b" * 32)) == b"b" * 32


def test_new_batches_of_a_leader_are_in_the_order_of_their_keys() -> None:
    entropy, keys = SeededEntropy(b"leader"), [b""]
    for _ in range(300):
        keys.append(new_bucket(keys[-1], entropy))
    assert keys == sorted(set(keys))
    assert {len(key) for key in keys[1:]} == {BatchId.size}


def test_a_job_of_the_time_interval_mode_has_no_extension() -> None:
    MODE.check_job(())
    with pytest.raises(UnsupportedExtension) as caught:
        MODE.check_job((Extension(1, bytes(32)),))
    assert caught.value.unsupported_extensions == (1,)


def test_a_batch_is_described_in_seconds() -> None:
    batch = batch_of_interval(Interval.of(5, 2))
    assert MODE.described(batch, 3600) == {"start": 18000, "end": 25200}


@pytest.mark.parametrize(
    ("window", "unit", "first", "last"),
    [
        (None, 7, 7, 7),
        (Window(1), 7, 7, 7),
        (Window(4), 7, 4, 7),
        (Window(4, start=3), 7, 7, 10),
        (Window(4, start=3), 6, 3, 6),
        (Window(4, start=3), 2, 0, 2),  # begins before the first unit that there is
        (Window(5), 2**64 - 1, 2**64 - 1, 2**64 - 1),
        (Window(10), 2**64 - 1, 2**64 - 6, 2**64 - 1),  # ends after the last one
    ],
)
def test_the_smallest_batch_of_a_unit_of_time_is_its_window(
    window: Window | None, unit: int, first: int, last: int
) -> None:
    found = TimeInterval().smallest_batch(unit.to_bytes(8), window)
    assert found == Batch(first.to_bytes(8), last.to_bytes(8))
