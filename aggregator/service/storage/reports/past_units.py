"""Limits how many units of the past a task may have open: strangers could open any number.

The first report of a unit of time opens it, and until it is collected, an open unit takes some
15 kB at each aggregator, for a report of 6 kB. Clients upload about now, so only units that are
long over count against the limit: filling it up keeps no client of today from uploading. The helper
counts too, since its leader may be another program. Reports may have waited at the leader, so the
helper adds that time to the age from which a unit is of the past.
"""

from collections.abc import Iterable

from sqlalchemy import func, select, union

from aggregator.dap.times import DAY, Interval
from aggregator.protocol.task import Task
from aggregator.protocol.time_interval import batch_of_interval
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction

PAST_SECONDS = DAY
"""A unit that lies further back than this is of the past."""

MOST_UNITS = 16_384
"""The most units of the past open at once; they take 250 MB at each aggregator."""

_UNITS_PER_QUERY = 500


def past_before(task: Task, now: int, waits_seconds: int = 0) -> bytes:
    """Return the first bucket of a task that is not of the past; empty if buckets have no time.

    Args:
        task: The task.
        now: Seconds since the epoch.
        waits_seconds: At a helper, how long reports may wait at its leader.
    """
    if task.batching.has_ids:
        return b""
    earliest = task.time(max(0, now - PAST_SECONDS - waits_seconds))
    return batch_of_interval(Interval.of(earliest.units, 1)).first


def not_opened(
    tx: Transaction, task: int, buckets: Iterable[bytes], before: bytes
) -> frozenset[bytes]:
    """Return those of the buckets that must not be opened.

    Args:
        tx: The transaction.
        task: The task's key.
        buckets: The buckets of the reports.
        before: The first bucket that is not of the past.
    """
    past = sorted(bucket for bucket in buckets if bucket and bucket < before)
    if not past:
        return frozenset()
    keys, waiting = tables.bucket_keys.c, tables.waiting_reports.c
    summed = select(keys.bucket).where(keys.task == task, keys.bucket < before)
    stored = (
        select(waiting.bucket)
        .where(waiting.task == task, waiting.bucket < before)
        .group_by(waiting.bucket)
        .having(func.sum(waiting.reports) > 0)
    )
    known: set[bytes] = set()
    for start in range(0, len(past), _UNITS_PER_QUERY):
        some = past[start : start + _UNITS_PER_QUERY]
        of_these = union(
            summed.where(keys.bucket.in_(some)), stored.where(waiting.bucket.in_(some))
        )
        known.update(tx.connection.execute(of_these).scalars())
    fresh = [bucket for bucket in past if bucket not in known]
    if not fresh:
        return frozenset()
    units = union(summed, stored).limit(MOST_UNITS).subquery()
    left = MOST_UNITS - tx.connection.execute(select(func.count()).select_from(units)).scalar_one()
    return frozenset(fresh[left:])
