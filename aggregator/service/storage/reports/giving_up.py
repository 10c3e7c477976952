"""Gives up reports that cannot be read, which only an operator does (`prio store give-up-bodies`).

What the helper was never asked about leaves the store, and its ids are free again for the very same
bytes. What is in a request stays with its job, as given up: the helper may have counted it, and the
job ends as its answer says (`protocol.aggregation`).
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import Row, Select, and_, bindparam, func, select, update

from aggregator.errors import ConfigurationError
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.bodies import (
    Body,
    are_right,
    give_up_row,
    rows_of,
    set_place,
)
from aggregator.service.storage.reports.counters import DROPPED, Stage, count_reports
from aggregator.service.storage.reports.groups import GROUPS, Group, as_groups, take_away
from aggregator.service.storage.reports.rejected import remember_rejected
from aggregator.service.storage.reports.waiting import count_left

T = TypeVar("T")

_PIECE = 64
"""How many objects are asked for between two transactions."""

_STOP = "stop the leader's processes, and try again"


@dataclasses.dataclass(slots=True)
class Loss:
    """The reports of one task that cannot be read.

    Attributes:
        free: How many were never in a request to the helper, whose ids are known: whoever sends one
            of them again is counted.
        spent: How many others leave the store: sent again, they are refused.
        unnamed: How many leave the store whose ids nobody knows, since their row is damaged: sent
            again, they look like reports that count.
        asked: How many are in a request to the helper, and end with their jobs.
        bodies: How many bodies hold them.
        since: Seconds since the Unix epoch; when the first was found unreadable by a job, if any.
    """

    free: int = 0
    spent: int = 0
    unnamed: int = 0
    asked: int = 0
    bodies: int = 0
    since: int | None = None

    @property
    def reports(self) -> int:
        """How many there are."""
        return self.free + self.spent + self.unnamed + self.asked


@dataclasses.dataclass(frozen=True, slots=True)
class Looked:
    """What was found: how many waiting reports can be read, and the losses by task id."""

    readable: int
    losses: dict[bytes, Loss]


def give_up_unreadable(
    database: Database, *, only_look: bool = False, even_all: bool = False
) -> Looked:
    """Give up the waiting reports that cannot be read where the settings say that they lie.

    That is so if an object was wrong twice, and what was put there in between came back. From then
    on the object storage of the settings is where the others lie.

    Args:
        database: The leader's, with no process that works on it.
        only_look: Whether to change nothing.
        even_all: Whether to do so even if none of the objects is there.

    Raises:
        ConfigurationError: The leader's processes run, object storage is needed and not set, or has
            none of the objects, reports came meanwhile, or a job that has some is still leased.
        StoreError: We cannot tell.
    """
    if not only_look:
        database.read_sync("who runs", _refuse_company)
    waiting = database.read_sync("waiting bodies", _waiting)
    wrong = {row.id: row.generation for row in waiting if _is_wrong_row(row)}
    named = [row for row in waiting if row.object_name]
    wrong |= _lost(database, named)
    readable = sum(row.reports for row in waiting if row.id not in wrong and not _is_given_up(row))
    if only_look:
        losses = database.read_sync("losses", lambda tx: _each(tx, wrong, None))
        return Looked(readable, losses)
    if named and not even_all and all(row.id in wrong for row in named):
        # A slip in the name of the place would give up all that waits.
        raise ConfigurationError(
            f"report_bodies: none of {len(named)} objects with reports that wait is there: is it "
            "the right place? If all are lost for good, call this with --even-all"
        )
    names = {bytes(row.object_name) for row in named}

    def give_up(tx: Transaction) -> dict[bytes, Loss]:
        _refuse_company(tx)
        if any(row.object_name and bytes(row.object_name) not in names for row in _waiting(tx)):
            raise ConfigurationError(f"report_bodies: reports came meanwhile: {_STOP}")
        losses = _give_up_all(tx, wrong)
        if tx.objects is not None:
            for generation in range(tables.GENERATIONS):
                set_place(tx, generation)
        return losses

    return Looked(readable, database.run_sync("give up bodies", give_up))


def _refuse_company(tx: Transaction) -> None:
    """Refuse to go on while a service of the leader runs, with ConfigurationError.

    It could ask the helper about reports whose ids we are about to free.
    """
    if tx.backend.present(tx.connection):
        raise ConfigurationError(f"report_bodies: processes of the leader run: {_STOP}")


def _waiting(tx: Transaction) -> Sequence[Row[Any]]:
    return [row for query in _WAITING for row in tx.connection.execute(query)]


def _queries() -> Iterator[Select[Any]]:
    group = tables.report_groups.c
    for number, table in enumerate(tables.report_bodies):
        found = (group.id, group.generation, group.reports, group.size, group.width)
        of_body = (table.c.object_name, func.length(table.c.body).label("length"))
        both = tables.report_groups.outerjoin(table, table.c.report_group == group.id)
        yield select(*found, *of_body).select_from(both).where(group.generation == number)


_WAITING = [*_queries()]


def _is_given_up(row: Row[Any]) -> bool:
    return row.object_name is not None and not row.object_name


def _is_wrong_row(row: Row[Any]) -> bool:
    return row.object_name is None and row.length != row.size * row.width


def _lost(database: Database, named: Sequence[Row[Any]]) -> dict[int, int]:
    """Return the groups, of some with objects, whose reports cannot be read.

    One look tells nothing. So we look again at what was wrong, once the place has shown that it
    returns what is put there.
    """
    lost = named
    for _ in range(2):
        found = [_wrong_objects(database, some) for some in _pieces(lost)]
        wrong = {group: where for some in found for group, where in some.items()}
        lost = [row for row in lost if row.id in wrong]
        if lost:
            database.prove_objects()
    return {row.id: row.generation for row in lost}


def _wrong_objects(database: Database, some: Sequence[Row[Any]]) -> dict[int, int]:
    """Return the groups, of some, whose objects are not what they should be."""
    generations = {row.id: row.generation for row in some}
    bodies = database.read_sync("digests of bodies", lambda tx: rows_of(tx, generations))
    right: dict[bytes, Callable[[bytes], bool]] = {
        bytes(row.object_name): are_right(bodies.get(row.id, Body(b"")), row.width) for row in some
    }
    most = max(row.size * row.width for row in some)
    wrong = database.wrong_objects(right, most)
    return {row.id: row.generation for row in some if bytes(row.object_name) in wrong}


class _Step(Protocol):
    """Does something to a group that is lost."""

    def __call__(
        self, task_id: bytes, group: Group, body: Body | None, *, is_asked: bool
    ) -> None: ...


def _each(tx: Transaction, wrong: dict[int, int], step: _Step | None) -> dict[bytes, Loss]:
    """Count what is lost, by task; take a step for each group, if there is one."""
    query = _NAMED if step is None else _NAMED.with_for_update()
    groups = [
        each
        for some in _pieces([*wrong])
        for each in as_groups(tx.connection.execute(query, {"keys": [*some]}))
        if each.generation == wrong[each.id]
    ]
    ids: dict[int, bytes] = dict(tx.connection.execute(_TASKS).all())
    if step is not None:
        for task in sorted({ids[each.task] for each in groups}):
            locks.keep_batches(tx, task)
    losses: defaultdict[bytes, Loss] = defaultdict(Loss)
    for each in groups:
        row = rows_of(tx, {each.id: each.generation}).get(each.id)
        is_asked = _is_asked(tx, each, is_changing=step is not None)
        loss = losses[ids[each.task]]
        loss.bodies += 1
        loss.since = min(filter(None, (loss.since, each.unreadable_since)), default=None)
        if is_asked:
            loss.asked += each.reports
        elif _is_free(each, row):
            loss.free += each.reports
        elif row is not None and row.is_of(each.size, each.width):
            loss.spent += each.reports
        else:
            loss.unnamed += each.reports
        if step is not None:
            step(ids[each.task], each, row, is_asked=is_asked)
    return dict(losses)


_NAMED = GROUPS.where(tables.report_groups.c.id.in_(bindparam("keys", expanding=True))).order_by(
    tables.report_groups.c.id
)
_TASKS = select(tables.tasks.c.id, tables.tasks.c.task_id)


def _is_asked(tx: Transaction, group: Group, *, is_changing: bool) -> bool:
    """Return whether a group is in a request to the helper.

    Raises:
        ConfigurationError: It is to be changed, and a process works on its job.
    """
    if group.job is None:
        return False
    # Locked, or a worker could lease the job and send a request before we commit.
    query = _JOB.with_for_update() if is_changing else _JOB
    asked, leased = tx.connection.execute(query, {"job": group.job, "now": tx.now}).one()
    if leased and is_changing:
        raise ConfigurationError(f"report_bodies: a job that has lost some is at work: {_STOP}")
    return bool(asked)


_JOBS = tables.aggregation_jobs.c
_JOB = select(
    _JOBS.request.is_not(None),
    and_(_JOBS.lease_token.is_not(None), _JOBS.lease_expires_at > bindparam("now")),
).where(_JOBS.id == bindparam("job"))


def _is_free(group: Group, body: Body | None) -> bool:
    """Return whether the very same reports may come again: we know them, and nobody else does."""
    is_known = body is not None and body.object_name and body.is_of(group.size, group.width)
    return bool(is_known) and group.asked_at is None


def _give_up_all(tx: Transaction, wrong: dict[int, int]) -> dict[bytes, Loss]:
    gone: defaultdict[tuple[int, bytes], Counter[bytes]] = defaultdict(Counter)

    def step(task_id: bytes, group: Group, body: Body | None, *, is_asked: bool) -> None:
        _give_up(tx, group, body, is_asked=is_asked)
        if not is_asked:
            gone[group.task, task_id][group.bucket] += group.reports

    losses = _each(tx, wrong, step)
    # At once: PostgreSQL takes longer each time that a transaction changes the same row.
    for (task, task_id), reports in gone.items():
        count_left(tx, task, reports)
        count_reports(tx, task_id, Stage.AGGREGATION, {DROPPED: reports.total()})
    return losses


def _give_up(tx: Transaction, group: Group, body: Body | None, *, is_asked: bool) -> None:
    if body is not None and body.is_of(group.size, group.width):
        ids, sha256 = body.ids(group.width), body.sha256(group.width)
        live = {ids[place]: sha256[place] for place in group.places}
        free = live if not is_asked and _is_free(group, body) else {}
        remember_rejected(tx, group.task, live, free)
    if is_asked:
        give_up_row(tx, group.generation, group.id)
        table = tables.report_groups
        known = update(table).where(table.c.id == group.id).values(unreadable_since=None)
        tx.connection.execute(known)
        return
    take_away(tx, group, group.places)


def _pieces(each: Sequence[T]) -> Iterator[Sequence[T]]:
    return (each[start : start + _PIECE] for start in range(0, len(each), _PIECE))
