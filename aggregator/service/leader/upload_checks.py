"""Takes the body of an upload request apart, and checks its reports before anything is stored.

A large request is read as arrays. If any of its reports has an unusual size or is refused, they are
all read and checked one by one instead, which defines what is refused.

Source: DAP, "Uploading Reports".
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aggregator.codec import DecodeError, Reader
from aggregator.dap.messages import ReportSizes, UploadedReport, UploadRequest
from aggregator.dap.messages.columns import ReportColumns
from aggregator.dap.problems import MessageTooLarge
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Time
from aggregator.protocol.reports import Timely, check_upload, is_none_refused, report_sizes
from aggregator.protocol.task import Task
from aggregator.service.runtime import UploadTerms
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.incoming import IncomingReports

MAX_REPORTS = 20_000
"""The most reports per request."""

SHORT_BODY = 32 * 2**10
"""The most bytes of a body that is checked in the event loop, a report at a time: one phone's
report, or a few."""


class CheckedUpload(NamedTuple):
    """Reports of a request: their ids, why each is refused or None, and those to be stored."""

    ids: Sequence[bytes]
    errors: Sequence[ReportError | None]
    stored: IncomingReports


def check_reports(terms: UploadTerms, body: bytes, timely: Timely) -> CheckedUpload:
    """Check the reports of a request: all at once if none is refused, as nearly always.

    Args:
        terms: The task, and what it takes now.
        body: The request.
        timely: The limits on the reports' times.

    Raises:
        DecodeError: The body is not a sequence of reports.
        MessageTooLarge: There are more than `MAX_REPORTS`.
    """
    task = terms.task
    keys = terms.config_ids
    sizes = report_sizes(task)
    # For a few reports, arrays take longer than objects.
    columns = ReportColumns.uploaded(body, sizes) if len(body) > SHORT_BODY else None
    is_quick = columns is not None and len(columns) <= MAX_REPORTS
    if columns is not None and is_quick and is_none_refused(task, columns, keys, timely):
        return _all_of(task, columns, body)
    reports = list(_reports(body, sizes))
    errors = [check_upload(task, report, keys, timely) for report in reports]
    bucket, precision = task.batching.bucket, task.time_precision
    stored = [
        StoredReport(
            report.report_id.value,
            bucket(report.time),
            report.time.day(precision),
            report.encoding,
        )
        for report, error in zip(reports, errors, strict=True)
        if error is None and report.encoding is not None
    ]
    ids = [report.report_id.value for report in reports]
    return CheckedUpload(ids, errors, IncomingReports.of(stored))


def _all_of(task: Task, columns: ReportColumns, body: bytes) -> CheckedUpload:
    """Return the reports of a request of which none is refused."""
    ids, times = columns.ids, columns.times
    bucket, precision = task.batching.bucket, task.time_precision
    place_of = {units: (bucket(Time(units)), Time(units).day(precision)) for units in {*times}}
    places = [place_of[units] for units in times]
    buckets, days = [bucket for bucket, _ in places], [day for _, day in places]
    stored = IncomingReports(ids, buckets, days, body, len(body) // len(ids))
    return CheckedUpload(ids, [None] * len(ids), stored)


def _reports(body: bytes, sizes: ReportSizes) -> Iterator[UploadedReport]:
    """Yield the reports of an upload request.

    The number is limited: anybody may send a body, and within our limit in bytes it could hold over
    a million tiny reports, each of which takes far more memory than it has bytes.
    """
    reader = Reader(body)
    for _ in range(MAX_REPORTS):
        if not reader.remaining:
            return
        try:
            yield UploadedReport.read(reader, sizes)
        except DecodeError as error:
            error.message_name = UploadRequest.__name__
            raise
    if reader.remaining:
        raise MessageTooLarge(f"a request may carry {MAX_REPORTS} reports")
