"""Stores what several upload requests have brought, in one transaction.

Source: DAP, "Uploading Reports".
"""

import asyncio
import dataclasses
import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from aggregator.dap.problems import UnrecognizedTask
from aggregator.dap.report_errors import ReportError
from aggregator.protocol.permits import mark_of
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.task import Task
from aggregator.service.runtime import UploadTerms
from aggregator.service.runtime.lock_order import lock_order
from aggregator.service.storage.engine.transaction import Transaction, UnknownTask
from aggregator.service.storage.ledger.charges import is_used_up
from aggregator.service.storage.reports.counters import RELEASES_USED_UP, Stage, count_reports
from aggregator.service.storage.reports.incoming import IncomingReports
from aggregator.service.storage.reports.past_units import past_before
from aggregator.service.storage.reports.permits import Presented, spend
from aggregator.service.storage.reports.reports import Arriving, Over, begin_to_put, put_reports
from aggregator.service.storage.tasks.version import SettingsChanged, settings_version
from aggregator.service.telemetry.lines import log


@dataclasses.dataclass(slots=True, eq=False)
class Upload:
    """Checked reports of one request and, once they are written, their outcomes.

    `version` is the settings version against which the request was checked; the transaction that
    writes the request's first piece compares it.
    """

    task: Task
    reports: IncomingReports
    first_day: int
    refused: Mapping[str, int]
    version: int | None
    terms: UploadTerms
    outcomes: list[ReportError | None] | None = None
    failure: BaseException | None = None
    then: Callable[[], None] | None = None  # called once, instead of waking a caller
    _wakes: asyncio.Future[None] | None = None  # made if its caller waits

    @property
    def size(self) -> int:
        """The bytes of its reports."""
        return self.reports.size

    @property
    def is_awaited(self) -> bool:
        """Whether its caller waits for it, and was not cancelled."""
        return self.then is not None or (self._wakes is not None and not self._wakes.done())

    @property
    def is_done(self) -> bool:
        """Whether it was written or has failed."""
        return self.outcomes is not None or self.failure is not None

    @property
    def is_stored(self) -> bool:
        """Whether it was written, with nothing refused."""
        return self.failure is None and self.outcomes == [None] * len(self.reports)

    async def wait(self) -> None:
        """Wait until it was written or has failed."""
        if not self.is_done:
            self._wakes = asyncio.get_running_loop().create_future()
            await self._wakes

    def wake(self) -> None:
        """Wake its caller, if it waits."""
        then, self.then = self.then, None
        if then is not None:
            try:
                then()
            except Exception as error:  # of one connection: the others of the group are told, too
                log.exception("upload not answered", exc_info=error)
        if self._wakes is not None and not self._wakes.done():
            self._wakes.set_result(None)

    def outcome(self) -> list[ReportError | None]:
        """Return the outcomes of its reports, or raise why it failed."""
        if self.failure is not None:
            raise self.failure
        return self.outcomes or []


def why_over(tx: Transaction, terms: UploadTerms) -> Over | None:
    """Return why a task takes no new report, or None if it does.

    An operator has ended it, or all that it may release is released. While a release is under way
    it is not: it may fail.
    """
    if terms.is_ended:
        return Over(ReportError.REPORT_DROPPED, ReportError.REPORT_DROPPED.draft_name)
    most, why = terms.most_releases, ReportError.TASK_EXPIRED
    if most is not None and is_used_up(tx, terms.task.task_id.value, most):
        return Over(terms.task.profile.at_upload.get(why, why), RELEASES_USED_UP)
    return None


def put_group(tx: Transaction, group: list[Upload]) -> None:
    """Store a group, except uploads checked against outdated settings, which are checked again."""
    version = settings_version(tx)
    for upload in group:
        upload.failure = None  # set by an earlier attempt of this transaction
        if upload.version not in (None, version):
            upload.failure = SettingsChanged("tasks or keys have changed")
    group = [upload for upload in group if upload.failure is None]
    of_task: dict[bytes, list[Upload]] = {}
    for upload in group:
        of_task.setdefault(upload.task.task_id.value, []).append(upload)
    # Sorted: other processes write groups too, and all must take their tasks' locks in one order.
    # The tasks of a domain of permits come together, since theirs are spent together.
    units: dict[tuple[bytes, bool], list[_OfTask]] = {}
    for uploads in sorted(of_task.values(), key=lambda each: lock_order(each[0].task)):
        unit, has_permits, _ = lock_order(uploads[0].task)
        units.setdefault((unit, has_permits), []).append(_OfTask(uploads))
    for (_, has_permits), tasks in units.items():
        if has_permits:
            _put_permitted(tx, tasks)
        else:
            _put_plain(tx, tasks[0])


@dataclasses.dataclass(slots=True)
class _OfTask:
    """The uploads of one task in a group."""

    uploads: list[Upload]
    reports: IncomingReports = dataclasses.field(init=False)
    first_day: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.reports = IncomingReports.joined([upload.reports for upload in self.uploads])
        self.first_day = min(upload.first_day for upload in self.uploads)

    @property
    def task(self) -> Task:
        """The task."""
        return self.uploads[0].task

    def count_refused(self, tx: Transaction) -> None:
        """Count the reports that were refused before the transaction."""
        refused = Counter[str]()
        for upload in self.uploads:
            if upload.refused:
                refused.update(upload.refused)
        count_reports(tx, self.task.task_id.value, Stage.UPLOAD, refused)

    def end(self, outcomes: Sequence[ReportError | None]) -> None:
        """Tell each upload the outcomes of its reports."""
        rest = iter(outcomes)
        for upload in self.uploads:
            upload.outcomes = list(itertools.islice(rest, len(upload.reports)))

    def fail(self) -> None:
        """Tell the uploads that the task was forgotten since they came; others are stored."""
        for upload in self.uploads:
            upload.outcomes = []
            upload.failure = UnrecognizedTask("no such task here", self.task.task_id)


def _put_plain(tx: Transaction, of_task: _OfTask) -> None:
    """Store the reports of a task without permits."""
    task = of_task.task
    try:
        outcomes = put_reports(
            tx,
            task.task_id.value,
            of_task.reports,
            task.max_reports,
            task.smallest_batch,
            of_task.first_day,
            past_before(task, tx.now),
            why_over(tx, of_task.uploads[0].terms),
            of_task.uploads[0].terms.others,
            [hashlib.sha256(each.body).digest() for each in of_task.reports]
            if task.batching.collector_selects
            else None,
        )
        of_task.count_refused(tx)
    except UnknownTask:
        of_task.fail()
    else:
        of_task.end(outcomes)


def _put_permitted(tx: Transaction, tasks: Sequence[_OfTask]) -> None:
    """Store the reports of tasks with one domain of permits, which are spent at once."""
    begun: list[tuple[_OfTask, Arriving]] = []
    presented: list[Presented] = []
    for each in tasks:
        task, task_id = each.task, each.task.task_id.value
        try:
            arriving = begin_to_put(
                tx,
                task_id,
                each.reports,
                task.max_reports,
                task.smallest_batch,
                past_before(task, tx.now),
                why_over(tx, each.uploads[0].terms),
                each.uploads[0].terms.others,
            )
        except UnknownTask:
            each.fail()
            continue
        head = report_sizes(task).head
        marks = [mark_of(task_id, begins) for begins in each.reports.heads(head)]
        begun.append((each, arriving))
        presented.append(
            Presented(
                arriving.arrivals,
                marks,
                task.permit_window,
                arriving.closed,
                arriving.room,
                is_signed=task.issuer_keys is not None,
            )
        )
    permits = tasks[0].task.permits
    if permits is None or not begun:
        return
    admitted = spend(tx, permits, presented)
    for (each, arriving), errors in zip(begun, admitted, strict=True):
        each.end(arriving.put(tx, errors))
        each.count_refused(tx)
