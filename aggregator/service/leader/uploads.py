"""Checks uploaded reports and writes them, several requests per transaction.

One task writes, as long as anything waits. Requests that arrive while a transaction is being
written are written together by the next one: under load a transaction carries many requests, and
without load a request waits only if a delay is set. Tasks of DAP take turns in the threads that
check and in the transactions, so that a flood of uploads to one task delays no other for long.

A large request is written in pieces, so that no transaction holds the store's writer for long. If a
piece fails, the request fails, but the pieces before it stay stored: when the client repeats the
request, their reports are already there.

Source: DAP, "Uploading Reports".
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import Context

import anyio
from anyio.lowlevel import checkpoint

from aggregator.dap.ids import ReportId, TaskId
from aggregator.dap.messages import ReportUploadStatus, UploadErrors
from aggregator.dap.report_errors import ReportError
from aggregator.errors import StoreError
from aggregator.failures import let_go
from aggregator.protocol.reports import Timely
from aggregator.protocol.task import Task
from aggregator.service.config import GROUP_REPORTS
from aggregator.service.leader.upload_checks import (
    NO_JOB,
    SHORT_BODY,
    Below,
    Moment,
    check_reports,
    usual_report,
)
from aggregator.service.leader.upload_group import Upload, put_group, why_over
from aggregator.service.leader.upload_log import UploadLog
from aggregator.service.runtime import FairQueue, Runtime, Threads, UploadTerms
from aggregator.service.runtime.report_ages import ReportAges
from aggregator.service.storage.batches.closed import closed_to_uploads
from aggregator.service.storage.engine.backends import Busy
from aggregator.service.storage.engine.states import BatchState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.capacity import full_of_others, room_now
from aggregator.service.storage.tasks.version import SettingsChanged, settings_version
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.metrics import UPLOAD_GROUP_REPORTS

GROUP_SIZE = 4 * 2**20
"""The most bytes of reports in a piece; a transaction of this size takes no more pieces."""

GROUP_TASKS = 32
"""The most tasks in one transaction. Each takes up to nine advisory locks, and four processes with
500 tasks each overflow PostgreSQL's shared lock table, in transactions that take seconds."""

_CHECKS = 5
"""How many times a request is checked, if tasks or keys change each time before it is stored."""

_THREADS = 4
"""How many requests are checked at once; the interpreter lock would let no more run."""


@dataclasses.dataclass(frozen=True, slots=True)
class Grouping:
    """How large transactions are, and how long the first of their uploads waits for others.

    Attributes:
        reports: The most reports in a piece of a request, and the number at which a transaction
            takes no more pieces; each report takes the writer 0.03 to 0.1 ms.
        delay_seconds: How long a transaction with fewer reports waits for more.
    """

    reports: int = GROUP_REPORTS
    delay_seconds: float = 0.0


class Uploads:
    """Takes the bodies of upload requests."""

    def __init__(
        self,
        runtime: Runtime,
        max_age_seconds: int,
        grouping: Grouping = Grouping(),
    ) -> None:
        """Write into the store of `runtime`.

        Args:
            runtime: The leader's.
            max_age_seconds: How far behind its clock a report's time may lie.
            grouping: What goes into one transaction.
        """
        self._grouping = grouping
        self._runtime = runtime
        self._ages = ReportAges(max_age_seconds)
        self._threads = Threads(_THREADS)
        self._waiting: FairQueue[Upload] = FairQueue()
        self._log = UploadLog()
        self._last_moment: Moment | None = None
        self._writer: asyncio.Task[None] | None = None  # while anything waits, or is written
        self._missing = 0  # how many reports the transaction that waits for more still lacks
        self._is_full: anyio.Event | None = None  # only while a transaction waits for more

    async def take(self, task_id: TaskId, body: bytes, below: Below = NO_JOB) -> UploadErrors:
        """Store the reports of one request; return those that were refused, in their order.

        A report whose id was uploaded before is discarded silently: a client that repeats a report
        because the answer was lost needs no error, and the report counts once. If tasks or keys
        have changed since this process read them, the request is checked anew. The settings that
        hold when its first piece is stored apply to the whole request. A request without reports
        asks what a report of now would be told; that is said of the id of zeros. Of those
        `below` a collection job, a report that another batch has is refused, too
        (`storage.reports.bound`).

        Raises:
            DecodeError: The body is not a sequence of reports; none of it is stored.
            MessageTooLarge: There are more than `MAX_REPORTS`; none of them is stored.
            UnrecognizedTask: The task was forgotten meanwhile.
            Busy: Tasks or keys changed again and again meanwhile.
        """
        for _ in range(_CHECKS):
            terms = await self._runtime.upload_terms(task_id)
            try:
                if not body:
                    return await self._word_now(terms, below)
                return await self._take(terms, body, below)
            except SettingsChanged as changed:
                let_go(changed)  # its frames have the reports, which have it as their failure
                self._runtime.forget_terms(terms.version)
        raise Busy("tasks or keys changed each time before an upload was stored")

    def begin(self, terms: UploadTerms, body: bytes) -> Upload | None:
        """Have the only report of a request written, if it is a usual one that is not refused.

        Once it is written, or has failed, `then` of the upload is called, which the caller sets.
        """
        moment = self._moment(terms, NO_JOB)
        checked = usual_report(moment, body)
        if checked is None:
            return None
        upload = Upload(terms.task, checked.stored, moment.first_day, {}, terms.version, terms)
        self._put(upload)
        return upload

    async def finish(self, upload: Upload, task_id: TaskId, body: bytes) -> UploadErrors:
        """Wait for an upload that has begun, and do the rest of `take`, which says what it raises.

        Nothing calls its `then` any more.
        """
        upload.then = None
        try:
            (why,) = await self._written(upload)
        except SettingsChanged as changed:
            let_go(changed)
            self._runtime.forget_terms(upload.terms.version)
            return await self.take(task_id, body)
        return _refused(upload.task, upload.reports.ids, [why])

    async def _take(self, terms: UploadTerms, body: bytes, below: Below) -> UploadErrors:
        task = terms.task
        moment = self._moment(terms, below)
        if len(body) <= SHORT_BODY:  # a hop to a thread would take longer
            checked = check_reports(moment, body)
        else:
            key = task.task_id.value
            checked = await self._threads.run(key, lambda: check_reports(moment, body))
        refused: Mapping[str, int] = {}
        if len(checked.stored) < len(checked.ids):
            refused = Counter(error.draft_name for error in checked.errors if error is not None)
        written: list[ReportError | None] = []
        version: int | None = terms.version
        for piece in checked.stored.pieces(self._grouping.reports, GROUP_SIZE):
            upload = Upload(task, piece, moment.first_day, refused, version, terms)
            self._put(upload)
            written += await self._written(upload)
            refused, version = {}, None
        if written.count(None) == len(checked.ids):  # nearly always
            return UploadErrors(())
        outcomes = iter(written)
        why = [next(outcomes) if error is None else error for error in checked.errors]
        return _refused(task, checked.ids, why, below)

    def _moment(self, terms: UploadTerms, below: Below) -> Moment:
        """Return what reports are checked against, the same one as long as nothing changes."""
        now = self._runtime.clock.now()
        last = self._last_moment
        if last is None or not last.is_of(terms, now, below):
            limit = self._ages.limit(terms.task, now)
            timely = Timely(now, self._runtime.clock_skew_seconds, limit.seconds)
            last = self._last_moment = Moment(terms, timely, limit.first_day, below)
        return last

    async def _word_now(self, terms: UploadTerms, below: Below) -> UploadErrors:
        """Return why a new report of now would be refused, under an id that no report has."""
        task, now = terms.task, self._runtime.clock.now()
        task_id, time = task.task_id.value, task.time(now)
        bucket = task.batching.bucket(time, below.job)

        def look(tx: Transaction) -> ReportError | None:
            if settings_version(tx) != terms.version:
                raise SettingsChanged("tasks or keys have changed")
            over = why_over(tx, terms)
            if over is not None:
                return over.error
            state = closed_to_uploads(tx, task_id, [bucket], terms.others).state(bucket)
            if state is not None:
                is_over = state is BatchState.COLLECTED or bool(below.job)
                return ReportError.BATCH_COLLECTED if is_over else ReportError.REPORT_TOO_EARLY
            batch = task.smallest_batch(bucket)
            left = room_now(tx, task_id, bucket, batch, task.max_reports)
            is_full = left <= 0 or full_of_others(tx, {bucket: batch}, terms.others)
            return ReportError.REPORT_DROPPED if is_full else None

        why = Timely(now).refusal(task, time)
        if why is None:
            why = await self._runtime.database.read("word on uploads", look)
        if why is None:
            return UploadErrors(())
        code = task.profile.code(task.profile.at_upload.get(why, why))
        return UploadErrors((ReportUploadStatus(ReportId.of_none(), code),))

    async def _written(self, upload: Upload) -> list[ReportError | None]:
        """Wait until a piece is written; return the outcomes of its reports (`put_reports`)."""
        try:
            await upload.wait()
        except BaseException:
            self._waiting.discard(upload.task.task_id.value, upload)
            raise
        return upload.outcome()

    def _put(self, upload: Upload) -> None:
        """Have a piece written."""
        self._waiting.put(upload.task.task_id.value, upload)
        self._missing -= len(upload.reports)
        if self._is_full is not None and self._missing <= 0:
            self._is_full.set()
        if self._writer is None:
            # Outside the trace of the request that happens to be the first: it writes for many.
            loop = asyncio.get_running_loop()
            self._writer = loop.create_task(self._write_all(), context=Context())

    async def _write_all(self) -> None:
        """Write what waits, one group after the other, until nothing does."""
        try:
            while self._waiting:
                await self._gather()
                await self._write_group()
                await checkpoint()  # the next pieces of large requests join the next group
        finally:
            self._writer = None

    async def _gather(self) -> None:
        """Wait for more uploads to join, if a delay is set and the group is not full yet."""
        if not self._grouping.delay_seconds:
            return
        self._missing = self._grouping.reports - sum(len(each.reports) for each in self._waiting)
        if self._missing > 0:
            self._is_full = anyio.Event()
            with anyio.move_on_after(self._grouping.delay_seconds):
                await self._is_full.wait()
            self._is_full = None

    async def _write_group(self) -> None:
        """Write the pieces whose turn it is, or record on each why it failed."""
        group: list[Upload] = []
        size = reports = 0
        tasks = set[TaskId]()
        while self._waiting and size < GROUP_SIZE and reports < self._grouping.reports:
            if len(tasks) == GROUP_TASKS:
                break
            group.append(self._waiting.take())
            size += group[-1].size
            reports += len(group[-1].reports)
            tasks.add(group[-1].task.task_id)
        if not group:
            return  # all have left while it waited for more
        UPLOAD_GROUP_REPORTS.observe(reports)
        try:
            with self._ages.learning():
                await self._runtime.database.run("upload", lambda tx: put_group(tx, group))
            self._note_stored([each for each in group if each.failure is None])
        except StoreError as error:
            self._last_moment = None  # what is learnt from it holds from now on
            _fail(group, error)
        except BaseException as error:
            _fail(group, StoreError("the transaction that carried this upload failed"))
            if isinstance(error, asyncio.CancelledError):  # the event loop ends
                raise
            _tell(group, error)
        finally:
            for member in group:
                member.wake()

    def _note_stored(self, group: Sequence[Upload]) -> None:
        reports = sum(len(upload.reports) for upload in group)
        if reports:
            tasks = {upload.task.task_id.value for upload in group}
            self._log.note(reports, len(group), tasks)


def _refused(
    task: Task,
    ids: Sequence[bytes],
    outcomes: Sequence[ReportError | None],
    below: Below = NO_JOB,
) -> UploadErrors:
    """Return what a client is told of the reports of its request."""
    return UploadErrors(
        tuple(
            ReportUploadStatus(ReportId(report_id), task.profile.code(why))
            for report_id, why in zip(ids, outcomes, strict=True)
            if why is not None and (why is not ReportError.REPORT_REPLAYED or below.job)
        )
    )


def _tell(group: Sequence[Upload], error: BaseException) -> None:
    """Have one of the requests that wait raise a fault of our own, or log it if none waits."""
    told = next((upload for upload in group if upload.is_awaited), None)
    if told is None:
        log.error("uploads failed", exc_info=error)
        let_go(error)
    else:
        told.failure = error


def _fail(group: Sequence[Upload], failure: StoreError) -> None:
    for upload in group:
        upload.outcomes, upload.failure = None, failure  # nothing was committed
