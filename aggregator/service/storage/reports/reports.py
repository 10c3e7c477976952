"""The Leader's reports: stored as they came, claimed by one aggregation job, dropped at its end.

A report's id stays for ever in a narrow table, which is the duplicate check; its row in `reports`
leaves when its job ends, and its body with those of many others (`bodies`). So every id has
either a row that is still to be counted, or a place in a counter that says what became of it.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    ScalarSelect,
    Select,
    Table,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import closed_to_uploads, is_closed
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import BodyGone, Conflict, Insert
from aggregator.service.storage.engine.database import Transaction
from aggregator.service.storage.reports.bodies import bodies_of, current_generation, put_bodies
from aggregator.service.storage.reports.counters import (
    PAST_UNITS,
    STORED,
    Stage,
    count_reports,
    reason,
)
from aggregator.service.storage.reports.ids import Room, admit
from aggregator.service.storage.reports.past_units import not_opened
from aggregator.service.storage.reports.room import room_to_add
from aggregator.service.storage.reports.waiting import count_left, count_waiting


@dataclasses.dataclass(frozen=True, slots=True)
class StoredReport:
    """An uploaded report: its 16-byte id, the key of its bucket and the encoded Report."""

    report_id: bytes
    bucket: bytes
    body: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class JobSize:
    """How much goes into an aggregation job; a report alone always does.

    Attributes:
        reports: The most reports.
        stored_bytes: The most bytes of their bodies together.
    """

    reports: int
    stored_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Claimable:
    """How many reports a job could be made of now, and whether it would be full."""

    reports: int
    is_full: bool


def put_reports(
    tx: Transaction,
    task_id: bytes,
    reports: Sequence[StoredReport],
    max_reports: int,
    smallest_batch: Callable[[bytes], Batch] = lambda bucket: Batch(bucket, bucket),
    first_day: int | None = None,
    past_before: bytes = b"",
) -> list[ReportError | None]:
    """Store the reports whose ids are new and whose batches take them; count all by outcome.

    A report that is stored is never lost: it is aggregated, or rejected with a counted reason. One
    that was stored before is a replay even when its batch is closed by now.

    Args:
        tx: The transaction.
        task_id: The task.
        reports: The reports.
        max_reports: The most reports of a batch, stored and aggregated together.
        smallest_batch: Gives the smallest batch that a bucket can be collected in: that must not
            have more.
        first_day: As of `admit`.
        past_before: The first bucket that is not of the past (`past_units`).

    Returns:
        Why each report was refused, or None, in order. Of two reports with the same id in
        `reports`, the first is new.

    Raises:
        IdsForgotten: See `admit`.
    """
    if not reports:
        return []
    batches = {bucket: smallest_batch(bucket) for bucket in {each.bucket for each in reports}}
    locks.keep_batches(tx, task_id)
    key = tx.task_key(task_id)
    room = room_to_add(tx, task_id, batches, max_reports, len(reports), beside_waiting=True)
    unopened = not_opened(tx, key, batches, past_before)
    room |= dict.fromkeys(unopened, Room(0))
    closed = closed_to_uploads(tx, task_id, Batch.spanning(batches))
    arrivals = [(report.report_id, report.bucket) for report in reports]
    errors = admit(tx, tables.report_ids, task_id, arrivals, closed, room, first_day)
    stored = [report for report, error in zip(reports, errors, strict=True) if error is None]
    if stored:
        _put_new(tx, key, stored)
    reasons = Counter(
        STORED
        if error is None
        else PAST_UNITS
        if error is ReportError.REPORT_DROPPED and report.bucket in unopened
        else reason(error)
        for report, error in zip(reports, errors, strict=True)
    )
    count_reports(tx, task_id, Stage.UPLOAD, reasons)
    return errors


def _put_new(tx: Transaction, task: int, reports: Sequence[StoredReport]) -> None:
    """Store one or more reports whose ids are new, with their bodies, and count that they wait."""
    generation = current_generation(tx)
    rows = [
        {
            "task": task,
            "report_id": each.report_id,
            "bucket": each.bucket,
            "received_at": tx.now,
            "bytes": len(each.body),
            "generation": generation,
        }
        for each in reports
    ]
    keys = {row.report_id: row.id for row in tx.insert_many(tx.prepared(_making), rows)}
    put_bodies(tx, generation, {keys[each.report_id]: each.body for each in reports})
    count_waiting(tx, task, Counter(each.bucket for each in reports))


def _making(insert: Callable[[Table], Insert]) -> ReturningInsert[Any]:
    return insert(tables.reports).returning(tables.reports.c.report_id, tables.reports.c.id)


def tasks_with_unclaimed_reports(tx: Transaction) -> list[bytes]:
    """Return the ids of all tasks with reports that wait for an aggregation job.

    One look into an index per task, whatever it holds.
    """
    report, task = tables.reports.c, tables.tasks.c
    waiting = select(report.id).where(report.task == task.id, report.job.is_(None), _is_due(tx))
    query = select(task.task_id).where(waiting.exists()).order_by(task.id)
    return list(tx.connection.execute(query).scalars())


def has_reports(tx: Transaction, task_id: bytes) -> bool:
    """Return whether a report of the task is not aggregated yet."""
    report = tables.reports.c
    query = select(report.id).where(report.task == tx.task_key(task_id)).limit(1)
    return tx.connection.execute(query).scalar() is not None


def received_between(tx: Transaction, since: int, until: int) -> bool:
    """Return whether a report that is not aggregated yet was stored in [since, until), seconds."""
    report = tables.reports.c
    query = select(report.id).where(report.received_at >= since, report.received_at < until)
    return tx.connection.execute(query.limit(1)).scalar() is not None


def claimable_reports(tx: Transaction, task_id: bytes, size: JobSize) -> Claimable:
    """Return what `claim_reports` would claim."""
    waiting, chosen = (
        tx.connection.execute(select(func.count()).select_from(rows.subquery())).scalar_one()
        for rows in (_waiting(tx, task_id, size), _claimable(tx, task_id, size))
    )
    return Claimable(chosen, is_full=chosen == size.reports or chosen < waiting)


def claim_reports(
    tx: Transaction, task_id: bytes, job: int, size: JobSize, bucket: bytes = b""
) -> None:
    """Claim unclaimed reports, first bucket first, for the job with key `job`.

    A report whose bucket is closed is never claimed, and a postponed one not yet.

    Args:
        tx: The transaction.
        task_id: The task.
        job: The job's key.
        size: The most to claim.
        bucket: The bucket that they fall in with the job; empty if each has one already.
    """
    chosen = _claimable(tx, task_id, size)
    values = {"job": job, "bucket": bucket} if bucket else {"job": job}
    claimed = tx.connection.execute(
        update(tables.reports).where(tables.reports.c.id.in_(chosen)).values(values)
    ).rowcount
    if bucket and claimed:
        count_waiting(tx, tx.task_key(task_id), {b"": -claimed, bucket: claimed})


def _claimable(tx: Transaction, task_id: bytes, size: JobSize) -> Select[tuple[int]]:
    """Select the first waiting reports that fit into a job; one always fits."""
    waiting = _waiting(tx, task_id, size).subquery().c
    up_to = func.sum(waiting.bytes).over(order_by=(waiting.bucket, waiting.id))
    rows = select(waiting.id, waiting.bytes, up_to.label("up_to")).subquery().c
    return select(rows.id).where(
        or_(rows.up_to <= size.stored_bytes, rows.up_to == rows.bytes)  # the latter: the first
    )


def _waiting(tx: Transaction, task_id: bytes, size: JobSize) -> Select[tuple[int, bytes, int]]:
    """Select the first `size.reports` reports that may be claimed, with their bodies' sizes."""
    report = tables.reports.c
    return (
        select(report.id, report.bucket, report.bytes)
        .where(
            report.task == tx.task_key(task_id),
            report.job.is_(None),
            _is_due(tx),
            ~is_closed(report),
        )
        # PostgreSQL reads an index in its order only if columns that are null are named here too.
        .order_by(report.job, report.bucket, report.id)
        .limit(size.reports)
    )


def reports_of_job(tx: Transaction, job: int) -> list[StoredReport]:
    """Return the reports of the job with key `job` that were not rejected, in their fixed order.

    Raises:
        BodyGone: They were dropped since this snapshot, or their bodies moved.
    """
    report = tables.reports.c
    of_job = (report.task == _task_of(job), report.job == job)
    query = select(report.id, report.generation, report.report_id, report.bucket)
    rows = tx.connection.execute(query.where(*of_job).order_by(report.id)).all()
    bodies = bodies_of(tx, {row.generation for row in rows}, of_job)
    if any(row.id not in bodies for row in rows):
        raise BodyGone("the body of a report has been dropped or moved since")
    return [StoredReport(row.report_id, row.bucket, bodies[row.id]) for row in rows]


def report_ids_of_job(tx: Transaction, job: int) -> set[bytes]:
    """Return the ids of the reports of the job with key `job`."""
    report = tables.reports.c
    query = select(report.report_id).where(report.task == _task_of(job), report.job == job)
    return set(tx.connection.execute(query).scalars())


def return_reports(tx: Transaction, job: int) -> int:
    """Take the job's reports out of it, free for another job at once; return how many."""
    report = tables.reports.c
    statement = update(tables.reports).where(report.task == _task_of(job), report.job == job)
    values: dict[str, object] = {"job": None, "waits_until": None}
    bucket = _bucket_of(tx, job)
    returned = tx.connection.execute(
        statement.values(values | ({"bucket": b""} if bucket else {}))
    ).rowcount
    _leave_bucket(tx, job, bucket, returned)
    return returned


def postpone_reports(
    tx: Transaction, job: int, report_ids: Collection[bytes], seconds: int
) -> None:
    """Take some of the job's reports out of it; no job claims them for `seconds`.

    Reports that have waited long wait a quarter as long again, so that a clock that is never set
    right does not make jobs without end.

    Raises:
        Conflict: One of them is not in the job.
    """
    rows = _rows_in_job(tx, job, report_ids)
    if not rows:
        return
    quarter = (tx.now - tables.reports.c.received_at) // 4
    longer = case((quarter > seconds, quarter), else_=seconds)
    values: dict[str, object] = {"job": None, "waits_until": tx.now + longer}
    bucket = _bucket_of(tx, job)
    tx.connection.execute(
        update(tables.reports)
        .where(tables.reports.c.id == bindparam("key"))
        .values(values | ({"bucket": b""} if bucket else {})),
        [{"key": row.id} for row in rows],
    )
    _leave_bucket(tx, job, bucket, len(rows))


def _bucket_of(tx: Transaction, job: int) -> bytes | None:
    """Return the bucket into which the job put its reports; None if each has one of its own."""
    jobs = tables.aggregation_jobs.c
    bucket: bytes | None = tx.connection.execute(
        select(jobs.bucket).where(jobs.id == job)
    ).scalar_one()
    return bucket


def _leave_bucket(tx: Transaction, job: int, bucket: bytes | None, reports: int) -> None:
    """Count reports that have left the job, and with it the bucket that it put them into."""
    if not bucket or not reports:
        return
    jobs = tables.aggregation_jobs.c
    task = tx.connection.execute(select(jobs.task).where(jobs.id == job)).scalar_one()
    count_waiting(tx, task, {bucket: -reports, b"": reports})


def drop_reports(tx: Transaction, task_id: bytes, job: int) -> int:
    """Drop the job's reports; return how many there were."""
    task, report = tx.task_key(task_id), tables.reports.c
    of_job = (report.task == task, report.job == job)
    leaving = select(report.bucket, func.count()).where(*of_job).group_by(report.bucket)
    count_left(tx, task, dict(tx.connection.execute(leaving).all()))
    return tx.connection.execute(delete(tables.reports).where(*of_job)).rowcount


def reject_waiting(tx: Transaction, task_id: bytes, batch: Batch, why: str) -> int:
    """Drop the batch's reports that are in no job, count them; return how many.

    Reports in jobs are rejected when these end, for their batch is closed.
    """
    task, report = tx.task_key(task_id), tables.reports.c
    waiting = (
        report.task == task,
        report.job.is_(None),
        report.bucket.between(batch.first, batch.last),
    )
    query = select(report.bucket, func.count()).where(*waiting).group_by(report.bucket)
    count_left(tx, task, dict(tx.connection.execute(query).all()))
    rejected = tx.connection.execute(delete(tables.reports).where(*waiting)).rowcount
    if rejected:
        count_reports(tx, task_id, Stage.AGGREGATION, {why: rejected})
    return rejected


def reject_reports(
    tx: Transaction, task_id: bytes, job: int, rejected: Mapping[bytes, str]
) -> None:
    """Drop rejected reports of the job, and count them by their reasons.

    Raises:
        Conflict: One of them is not in the job.
    """
    rows = _rows_in_job(tx, job, rejected)
    if not rows:
        return
    count_left(tx, tx.task_key(task_id), Counter(row.bucket for row in rows))
    tx.connection.execute(
        delete(tables.reports).where(tables.reports.c.id == bindparam("key")),
        [{"key": row.id} for row in rows],
    )
    count_reports(tx, task_id, Stage.AGGREGATION, Counter(rejected.values()))


def _rows_in_job(
    tx: Transaction, job: int, report_ids: Collection[bytes]
) -> list[Row[bytes, int, bytes]]:
    """Return the keys and buckets of some of the job's reports."""
    if not report_ids:
        return []
    report = tables.reports.c
    of_job = (report.task == _task_of(job), report.job == job)
    query = select(report.report_id, report.id, report.bucket).where(*of_job)
    rows = {row.report_id: row for row in tx.connection.execute(query)}
    if not rows.keys() >= set(report_ids):
        raise tx.refuse(Conflict("a report that was named is not in the aggregation job"))
    return [rows[report_id] for report_id in report_ids]


def _is_due(tx: Transaction) -> ColumnElement[bool]:
    waits_until = tables.reports.c.waits_until
    return waits_until.is_(None) | (waits_until <= tx.now)


def _task_of(job: int) -> ScalarSelect[int]:
    # Every index starts with the task, so we find a job's reports through the job's task.
    jobs = tables.aggregation_jobs.c
    return select(jobs.task).where(jobs.id == job).scalar_subquery()
