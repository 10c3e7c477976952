"""How reports leave the store: with their job, rejected by it, or with an abandoned batch."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import closed_among
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.states import BatchState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.claims import damaged_in_job, places_in_job
from aggregator.service.storage.reports.counters import Stage, count_reports, counted_reason
from aggregator.service.storage.reports.groups import take_away
from aggregator.service.storage.reports.waiting import count_left

_GROUP = tables.report_groups.c


def drop_reports(tx: Transaction, task_id: bytes, job: int) -> int:
    """Drop the job's reports; return how many there were."""
    return _drop(tx, tx.task_key(task_id), _DROPPING, {"job": job})


def reject_waiting(tx: Transaction, task_id: bytes, batch: Batch, why: str) -> int:
    """Drop the batch's reports that are in no job, and count them; return how many.

    Reports in jobs are rejected when their jobs end, since their batch is closed.
    """
    place = {"first": batch.first, "last": batch.last}
    rejected = _drop(tx, tx.task_key(task_id), _DROPPING_UNCLAIMED, place)
    if rejected:
        count_reports(tx, task_id, Stage.AGGREGATION, {why: rejected})
    return rejected


def reject_late(tx: Transaction, task_id: bytes, buckets: Collection[bytes]) -> int:
    """Reject reports that a job has given back to collected buckets; return how many.

    Otherwise nothing would ever claim them. This happens if a store was restored while a job had
    reports of a batch that, unknown to the store, had been released. The transaction holds
    `locks.keep_batches`.
    """
    if not buckets:
        return 0
    closed = closed_among(tx, task_id, buckets)
    why = counted_reason(ReportError.BATCH_COLLECTED)
    return sum(
        reject_waiting(tx, task_id, Batch(bucket, bucket), why)
        for bucket in sorted(buckets)
        if closed.state(bucket) is BatchState.COLLECTED
    )


def reject_damaged(tx: Transaction, task_id: bytes, job: int) -> int:
    """Drop and count the job's reports whose bodies cannot be read; return how many."""
    gone: Counter[bytes] = Counter()
    for group in damaged_in_job(tx, job):
        take_away(tx, group, group.places)
        gone[group.bucket] += group.reports
    if gone:
        count_left(tx, tx.task_key(task_id), gone)
        why = ReportError.INVALID_MESSAGE.draft_name
        count_reports(tx, task_id, Stage.AGGREGATION, {why: gone.total()})
    return gone.total()


def _dropping(*conditions: ColumnElement[bool]) -> Any:  # noqa: ANN401  SQLAlchemy's own
    of_task = delete(tables.report_groups).where(_GROUP.task == bindparam("task"), *conditions)
    return of_task.returning(_GROUP.bucket, _GROUP.reports)


_DROPPING = _dropping(_GROUP.job == bindparam("job"))
_DROPPING_UNCLAIMED = _dropping(
    _GROUP.job.is_(None), _GROUP.bucket.between(bindparam("first"), bindparam("last"))
)


def _drop(tx: Transaction, task: int, dropping: Any, place: Mapping[str, object]) -> int:  # noqa: ANN401  as above
    gone: Counter[bytes] = Counter()
    for bucket, reports in tx.run(dropping, {"task": task, **place}):
        gone[bucket] += reports
    count_left(tx, task, gone)
    return gone.total()


def reject_reports(
    tx: Transaction, task_id: bytes, job: int, rejected: Mapping[bytes, str]
) -> None:
    """Drop rejected reports of the job, and count them by their reasons.

    Raises:
        Conflict: One of them is not in the job.
    """
    places = places_in_job(tx, job, rejected)
    gone: Counter[bytes] = Counter()
    for group, _, some in places:
        take_away(tx, group, some)
        gone[group.bucket] += len(some)
    count_left(tx, tx.task_key(task_id), gone)
    count_reports(tx, task_id, Stage.AGGREGATION, Counter(rejected.values()))
