"""Checks uploaded reports and writes them, several requests per transaction.

Requests that arrive while a transaction is being written are all written by the next one: under
load a transaction carries many requests, and without load nobody waits.

Source: DAP, "Uploading Reports".
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import anyio
from anyio import to_thread

from aggregator.codec import DecodeError, Reader
from aggregator.dap.messages import (
    ReportSizes,
    ReportUploadStatus,
    UploadedReport,
    UploadErrors,
    UploadRequest,
)
from aggregator.dap.problems import MessageTooLarge
from aggregator.dap.report_errors import ReportError
from aggregator.errors import StoreError
from aggregator.protocol.reports import check_upload, report_sizes
from aggregator.protocol.task import Task
from aggregator.runtime import Runtime, ServedTask
from aggregator.storage.counters import Stage, count_reports
from aggregator.storage.database import Transaction
from aggregator.storage.reports import StoredReport, put_reports

MAX_REPORTS = 20_000
"""The most reports per request."""


@dataclasses.dataclass(slots=True)
class _Upload:
    """The checked reports of one request and, once they are written, their outcomes."""

    task: Task
    reports: list[StoredReport]
    refused: Counter[str]
    outcomes: list[ReportError | None] | None = None
    is_lost: bool = False


class Uploads:
    """Takes the bodies of upload requests."""

    def __init__(self, runtime: Runtime, max_age_seconds: int) -> None:
        """Write into the store of `runtime`.

        Args:
            runtime: The leader's.
            max_age_seconds: How far behind its clock a report's time may lie.
        """
        self._runtime = runtime
        self._max_age_seconds = max_age_seconds
        self._waiting: list[_Upload] = []
        self._writer = anyio.Lock()

    async def take(self, served: ServedTask, body: bytes) -> UploadErrors:
        """Store the reports of one request; return those that were refused, in their order.

        A report whose id was uploaded before is discarded silently: a client that repeats a report
        because the answer was lost needs no error, and the report counts once.

        Raises:
            DecodeError: The body is not a sequence of reports; none of it is stored.
            MessageTooLarge: There are more than `MAX_REPORTS`; none of them is stored.
        """
        config_ids = await self._runtime.config_ids()
        now = self._runtime.clock.now()

        sizes = report_sizes(served.task)

        def checked() -> list[tuple[UploadedReport, ReportError | None]]:
            return [
                (
                    report,
                    ReportError.REPORT_DROPPED
                    if served.is_ended
                    else check_upload(
                        served.task,
                        report,
                        config_ids,
                        now,
                        self._runtime.clock_skew_seconds,
                        self._max_age_seconds,
                    ),
                )
                for report in _reports(body, sizes)
            ]

        reports = await to_thread.run_sync(checked)
        upload = _Upload(
            served.task,
            [
                StoredReport(
                    report.report_id.value,
                    served.task.batching.bucket(report.metadata),
                    report.encoding,
                )
                for report, error in reports
                if error is None and report.encoding is not None
            ],
            Counter(error.draft_name for _, error in reports if error is not None),
        )
        outcomes = iter(await self._write(upload))
        statuses = []
        for report, error in reports:
            refused = next(outcomes) if error is None else error
            if refused is not None and refused is not ReportError.REPORT_REPLAYED:
                statuses.append(ReportUploadStatus(report.report_id, refused))
        return UploadErrors(tuple(statuses))

    async def _write(self, upload: _Upload) -> list[ReportError | None]:
        self._waiting.append(upload)
        async with self._writer:
            if upload.outcomes is None and not upload.is_lost:
                group, self._waiting = self._waiting, []
                try:
                    await self._runtime.database.run("upload", lambda tx: _put(tx, group))
                except BaseException:
                    for member in group:
                        member.is_lost, member.outcomes = True, None  # nothing was committed
                    raise
        if upload.outcomes is None:
            raise StoreError("the transaction that carried this upload failed")
        return upload.outcomes


def _reports(body: bytes, sizes: ReportSizes) -> Iterator[UploadedReport]:
    """Yield the reports of an upload request.

    A body within our limit in bytes could hold over a million tiny reports, and anybody may send
    one: each report would take far more memory than it has bytes, and all of them one transaction.
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


def _put(tx: Transaction, group: list[_Upload]) -> None:
    for upload in group:
        task = upload.task
        upload.outcomes = put_reports(tx, task.task_id.value, upload.reports, task.max_reports)
        count_reports(tx, task.task_id.value, Stage.UPLOAD, upload.refused)
