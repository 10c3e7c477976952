"""Sizes, times and reach: what is refused before anything is stored."""

import dataclasses

import pytest

from aggregator.codec import DecodeError, Reader, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.hpke import generate_keypair
from aggregator.dap.messages import Report, TimeIntervalQuery, UploadedReport
from aggregator.dap.problems import LONGEST_WAIT_SECONDS, BatchNotOver
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Interval, Time
from aggregator.protocol.reports import Timely, check_upload, report_sizes
from aggregator.protocol.time_interval import batch_of_interval
from tests.support.entropy import SeededEntropy
from tests.support.reports import make_reports
from tests.support.tasks import TIME_PRECISION, make_task

NOW = 1_700_000_050
DAY = 86_400
TASK = make_task()
SIZES = report_sizes(TASK)


def report_of(seconds: int = NOW) -> Report:
    entropy = SeededEntropy(b"client")
    configs = [generate_keypair(each, entropy).config for each in (1, 2)]
    (report,) = make_reports(TASK, *configs, [3], TASK.time(seconds), entropy)
    return report


def uploaded(report: Report) -> UploadedReport:
    return UploadedReport.read(Reader(encode(report)), SIZES)


@pytest.mark.parametrize(
    "vdaf",
    [
        {"type": "Prio3Count"},
        {"type": "Prio3Sum", "max_measurement": 255},
        {"type": "Prio3Histogram", "length": 10, "chunk_length": 3},
    ],
    ids=lambda vdaf: str(vdaf["type"]),
)
def test_a_reports_size_is_that_of_its_task(vdaf: dict[str, str | int]) -> None:
    task = make_task(vdaf)
    entropy = SeededEntropy(b"client")
    configs = [generate_keypair(each, entropy).config for each in (1, 2)]
    reports = make_reports(task, *configs, [0, 1], task.time(NOW), entropy)
    assert {len(encode(report)) for report in reports} == {report_sizes(task).report_of(32, 32)}


def test_an_uploaded_report_is_kept_as_it_came() -> None:
    report = report_of()
    found = uploaded(report)
    assert found.encoding == encode(report)
    assert found.report_id == report.report_metadata.report_id
    assert (found.time, found.leader_config_id) == (TASK.time(NOW), 1)


def test_a_report_with_a_thousand_extensions_is_skipped_and_the_next_one_is_read() -> None:
    report = report_of()
    many = tuple(Extension(kind, b"") for kind in range(1000))
    metadata = dataclasses.replace(report.report_metadata, public_extensions=many)
    reader = Reader(encode(dataclasses.replace(report, report_metadata=metadata)) + encode(report))
    first, second = (UploadedReport.read(reader, SIZES) for _ in range(2))
    assert first.encoding is None
    assert second.encoding == encode(report)
    assert check_upload(TASK, first, {1}, Timely(NOW)) is ReportError.INVALID_MESSAGE


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"enc": 65 - 32}, True),
        ({"enc": 1}, False),
        ({"payload": 1}, False),
        ({"payload": -1}, False),
        ({"enc": 1, "payload": -1}, False),  # of the usual length
        ({"enc": -1, "payload": 1}, False),
    ],
)
@pytest.mark.parametrize("share", ["leader_encrypted_input_share", "helper_encrypted_input_share"])
def test_a_report_is_read_by_its_own_sizes_and_kept_only_with_its_tasks(
    share: str, changes: dict[str, int], *, fits: bool
) -> None:
    """Usual sizes are read in one step: others must not be taken for them, nor hurt the next."""
    usual = report_of()
    sealed = getattr(usual, share)
    sizes = {name: len(getattr(sealed, name)) + more for name, more in changes.items()}
    other = dataclasses.replace(sealed, **{name: b"?" * size for name, size in sizes.items()})
    report = dataclasses.replace(usual, **{share: other})
    reader = Reader(encode(report) + encode(usual))
    first, second = (UploadedReport.read(reader, SIZES) for _ in range(2))
    assert first == second._replace(encoding=encode(report) if fits else None)
    assert second.encoding == encode(usual)
    assert not reader.remaining


def test_a_truncated_report_does_not_decode() -> None:
    body = encode(report_of())
    for size in range(len(body)):
        with pytest.raises(DecodeError):
            UploadedReport.read(Reader(body[:size]), SIZES)


def test_a_report_may_be_old_but_not_too_old() -> None:
    timely = Timely(NOW, max_age_seconds=30 * DAY)
    assert check_upload(TASK, uploaded(report_of(NOW - 29 * DAY)), {1}, timely) is None
    old = uploaded(report_of(NOW - 31 * DAY))
    assert check_upload(TASK, old, {1}, timely) is ReportError.REPORT_DROPPED
    first = old._replace(time=Time(0))
    assert check_upload(TASK, first, {1}, Timely(NOW)) is ReportError.REPORT_DROPPED


def test_a_query_reaches_to_the_end_of_the_present_unit_and_no_farther() -> None:
    present = TASK.time(NOW)
    within = Interval.of(0, present.units + 1)
    asked = TASK.batching.asked(TimeIntervalQuery(within), present, TIME_PRECISION)
    assert asked == batch_of_interval(within)
    beyond = TimeIntervalQuery(Interval.of(present.units, 2))
    limit = (present.units + 1) * TIME_PRECISION
    with pytest.raises(BatchNotOver, match=f"may reach to {limit}$") as raised:
        TASK.batching.asked(beyond, present, TIME_PRECISION)
    assert 0 < raised.value.retry_after <= LONGEST_WAIT_SECONDS
