"""Reports and aggregation jobs: a job claims whole groups, and gives some or all of them back.

A group that does not fit is split only if the job would otherwise be less than half full: copying
reports costs more than an extra job.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    ScalarSelect,
    Select,
    bindparam,
    func,
    null,
    select,
    update,
)

from aggregator.dap.times import DAY
from aggregator.service.storage.batches.closed import is_closed
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Conflict, UnreadableBodies
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.bodies import ID_SIZE
from aggregator.service.storage.reports.groups import (
    GROUPS,
    Group,
    as_groups,
    bodies,
    rows_of_groups,
    split_off,
)
from aggregator.service.storage.reports.waiting import count_waiting

_GROUP = tables.report_groups.c


@dataclasses.dataclass(frozen=True, slots=True)
class JobSize:
    """How much goes into an aggregation job; a single report always fits.

    Attributes:
        reports: The most reports.
        stored_bytes: The most bytes of their bodies together.
    """

    reports: int
    stored_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Claimable:
    """What a job could be made of now.

    Attributes:
        reports: How many reports it would have.
        is_full: Whether no others would fit, or too few to be worth it.
        groups: The keys of the groups that it would claim whole.
        part: The key of the group of which it would claim the first reports, and how many; if any.
    """

    reports: int
    is_full: bool
    groups: Sequence[int] = ()
    part: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class JobReports:
    """The reports of a job, in their fixed order; all encoded Reports have one width.

    Attributes:
        body: The encoded Reports, one after another.
        width: The bytes of each.
        were_unreadable: Whether some could not be read before.
        bucket: The bucket of the first, which where batches have ids is that of all.
    """

    body: bytes = dataclasses.field(repr=False)
    width: int
    were_unreadable: bool = False
    bucket: bytes = b""

    def __len__(self) -> int:
        """Return how many reports there are."""
        return len(self.body) // self.width if self.width else 0

    @property
    def ids(self) -> list[bytes]:
        """Their ids."""
        starts = range(0, len(self.body), self.width) if self.width else ()
        return [self.body[start : start + ID_SIZE] for start in starts]

    @property
    def has_twins(self) -> bool:
        """Whether two have one id: their times are of different days, or both would not be here."""
        return len({*self.ids}) < len(self)


MOST_WAIT_SECONDS = DAY
"""The longest that reports are postponed, since their batch waits with them."""


def is_due(now: object) -> ColumnElement[bool]:
    """Return the condition that a group is not postponed.

    A group postponed for longer than the longest wait was postponed by a clock that was ahead.
    """
    until = _GROUP.waits_until
    return until.is_(None) | (until <= now) | (until - MOST_WAIT_SECONDS > now)


def _waiting() -> Select[Any]:
    """Select the first groups that may be claimed, as many as a job could need.

    Each comes with the number of reports before it.
    """
    first = (
        select(_GROUP.id, _GROUP.bucket, _GROUP.reports, _GROUP.width)
        .where(
            _GROUP.task == bindparam("task"),
            _GROUP.job.is_(None),
            is_due(bindparam("now")),
            ~is_closed(_GROUP),
        )
        # PostgreSQL uses the index's order only if its columns that are null here are named too.
        .order_by(_GROUP.job, _GROUP.bucket, _GROUP.id)
        .limit(bindparam("reports"))
    ).subquery()
    up_to = func.sum(first.c.reports).over(order_by=(first.c.bucket, first.c.id))
    row = select(*first.c, up_to.label("up_to")).subquery().c
    return (
        select(row.id, row.reports, row.width, row.bucket)
        .where(row.up_to - row.reports < bindparam("reports"))
        .order_by(row.up_to)
    )


_WAITING = _waiting()


def claimable_reports(
    tx: Transaction, task_id: bytes, size: JobSize, *, of_one: bool = False
) -> Claimable:
    """Return what a job could be made of: unclaimed reports, first bucket first.

    Reports of a closed bucket are never claimed, and postponed reports not yet. With `of_one` all
    are of one bucket.
    """
    place = {"task": tx.task_key(task_id), "now": tx.now, "reports": size.reports}
    rows = tx.run(_WAITING, place)
    if not rows:
        return Claimable(0, is_full=False)
    _, _, width, first = rows[0]
    most = min(size.reports, max(1, size.stored_bytes // width))
    groups: list[int] = []
    chosen = 0
    for key, reports, its_width, bucket in rows:
        # Should the sizes of the task's reports ever change.
        if its_width != width or (of_one and bucket != first):
            return Claimable(chosen, is_full=True, groups=groups)
        if chosen + reports > most:
            if chosen >= most / 2:
                return Claimable(chosen, is_full=True, groups=groups)
            return Claimable(most, is_full=True, groups=groups, part=(key, most - chosen))
        groups.append(key)
        chosen += reports
    return Claimable(chosen, is_full=chosen == most, groups=groups)


def claim_reports(
    tx: Transaction, task_id: bytes, job: int, claimable: Claimable, bucket: bytes
) -> None:
    """Claim reports for the job with key `job`, under the lock `locks.claim_waiting`.

    Args:
        tx: The transaction.
        task_id: The task.
        job: The job's key.
        claimable: What to claim.
        bucket: The bucket that the job puts them into; empty if each has one already.
    """
    values = {"job": job, "bucket": bucket} if bucket else {"job": job}
    claimed = 0
    if claimable.groups:
        place = {"keys": [*claimable.groups], "new_job": job, "new_bucket": bucket}
        if not bucket:
            del place["new_bucket"]
        claiming = _CLAIMING_INTO if bucket else _CLAIMING
        claimed += sum(reports for (reports,) in tx.run(claiming, place))
    if claimable.part:
        key, reports = claimable.part
        found = as_groups(tx.connection.execute(_UNCLAIMED, {"key": key}))
        for group in found:
            try:
                body, some = bodies(tx, [group])[key], group.places[:reports]
            except UnreadableBodies:  # it cannot be split; the job sets it aside
                body, some = b"", group.places
            split_off(tx, group, body, some, **values)
            claimed += len(some)
    if bucket and claimed:
        count_waiting(tx, tx.task_key(task_id), {b"": -claimed, bucket: claimed})


def _claiming(*names: str) -> Any:  # noqa: ANN401  SQLAlchemy's own, which has three parameters
    values = {name: bindparam(f"new_{name}", type_=_GROUP[name].type) for name in names}
    return (
        update(tables.report_groups)
        .where(_GROUP.id.in_(bindparam("keys", expanding=True)), _GROUP.job.is_(None))
        .values(values)
        .returning(_GROUP.reports)
    )


_CLAIMING, _CLAIMING_INTO = _claiming("job"), _claiming("job", "bucket")
_UNCLAIMED = GROUPS.where(_GROUP.id == bindparam("key"), _GROUP.job.is_(None)).with_for_update()


def reports_of_job(tx: Transaction, job: int) -> JobReports:
    """Return the reports of the job with key `job` that were not rejected, in their fixed order.

    Reports that an operator has given up are left out.

    Raises:
        UnreadableBodies: See `bodies`.
    """
    groups = as_groups(tx.run(_OF_JOB, {"job": job}))
    found = bodies(tx, groups)
    return JobReports(
        b"".join(each.living(found[each.id]) for each in groups if each.id in found),
        groups[0].width if groups else 0,
        any(each.unreadable_since is not None for each in groups),
        groups[0].bucket if groups else b"",
    )


def bytes_of_job(task: Column[int], job: Column[int]) -> ScalarSelect[int]:
    """Select the bytes of the bodies of a job's reports."""
    size = func.coalesce(func.sum(_GROUP.reports * _GROUP.width), 0)
    return select(size).where(_GROUP.task == task, _GROUP.job == job).scalar_subquery()


def _task_of_job() -> ScalarSelect[int]:
    # Every index starts with the task, so we find a job's groups through the job's task.
    jobs = tables.aggregation_jobs.c
    return select(jobs.task).where(jobs.id == bindparam("job")).scalar_subquery()


OF_JOB = (_GROUP.task == _task_of_job(), _GROUP.job == bindparam("job"))
"""The condition that a group is in the job with the key `job`."""

_OF_JOB = GROUPS.where(*OF_JOB).order_by(_GROUP.id)
_LOCKED_OF_JOB = _OF_JOB.with_for_update()
_KEYS_OF_JOB = select(_GROUP.id).where(*OF_JOB)


def groups_of_job(tx: Transaction, job: int) -> list[Group]:
    """Return the groups of a job in their fixed order; the transaction locks them."""
    return as_groups(tx.connection.execute(_LOCKED_OF_JOB, {"job": job}))


def places_in_job(
    tx: Transaction, job: int, report_ids: Collection[bytes]
) -> list[tuple[Group, list[int]]]:
    """Return where some of the job's reports are: groups, and the places in them.

    The transaction locks these groups.

    Raises:
        Conflict: One of them is not in the job.
    """
    if not report_ids:
        return []
    wanted = set(report_ids)
    groups = groups_of_job(tx, job)
    rows = rows_of_groups(tx, groups)
    places: list[tuple[Group, list[int]]] = []
    for group in groups:
        # One that an operator has given up has none of the named reports.
        ids = rows[group.id].ids(group.width) if group.id in rows else []
        some = [place for place in group.places if place < len(ids) and ids[place] in wanted]
        if some:
            places.append((group, some))
    if sum(len(some) for _, some in places) != len(wanted):
        raise tx.refuse(Conflict("a report that was named is not in the aggregation job"))
    return places


def given_up_in_job(tx: Transaction, job: int) -> list[Group]:
    """Return the job's groups that an operator has given up; the transaction locks them."""
    groups = groups_of_job(tx, job)
    rows = rows_of_groups(tx, groups)
    return [each for each in groups if each.id in rows and rows[each.id].is_given_up]


def reports_in_job(tx: Transaction, job: int) -> int:
    """Return how many reports the job with key `job` has left."""
    return int(tx.connection.execute(_COUNTING, {"job": job}).scalar_one())


_COUNTING = select(func.coalesce(func.sum(_GROUP.reports), 0)).where(*OF_JOB)


def move_half(tx: Transaction, job: int, other: int) -> None:
    """Move the later half of a job's reports, rounded down, into another job.

    Raises:
        Conflict: The job has a single report, or none.
    """
    groups = groups_of_job(tx, job)
    reports = sum(group.reports for group in groups)
    if reports < 2:  # noqa: PLR2004  halves
        raise tx.refuse(Conflict("a job of one report cannot be split"))
    staying = (reports + 1) // 2
    for group in groups:
        here = min(staying, group.reports)
        staying -= here
        moving = group.places[here:]
        if not moving:
            continue
        body = b""
        if here:  # only the group that is cut, if any, has its body read
            try:
                body = bodies(tx, [group])[group.id]
            except UnreadableBodies:  # it cannot be cut; the other job sets it aside
                moving = group.places
        split_off(tx, group, body, moving, job=other)


def mark_asked(tx: Transaction, job: int) -> None:
    """Remember of the job's reports that they were in a request, which the Helper may have seen."""
    set_in_job(tx, job, asked_at=tx.now)


def presume_asked(tx: Transaction) -> None:
    """Take all waiting reports for asked about: requests of before may have been forgotten."""
    never = update(tables.report_groups).where(_GROUP.asked_at.is_(None))
    tx.connection.execute(never.values(asked_at=tx.now))


def set_in_job(tx: Transaction, job: int, **values: int | None) -> None:
    """Set columns of the rows of all groups of a job."""
    keys = tx.connection.execute(_KEYS_OF_JOB, {"job": job}).scalars().all()
    changing = update(tables.report_groups).where(_GROUP.id.in_(keys))
    tx.connection.execute(changing.values(**values))


def return_reports(tx: Transaction, job: int) -> Counter[bytes]:
    """Give the job's reports back, for another job to claim at once; return how many, by bucket.

    Reports of a bucket that was closed meanwhile must be rejected (`rejecting.reject_late`).
    """
    bucket = bucket_of(tx, job)
    returning = _RETURNING_OUT if bucket else _RETURNING
    returned: Counter[bytes] = Counter()
    for where, reports in tx.connection.execute(returning, {"job": job}):
        returned[where] += reports
    leave_bucket(tx, job, bucket, returned.total())
    return returned


def _returning(**values: object) -> Any:  # noqa: ANN401  as above
    statement = update(tables.report_groups).where(*OF_JOB)
    free = statement.values(job=null(), waits_until=null(), **values)
    return free.returning(_GROUP.bucket, _GROUP.reports)


_RETURNING, _RETURNING_OUT = _returning(), _returning(bucket=b"")


def postpone_reports(
    tx: Transaction, job: int, report_ids: Collection[bytes], seconds: int
) -> Counter[bytes]:
    """Give some of the job's reports back as `return_reports` does, but not to be claimed yet.

    They wait for `seconds`, or for a quarter of the time since they were stored if that is longer,
    but at most a day. So a clock that is never set right does not cause jobs without end.

    Raises:
        Conflict: One of them is not in the job.
    """
    postponed: Counter[bytes] = Counter()
    places = places_in_job(tx, job, report_ids)
    if not places:
        return postponed
    bucket = bucket_of(tx, job)
    parted = [group for group, some in places if len(some) < group.reports]
    found = bodies(tx, parted)
    for group, some in places:
        waits = min(max(seconds, (tx.now - group.received_at) // 4), MOST_WAIT_SECONDS)
        values: dict[str, object] = {"job": None, "waits_until": tx.now + waits}
        where = b"" if bucket else group.bucket
        split_off(tx, group, found.get(group.id, b""), some, **values, bucket=where)
        postponed[where] += len(some)
    leave_bucket(tx, job, bucket, postponed.total())
    return postponed


def bucket_of(tx: Transaction, job: int) -> bytes | None:
    """Return the bucket that the job put its reports into; None if each report has its own."""
    bucket: bytes | None = tx.connection.execute(_BUCKET, {"job": job}).one().bucket
    return bucket


_JOBS = tables.aggregation_jobs.c
_BUCKET = select(_JOBS.bucket, _JOBS.task).where(_JOBS.id == bindparam("job"))


def leave_bucket(tx: Transaction, job: int, bucket: bytes | None, reports: int) -> None:
    """Count reports that have left the job, and thereby the bucket that it put them into."""
    if not bucket or not reports:
        return
    task = tx.connection.execute(_BUCKET, {"job": job}).one().task
    count_waiting(tx, task, {bucket: -reports, b"": reports})
