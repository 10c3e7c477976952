"""Groups of reports whose bodies cannot be read: they wait, and are tried again, for ever.

One look at somebody else's machine tells us nothing: it may show a page of maintenance, half of a
body, or a copy that lags. So a job goes on without them if it has not asked the helper about them,
and waits with them if it has. Only an operator gives them up (`giving_up`).
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Select, bindparam, func, select, update

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.bodies import place_of, rows_of
from aggregator.service.storage.reports.claims import OF_JOB, bucket_of, leave_bucket, set_in_job
from aggregator.service.storage.reports.groups import GROUPS, Group, as_groups

LEAST_WAIT_SECONDS = 60
MOST_WAIT_SECONDS = 900
"""After how long reports are tried again, at least and at most."""

_GROUP = tables.report_groups.c


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """The reports that wait because they cannot be read.

    Attributes:
        reports: How many there are.
        bodies: How many bodies hold them.
        since: Seconds since the Unix epoch; when the first of them was found so.
        named: Which body that is, for an operator.
    """

    reports: int
    bodies: int
    since: int
    named: str


def set_aside(tx: Transaction, job: int, groups: Mapping[int, int]) -> Counter[bytes]:
    """Give those groups of a job back whose bodies cannot be read; later jobs try them again.

    They wait for a quarter of the time for which they could not be read, within bounds.

    Args:
        tx: The transaction.
        job: The key of a job whose reports the helper has not been asked about.
        groups: The groups, each with the generation in which its body lay.

    Returns:
        How many reports they have, by their buckets.
    """
    aside: Counter[bytes] = Counter()
    bucket = bucket_of(tx, job)
    for each in _still_there(tx, job, groups):
        since = tx.now if each.unreadable_since is None else each.unreadable_since
        wait = min(max(LEAST_WAIT_SECONDS, (tx.now - since) // 4), MOST_WAIT_SECONDS)
        where = b"" if bucket else each.bucket
        changing = update(tables.report_groups).where(_GROUP.id == each.id)
        values = {"job": None, "waits_until": tx.now + wait, "unreadable_since": since}
        tx.connection.execute(changing.values(**values, bucket=where))
        aside[where] += each.reports
    leave_bucket(tx, job, bucket, aside.total())
    return aside


def note_unreadable(tx: Transaction, job: int, groups: Mapping[int, int]) -> None:
    """Remember since when bodies of a job cannot be read, which waits for them.

    Args:
        tx: The transaction.
        job: The job's key.
        groups: The groups, each with the generation in which its body lay.
    """
    for each in _still_there(tx, job, groups):
        if each.unreadable_since is None:
            changing = update(tables.report_groups).where(_GROUP.id == each.id)
            tx.connection.execute(changing.values(unreadable_since=tx.now))


def note_readable(tx: Transaction, job: int) -> None:
    """Remember that all bodies of a job can be read again."""
    set_in_job(tx, job, unreadable_since=None)


def unreadable_reports(tx: Transaction) -> Unreadable | None:
    """Return the reports that wait because they cannot be read; None if there are none."""
    reports, count, since = tx.connection.execute(_COUNTING).one()
    if not count:
        return None
    (first,) = as_groups(tx.connection.execute(_OLDEST))
    row = rows_of(tx, {first.id: first.generation}).get(first.id)
    if row is not None and row.object_name:
        named = f"object {row.object_name.hex()} of {place_of(tx, first.generation)}"
    else:
        named = f"row {first.id} of report_bodies_{first.generation} in the database"
    return Unreadable(int(reports), int(count), int(since), named)


_ARE_UNREADABLE = _GROUP.unreadable_since.is_not(None)
_COUNTING = select(
    func.coalesce(func.sum(_GROUP.reports), 0), func.count(), func.min(_GROUP.unreadable_since)
).where(_ARE_UNREADABLE)
_OLDEST = GROUPS.where(_ARE_UNREADABLE).order_by(_GROUP.unreadable_since, _GROUP.id).limit(1)


def _still_there(tx: Transaction, job: int, groups: Mapping[int, int]) -> list[Group]:
    """Return and lock those of the groups that are in the job, with bodies that did not move."""
    locked = as_groups(tx.connection.execute(_LOCKED, {"job": job, "keys": [*groups]}))
    return [each for each in locked if groups[each.id] == each.generation]


_LOCKED: Select[tuple[int]] = (
    GROUPS.where(*OF_JOB, _GROUP.id.in_(bindparam("keys", expanding=True)))
    .order_by(_GROUP.id)
    .with_for_update()
)
