"""The Leader's reports: stored as they came, claimed by one aggregation job, dropped at its end.

A report's id stays for ever in a narrow table, which is the duplicate check; its body is deleted
when its job ends. So every id has either a body that is still to be counted, or a place in a
counter that says what became of it.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.protocol.replay import refusal
from aggregator.storage import tables
from aggregator.storage.batches import closed_batches
from aggregator.storage.counters import STORED, Stage, count_reports
from aggregator.storage.database import Transaction
from aggregator.storage.engine import Conflict
from aggregator.storage.report_ids import record_ids


@dataclasses.dataclass(frozen=True, slots=True)
class StoredReport:
    """An uploaded report: its 16-byte id, the key of its bucket and the encoded Report."""

    report_id: bytes
    bucket: bytes
    body: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class PendingReports:
    """How many stored reports of a batch are unclaimed, and how many are in a job."""

    unclaimed: int
    claimed: int


def put_reports(
    tx: Transaction, task_id: bytes, reports: Sequence[StoredReport]
) -> list[ReportError | None]:
    """Store the reports whose ids are new and whose batches are open; count all by outcome.

    A report that is stored is never lost: it is aggregated, or rejected with a counted reason. One
    that was stored before is a replay even when its batch is closed by now.

    Returns:
        Why each report was refused, or None, in order. Of two reports with the same id in
        `reports`, the first is new.
    """
    if not reports:
        return []
    key = tx.task_key(task_id)
    closed = closed_batches(tx, task_id, Batch.spanning([report.bucket for report in reports]))
    arrivals = [(report.report_id, report.bucket in closed) for report in reports]
    seen = record_ids(tx, tables.report_ids, task_id, arrivals)
    errors = [
        refusal(is_seen=is_seen, is_closed=is_closed)
        for is_seen, (_, is_closed) in zip(seen, arrivals, strict=True)
    ]
    rows = [
        {
            "task": key,
            "report_id": report.report_id,
            "bucket": report.bucket,
            "received_at": tx.now,
            "body": report.body,
        }
        for report, error in zip(reports, errors, strict=True)
        if error is None
    ]
    if rows:
        tx.connection.execute(insert(tables.reports), rows)
    reasons = Counter(STORED if error is None else error.draft_name for error in errors)
    count_reports(tx, task_id, Stage.UPLOAD, reasons)
    return errors


def pending_reports(tx: Transaction, task_id: bytes, batch: Batch) -> PendingReports:
    """Return how many stored reports of the batch are not aggregated yet."""
    report = tables.reports.c
    in_batch = (
        report.task == tx.task_key(task_id),
        report.bucket.between(batch.first, batch.last),
    )
    count = select(func.count()).select_from(tables.reports).where(*in_batch)
    return PendingReports(
        unclaimed=tx.connection.execute(count.where(report.job.is_(None))).scalar_one(),
        claimed=tx.connection.execute(count.where(report.job.is_not(None))).scalar_one(),
    )


def unclaimed_reports(tx: Transaction, task_id: bytes) -> int:
    """Return how many reports of the task wait for an aggregation job that may be made now."""
    report = tables.reports.c
    query = select(func.count()).where(
        report.task == tx.task_key(task_id), report.job.is_(None), _is_due(tx)
    )
    return tx.connection.execute(query).scalar_one()


def claimable_reports(tx: Transaction, task_id: bytes, limit: int) -> int:
    """Return how many reports `claim_reports` would claim."""
    chosen = _claimable(tx, task_id, limit).subquery()
    count: int = tx.connection.execute(select(func.count()).select_from(chosen)).scalar_one()
    return count


def claim_reports(tx: Transaction, task_id: bytes, job: int, limit: int) -> None:
    """Claim at most `limit` unclaimed reports, first bucket first, for the job with key `job`.

    A report whose bucket is closed is never claimed, and a postponed one not yet.
    """
    chosen = _claimable(tx, task_id, limit)
    tx.connection.execute(
        update(tables.reports).where(tables.reports.c.id.in_(chosen)).values(job=job)
    )


def _claimable(tx: Transaction, task_id: bytes, limit: int) -> Select[tuple[int]]:
    report, closed = tables.reports.c, tables.closed_batches.c
    covering = select(closed.id).where(
        closed.task == report.task,
        report.bucket.between(closed.first_bucket, closed.last_bucket),
    )
    return (
        select(report.id)
        .where(
            report.task == tx.task_key(task_id),
            report.job.is_(None),
            _is_due(tx),
            ~covering.exists(),
        )
        .order_by(report.bucket)
        .limit(limit)
    )


def reports_of_job(tx: Transaction, job: int) -> list[StoredReport]:
    """Return the reports of the job with key `job` that were not rejected, in their fixed order."""
    report = tables.reports.c
    query = (
        select(report.report_id, report.bucket, report.body)
        .where(report.task == _task_of(job), report.job == job)
        .order_by(report.id)
    )
    return [StoredReport(*row) for row in tx.connection.execute(query)]


def report_ids_of_job(tx: Transaction, job: int) -> set[bytes]:
    """Return the ids of the reports of the job with key `job`."""
    report = tables.reports.c
    query = select(report.report_id).where(report.task == _task_of(job), report.job == job)
    return set(tx.connection.execute(query).scalars())


def return_reports(tx: Transaction, job: int) -> int:
    """Take the job's reports out of it, free for another job at once; return how many."""
    report = tables.reports.c
    statement = update(tables.reports).where(report.task == _task_of(job), report.job == job)
    return tx.connection.execute(statement.values(job=None, waits_until=None)).rowcount


def postpone_reports(
    tx: Transaction, job: int, report_ids: Collection[bytes], seconds: int
) -> None:
    """Take some of the job's reports out of it; no job claims them for `seconds`.

    Reports that have waited long wait a quarter as long again, so that a clock that is never set
    right does not make jobs without end.

    Raises:
        Conflict: One of them is not in the job.
    """
    keys = _keys_in_job(tx, job, report_ids)
    quarter = (tx.now - tables.reports.c.received_at) // 4
    longer = case((quarter > seconds, quarter), else_=seconds)
    if keys:
        tx.connection.execute(
            update(tables.reports)
            .where(tables.reports.c.id == bindparam("key"))
            .values(job=None, waits_until=tx.now + longer),
            [{"key": key} for key in keys],
        )


def drop_reports(tx: Transaction, job: int) -> int:
    """Delete the bodies of the job's reports; return how many there were."""
    report = tables.reports.c
    statement = delete(tables.reports).where(report.task == _task_of(job), report.job == job)
    return tx.connection.execute(statement).rowcount


def reject_reports(
    tx: Transaction, task_id: bytes, job: int, rejected: Mapping[bytes, str]
) -> None:
    """Delete the bodies of rejected reports of the job, and count them by their reasons.

    Raises:
        Conflict: One of them is not in the job.
    """
    keys = _keys_in_job(tx, job, rejected)
    if not keys:
        return
    tx.connection.execute(
        delete(tables.reports).where(tables.reports.c.id == bindparam("key")),
        [{"key": key} for key in keys],
    )
    count_reports(tx, task_id, Stage.AGGREGATION, Counter(rejected.values()))


def _keys_in_job(tx: Transaction, job: int, report_ids: Collection[bytes]) -> list[int]:
    """Return the keys of some of the job's reports."""
    if not report_ids:
        return []
    report = tables.reports.c
    of_job = (report.task == _task_of(job), report.job == job)
    keys = dict(tx.connection.execute(select(report.report_id, report.id).where(*of_job)).all())
    if not keys.keys() >= set(report_ids):
        raise tx.refuse(Conflict("a report that was named is not in the aggregation job"))
    return [keys[report_id] for report_id in report_ids]


def _is_due(tx: Transaction) -> ColumnElement[bool]:
    waits_until = tables.reports.c.waits_until
    return waits_until.is_(None) | (waits_until <= tx.now)


def _task_of(job: int) -> ScalarSelect[int]:
    # Every index starts with the task, so we find a job's reports through the job's task.
    jobs = tables.aggregation_jobs.c
    return select(jobs.task).where(jobs.id == job).scalar_subquery()
