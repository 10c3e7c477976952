"""Takes the body of an upload request apart, and checks its reports before anything is stored.

A large request is read as arrays, and a lone report in place. If any report has an unusual size or
is refused, all are read and checked one by one instead, which defines what is refused.

Source: DAP, "Uploading Reports".
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aggregator.codec import DecodeError, Reader
from aggregator.dap.attribution import LEAST_BUDGET
from aggregator.dap.extensions import Extensions
from aggregator.dap.messages import ReportSizes, UploadedReport, UploadRequest
from aggregator.dap.messages.columns import ReportColumns
from aggregator.dap.messages.sized import read_usual
from aggregator.dap.problems import MessageTooLarge
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Time
from aggregator.protocol.reports import (
    Timely,
    budget_in,
    check_upload,
    is_none_refused,
    report_sizes,
)
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


class Below(NamedTuple):
    """A collection job below which reports are uploaded.

    Attributes:
        job: What says in which batch they are, as the extensions of an aggregation job.
        least_budget: The least budget that they must have, where reports have some.
    """

    job: Extensions = ()
    least_budget: int = LEAST_BUDGET


NO_JOB = Below()


class Moment:
    """What uploads to a task are checked against at one moment.

    Attributes:
        terms: The task, and what it takes now.
        timely: The limits on the reports' times.
        first_day: The day from which ids must be kept for that (`runtime.report_ages`).
        below: Below which collection job the reports are, if any.
    """

    def __init__(
        self, terms: UploadTerms, timely: Timely, first_day: int, below: Below = NO_JOB
    ) -> None:
        """Begin to check against these."""
        self.terms, self.timely, self.below = terms, timely, below
        self.first_day = first_day
        self._of_time: dict[int, tuple[ReportError | None, bytes, int]] = {}

    def is_of(self, terms: UploadTerms, now: int, below: Below) -> bool:
        """Return whether these very terms are checked against, as of `now`."""
        return self.terms is terms and self.timely.now == now and self.below == below

    def place(self, units: int) -> tuple[ReportError | None, bytes, int]:
        """Return of a time why its reports are refused or None, their bucket's key, and the day.

        That is the same for all reports of a unit, of which a moment has many.
        """
        found = self._of_time.get(units)
        if found is None:
            task, time = self.terms.task, Time(units)
            found = (
                self.timely.refusal(task, time),
                task.batching.bucket(time, self.below.job),
                time.day(task.time_precision),
            )
            if len(self._of_time) < _MOST_TIMES:  # a stranger may name any
                self._of_time[units] = found
        return found


_MOST_TIMES = 1000
"""How many times a moment remembers."""


def check_reports(moment: Moment, body: bytes) -> CheckedUpload:
    """Check the reports of a request: all at once if none is refused, as nearly always.

    Args:
        moment: What they are checked against.
        body: The request.

    Raises:
        DecodeError: The body is not a sequence of reports.
        MessageTooLarge: There are more than `MAX_REPORTS`.
    """
    task = moment.terms.task
    limits = moment.terms.config_ids, moment.timely, moment.below.least_budget
    sizes = report_sizes(task)
    if len(body) <= SHORT_BODY:  # for a few reports, arrays take longer than objects
        alone = usual_report(moment, body)
        if alone is not None:
            return alone
    else:
        columns = ReportColumns.uploaded(body, sizes)
        is_quick = columns is not None and len(columns) <= MAX_REPORTS
        if columns is not None and is_quick and is_none_refused(task, columns, *limits):
            return _all_of(moment, columns, body)
    reports = list(_reports(body, sizes))
    errors = [check_upload(task, report, *limits) for report in reports]
    stored = [
        StoredReport(report.report_id.value, *moment.place(report.time.units)[1:], report.encoding)
        for report, error in zip(reports, errors, strict=True)
        if error is None and report.encoding is not None
    ]
    ids = [report.report_id.value for report in reports]
    return CheckedUpload(ids, errors, IncomingReports.of(stored))


def usual_report(moment: Moment, body: bytes) -> CheckedUpload | None:
    """Return the only report of a request, if it is a usual one and is not refused."""
    found = read_usual(body, report_sizes(moment.terms.task))
    if found is None or moment.terms.task.issuer_keys is not None:
        return None
    if moment.terms.task.attribution is not None and budget_in(body) < moment.below.least_budget:
        return None
    report_id, units, config_id = found
    why, bucket, day = moment.place(units)
    if why is not None or config_id not in moment.terms.config_ids:
        return None
    stored = IncomingReports([report_id], [bucket], [day], body, len(body))
    return CheckedUpload([report_id], [None], stored)


def _all_of(moment: Moment, columns: ReportColumns, body: bytes) -> CheckedUpload:
    """Return the reports of a request of which none is refused."""
    ids, times = columns.ids, columns.times
    places = {units: moment.place(units) for units in {*times}}
    buckets, days = [places[units][1] for units in times], [places[units][2] for units in times]
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
