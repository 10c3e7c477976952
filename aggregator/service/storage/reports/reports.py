"""The Leader's reports: stored as they came, claimed by one aggregation job, dropped at its end.

A report's id stays in a narrow table, which is the duplicate check and all that the Leader keeps of
the report, until it is so old that a replay would be refused for its age (`id_memory`). Its group
(`groups`) leaves when its job ends, and the group's body with those of many others (`bodies`). So
every report either is live in a group and still to be counted, or was counted by what became of it.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

from sqlalchemy import bindparam, select

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import ClosedToUploads, closed_to_uploads
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.states import BatchState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.bound import bind
from aggregator.service.storage.reports.capacity import ALONE, full_of_others, room_to_add
from aggregator.service.storage.reports.claims import is_due
from aggregator.service.storage.reports.counters import (
    BEING_COLLECTED,
    PAST_UNITS,
    STORED,
    Stage,
    count_reports,
    counted_reason,
)
from aggregator.service.storage.reports.groups import StoredReport, put_groups
from aggregator.service.storage.reports.ids import Room, admit, let_in
from aggregator.service.storage.reports.incoming import IncomingReports
from aggregator.service.storage.reports.past_units import not_opened
from aggregator.service.storage.reports.rejected import rejected_before, take_again
from aggregator.service.storage.reports.waiting import count_waiting

_GROUP = tables.report_groups.c


@dataclasses.dataclass(frozen=True, slots=True)
class Over:
    """Why a task takes no new report: what clients are told, and under what it is counted."""

    error: ReportError
    reason: str


def put_reports(
    tx: Transaction,
    task_id: bytes,
    reports: Sequence[StoredReport],
    max_reports: int,
    smallest_batch: Callable[[bytes], Batch] = lambda bucket: Batch(bucket, bucket),
    first_day: int | None = None,
    past_before: bytes = b"",
    over: Over | None = None,
    others: Mapping[bytes, int | None] = ALONE,
    digests: Sequence[bytes] | None = None,
) -> list[ReportError | None]:
    """Store the reports whose ids are new and whose batches take them; count all by outcome.

    A stored report is never lost: it is aggregated, or rejected with a counted reason. A report
    that was stored before is a replay even if its batch is closed by now, unless it does not count:
    then the answer is why, or it is stored once more (`rejected`). While a batch is being collected
    nobody knows whether it will take another report, and the client is told to come again.

    Args:
        tx: The transaction.
        task_id: The task.
        reports: The reports.
        max_reports: The most reports of a batch, stored and aggregated together.
        smallest_batch: Returns the smallest batch in which a bucket can be collected; `max_reports`
            applies to that batch.
        first_day: See `admit`.
        past_before: The first bucket that is not of the past (`past_units`).
        over: Why the task takes no new report, whatever its batch; None if it does.
        others: The other tasks of the same answers (`closed_to_uploads`), each with its
            `max_reports` if everybody reports to it, or None: what it has no room for is refused.
        digests: A hash of each report's bytes if ids are bound to batches (`bound`), else None.

    Returns:
        Why each report was refused, or None, in order. Of two reports with the same id in
        `reports`, the first is new. Where ids are bound to batches, `report_replayed` is said only
        of those that another batch has or that had other bytes, and None of repetitions.

    Raises:
        IdsForgotten: See `admit`.
    """
    if not reports:
        return []
    arriving = begin_to_put(
        tx, task_id, reports, max_reports, smallest_batch, past_before, over, others
    )
    days, closed, room = arriving.reports.days, arriving.closed, arriving.room
    arrivals = arriving.arrivals
    admitted = admit(tx, tables.report_ids, task_id, arrivals, days, closed, room, first_day)
    if digests is None:
        return arriving.put(tx, admitted)
    bound, elsewhere = bind(tx, task_id, arrivals, days, digests, admitted, closed, room)
    return [
        None if error is ReportError.REPORT_REPLAYED and place not in elsewhere else error
        for place, error in enumerate(arriving.put(tx, bound, elsewhere))
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class Arriving:
    """Reports of one task that are to be stored, and which of them their batches take.

    Attributes:
        reports: The reports.
        closed: The buckets that take no more reports.
        room: What is left for a bucket, for those with a limit.
    """

    reports: IncomingReports
    closed: ClosedToUploads
    room: Mapping[bytes, Room]
    _task_id: bytes
    _unopened: Container[bytes]
    _over: Over | None

    @property
    def arrivals(self) -> list[tuple[bytes, bytes]]:
        """Each report's id, and the key of its bucket."""
        return [*zip(self.reports.ids, self.reports.buckets, strict=True)]

    def put(
        self,
        tx: Transaction,
        admitted: Sequence[ReportError | None],
        elsewhere: Container[int] | None = None,
    ) -> list[ReportError | None]:
        """Store the reports that are admitted, and count all; see `put_reports`.

        `elsewhere` is given where ids are bound to batches: the places of replays that were never
        stored in this one. There a closed batch never reopens.
        """
        reports, over, key = self.reports, self._over, tx.task_key(self._task_id)
        errors = [*admitted]
        if ReportError.REPORT_REPLAYED in admitted:
            errors = _seen_again(
                tx, key, reports, admitted, self.closed, self.room, elsewhere or ()
            )
        if over is not None:
            errors = [over.error if each is ReportError.REPORT_DROPPED else each for each in errors]
        if elsewhere is None and ReportError.BATCH_COLLECTED in errors:
            errors = [
                ReportError.REPORT_TOO_EARLY
                if error is ReportError.BATCH_COLLECTED
                and self.closed.state(bucket) is BatchState.FROZEN
                else error
                for bucket, error in zip(reports.buckets, errors, strict=True)
            ]
        refused: Collection[int] = ()
        if errors.count(None) < len(errors):
            refused = {place for place, error in enumerate(errors) if error is not None}
        groups = [*reports.packed(refused)]
        if groups:
            put_groups(tx, key, groups)
            waiting: Counter[bytes] = Counter()
            for group in groups:
                waiting[group.bucket] += group.size
            count_waiting(tx, key, waiting)
        reasons = self._reasons(admitted, errors, refused)
        if groups:
            reasons[STORED] = len(errors) - len(refused)
        count_reports(tx, self._task_id, Stage.UPLOAD, reasons)
        return errors

    def _reasons(
        self,
        admitted: Sequence[ReportError | None],
        errors: Sequence[ReportError | None],
        refused: Iterable[int],
    ) -> Counter[str]:
        """Return under which reasons the refused reports are counted, by their places."""
        reasons: Counter[str] = Counter()
        for place in refused:
            first = admitted[place]
            if errors[place] is ReportError.REPORT_TOO_EARLY:
                reasons[BEING_COLLECTED] += 1
            elif first is not None:  # nothing is refused that was admitted
                is_past = self.reports.buckets[place] in self._unopened
                reasons[_reason(first, self._over, is_past=is_past)] += 1
        return reasons


def begin_to_put(
    tx: Transaction,
    task_id: bytes,
    reports: Sequence[StoredReport],
    max_reports: int,
    smallest_batch: Callable[[bytes], Batch],
    past_before: bytes,
    over: Over | None,
    others: Mapping[bytes, int | None],
) -> Arriving:
    """Look which reports their batches take; takes what `put_reports` does."""
    incoming = IncomingReports.of(reports)
    batches = {bucket: smallest_batch(bucket) for bucket in {*incoming.buckets}}
    locks.keep_batches(tx, task_id)
    key = tx.task_key(task_id)
    room = room_to_add(tx, task_id, batches, max_reports, len(reports), beside_waiting=True)
    unopened = not_opened(tx, key, batches, past_before)
    room |= dict.fromkeys(unopened if over is None else batches, Room(0))
    room |= dict.fromkeys(full_of_others(tx, batches, others), Room(0))
    closed = closed_to_uploads(tx, task_id, batches, others)
    return Arriving(incoming, closed, room, task_id, unopened, over)


def _reason(error: ReportError, over: Over | None, *, is_past: bool) -> str:
    """Return the reason under which a report that does not count is counted."""
    if error is not ReportError.REPORT_DROPPED:
        return counted_reason(error)
    if over is not None:
        return over.reason
    return PAST_UNITS if is_past else counted_reason(error)


def _seen_again(
    tx: Transaction,
    task: int,
    reports: IncomingReports,
    errors: Sequence[ReportError | None],
    closed: Container[bytes],
    room: Mapping[bytes, Room],
    elsewhere: Container[int],
) -> list[ReportError | None]:
    """Say of replays that do not count that they are dropped, or None of those that are free."""
    told = [*errors]
    replays = [
        place
        for place, error in enumerate(errors)
        if error is ReportError.REPORT_REPLAYED and place not in elsewhere
    ]
    known = rejected_before(tx, task, [reports.ids[place] for place in replays])
    # In one order, or two transactions that free the same ids would wait for each other.
    for place in sorted(replays, key=lambda place: reports.ids[place]):
        report_id = reports.ids[place]
        if report_id not in known:
            continue
        told[place] = ReportError.REPORT_DROPPED
        if known[report_id] is None:
            continue
        # Only a full batch is counted report by report (`admit`); others have room for all.
        (refused,) = let_in([reports.buckets[place]], closed, room)
        if refused is not None:
            told[place] = refused
        elif take_again(tx, task, report_id, reports[place].body):
            del known[report_id]  # the next of this request is a replay
            told[place] = None
        elif not rejected_before(tx, task, [report_id]):
            told[place] = errors[place]  # another transaction has stored it since we looked
    return told


def tasks_with_unclaimed_reports(tx: Transaction) -> list[bytes]:
    """Return the ids of all tasks with reports that wait for an aggregation job.

    This takes one index lookup per task, however many reports it has.
    """
    return [task_id for (task_id,) in tx.run(_UNCLAIMED, {"now": tx.now})]


_UNCLAIMED = (
    select(tables.tasks.c.task_id)
    .where(
        select(_GROUP.id)
        .where(_GROUP.task == tables.tasks.c.id, _GROUP.job.is_(None), is_due(bindparam("now")))
        .exists()
    )
    .order_by(tables.tasks.c.id)
)


def has_reports(tx: Transaction, task_id: bytes) -> bool:
    """Return whether the task has reports that are not aggregated yet."""
    query = select(_GROUP.id).where(_GROUP.task == tx.task_key(task_id)).limit(1)
    return tx.connection.execute(query).scalar() is not None


def received_between(tx: Transaction, since: int, until: int) -> bool:
    """Return whether any report stored in [since, until), in seconds, is not aggregated yet."""
    query = select(_GROUP.id).where(_GROUP.received_at >= since, _GROUP.received_at < until)
    return tx.connection.execute(query.limit(1)).scalar() is not None
