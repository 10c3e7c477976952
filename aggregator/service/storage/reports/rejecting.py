"""How reports leave the store: with their job, rejected by it, or with an abandoned batch.

The ids of those that do not count are remembered (`rejected`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import closed_among
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.states import BatchState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.claims import given_up_in_job, groups_of_job, places_in_job
from aggregator.service.storage.reports.counters import (
    DROPPED,
    Stage,
    count_reports,
    counted_reason,
)
from aggregator.service.storage.reports.groups import (
    GROUPS,
    Group,
    as_groups,
    rows_of_groups,
    take_away,
)
from aggregator.service.storage.reports.rejected import remember_rejected
from aggregator.service.storage.reports.waiting import count_left

_GROUP = tables.report_groups.c


def drop_reports(tx: Transaction, task_id: bytes, job: int) -> int:
    """Drop the job's reports; return how many there were."""
    return _drop(tx, tx.task_key(task_id), _DROPPING, {"job": job})


def drop_uncounted(tx: Transaction, task_id: bytes, job: int) -> int:
    """Drop the job's reports, none of which counts; return how many there were."""
    task = tx.task_key(task_id)
    _remember(tx, task, groups_of_job(tx, job))
    return drop_reports(tx, task_id, job)


def reject_waiting(tx: Transaction, task_id: bytes, batch: Batch, why: str) -> int:
    """Drop the batch's reports that are in no job, and count them; return how many.

    Reports in jobs are rejected when their jobs end, since their batch is closed.
    """
    task = tx.task_key(task_id)
    place = {"first": batch.first, "last": batch.last}
    waiting = tx.connection.execute(_UNCLAIMED, {"task": task, **place})
    _remember(tx, task, as_groups(waiting))
    rejected = _drop(tx, task, _DROPPING_UNCLAIMED, place)
    if rejected:
        count_reports(tx, task_id, Stage.AGGREGATION, {why: rejected})
    return rejected


def _remember(tx: Transaction, task: int, groups: Iterable[Group]) -> None:
    """Remember the ids of the reports in some groups, with one body in memory at a time."""
    for group in groups:
        remember_rejected(tx, task, _ids_of(tx, group))


def _ids_of(tx: Transaction, group: Group) -> list[bytes]:
    """Return the ids of a group's live reports, as far as the database can tell."""
    row = rows_of_groups(tx, [group]).get(group.id)
    if row is None or not row.is_of(group.size, group.width):
        return []
    ids = row.ids(group.width)
    return [ids[place] for place in group.places]


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


def reject_twins(tx: Transaction, task_id: bytes, job: int) -> None:
    """Reject the reports of a job whose id an earlier one of it has.

    The helper would refuse a request that names an id twice, with all the others. The rejected ids
    are not remembered as such, since the first report with each may count.
    """
    seen: set[bytes] = set()
    gone: Counter[bytes] = Counter()
    groups = groups_of_job(tx, job)
    rows = rows_of_groups(tx, groups)
    for group in groups:
        row = rows.get(group.id)
        if row is None or not row.is_of(group.size, group.width):
            continue
        twins = []
        ids = row.ids(group.width)
        for place in group.places:
            if ids[place] in seen:
                twins.append(place)
            seen.add(ids[place])
        if twins:
            take_away(tx, group, twins)
            gone[group.bucket] += len(twins)
    count_left(tx, tx.task_key(task_id), gone)
    why = counted_reason(ReportError.REPORT_REPLAYED)
    count_reports(tx, task_id, Stage.AGGREGATION, {why: gone.total()})


def reject_given_up(tx: Transaction, task_id: bytes, job: int) -> None:
    """Drop and count the reports of a job that an operator has given up."""
    gone: Counter[bytes] = Counter()
    for group in given_up_in_job(tx, job):
        take_away(tx, group, group.places)
        gone[group.bucket] += group.reports
    if gone:
        count_left(tx, tx.task_key(task_id), gone)
        count_reports(tx, task_id, Stage.AGGREGATION, {DROPPED: gone.total()})


def _dropping(*conditions: ColumnElement[bool]) -> Any:  # noqa: ANN401  SQLAlchemy's own
    of_task = delete(tables.report_groups).where(_GROUP.task == bindparam("task"), *conditions)
    return of_task.returning(_GROUP.bucket, _GROUP.reports)


_DROPPING = _dropping(_GROUP.job == bindparam("job"))
_IN_BATCH = (
    _GROUP.job.is_(None),
    _GROUP.bucket.between(bindparam("first"), bindparam("last")),
)
_DROPPING_UNCLAIMED = _dropping(*_IN_BATCH)
_UNCLAIMED = (
    GROUPS.where(_GROUP.task == bindparam("task"), *_IN_BATCH).order_by(_GROUP.id).with_for_update()
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
    task = tx.task_key(task_id)
    remember_rejected(tx, task, rejected)
    gone: Counter[bytes] = Counter()
    for group, some in places_in_job(tx, job, rejected):
        take_away(tx, group, some)
        gone[group.bucket] += len(some)
    count_left(tx, task, gone)
    count_reports(tx, task_id, Stage.AGGREGATION, Counter(rejected.values()))
