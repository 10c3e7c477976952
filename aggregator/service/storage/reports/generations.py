"""Rotates the tables of bodies (generations): one takes new bodies, unused ones are emptied.

A generation stops being the current one after a minute, if another is empty; otherwise it grows.
When none is empty, the few bodies that are left in an old generation, whose reports are held or
wait for something, are moved to the current one. So the store holds at most a few times what waits,
plus a minute or two of uploads.

Only one transaction at a time does any of this (`locks.rotate_generations`), and only this module
moves a row of `report_groups` to another generation.
"""

import dataclasses
from collections.abc import Iterable

from sqlalchemy import func, select, update

from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.bodies import delete_objects, move_rows, put_bodies
from aggregator.service.storage.reports.groups import GROUPS, Group, as_groups, rows_of_groups

TURN_SECONDS = 60
"""The least time for which a generation is the current one."""
UNUSED_SECONDS = 60
"""How long a generation must be unused before it is emptied.

On PostgreSQL, TRUNCATE empties a table at once even for readers with an older snapshot. This is
longer than any of our reads; `pg_dump` locks all tables as it begins.
"""
LEFT = 4
"""Move a generation's remaining bodies once they are at most 1/LEFT of the groups that it, or the
current one, has taken, so that a few held reports cannot block a table."""
STEP_GROUPS = 500
STEP_BYTES = 4 << 20
"""The most groups, and the most bytes, that are moved at once; at least one group is."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Generation:
    """A row of `report_generations`."""

    generation: int
    turn: int
    begun_at: int
    after_group: int
    unused_since: int | None


def rotate_generations(tx: Transaction) -> int:
    """Empty a generation, begin another, or move some bodies; return 0 if nothing is left to do."""
    locks.rotate_generations(tx)
    ring = tables.report_generations
    rows = tx.connection.execute(select(ring).order_by(ring.c.turn.desc()))
    current, *others = [_Generation(*row) for row in rows]
    others.reverse()  # the oldest first
    filled = [each for each in others if _last_group(tx, each) is not None]
    if any(_empty(tx, each) for each in filled):
        return 1
    last = _last_group(tx, current)
    if last is None or 0 <= tx.now - current.begun_at < TURN_SECONDS:
        return 0
    for each in others:
        if each not in filled:
            values = {"turn": current.turn + 1, "begun_at": tx.now, "after_group": last}
            _note(tx, each, **values, unused_since=None)
            return 1
    if not all(_named(tx, each, 1) for each in filled):  # one will be empty soon
        return 0
    return next((moved for each in filled if (moved := _move_some(tx, each, current))), 0)


def bodies_held(tx: Transaction) -> dict[int, int]:
    """Return about how many groups have bodies in each generation, unused bodies included."""
    # From the first and last keys, which an index gives; counting would read all rows.
    rows = tx.connection.execute(select(tables.report_generations))
    generations = [_Generation(*row) for row in rows]
    return {each.generation: _ever(each, _last_group(tx, each)) for each in generations}


def _ever(one: _Generation, last: int | None) -> int:
    """Return about how many groups were put into a generation since it was last empty."""
    return 0 if last is None else last - one.after_group


def _last_group(tx: Transaction, one: _Generation) -> int | None:
    """Return the greatest key of a body in a generation, None if it is empty."""
    body = tables.report_bodies[one.generation].c
    return tx.connection.execute(select(func.max(body.report_group))).scalar()


def _named(tx: Transaction, one: _Generation, limit: int) -> int:
    """Return how many groups name a generation, counting no further than `limit`."""
    group = tables.report_groups.c
    some = select(group.id).where(group.generation == one.generation).limit(limit)
    return tx.connection.execute(select(func.count()).select_from(some.subquery())).scalar_one()


def _empty(tx: Transaction, one: _Generation) -> bool:
    """Empty a generation, or begin to, if it has been unused for long enough."""
    since = one.unused_since
    if _named(tx, one, 1):
        if since is not None:
            _note(tx, one, unused_since=None)
        return False
    if since is None or since > tx.now:  # later than now: the clock was set back
        _note(tx, one, unused_since=tx.now)
        return False
    body = tables.report_bodies[one.generation].c.body
    if tx.now - since < UNUSED_SECONDS or not tx.backend.lock_alone(tx.connection, body.table):
        return False
    if _named(tx, one, 1):  # by an upload that has committed only just before the lock
        return False
    if delete_objects(tx, one.generation):  # the next call goes on
        return True
    tx.backend.empty(tx.connection, body)
    return True


def _move_some(tx: Transaction, one: _Generation, current: _Generation) -> int:
    """Move bodies from a generation that has few left to the current one."""
    most = max(_ever(each, _last_group(tx, each)) for each in (one, current)) // LEFT
    if _named(tx, one, most + 1) > most:
        return 0
    table = tables.report_groups
    query = GROUPS.where(table.c.generation == one.generation).order_by(table.c.id)
    # Nobody else may change a row while its body moves. One that another transaction has locked is
    # most likely about to be dropped.
    some = query.limit(STEP_GROUPS).with_for_update(skip_locked=True)
    moving = _first(as_groups(tx.connection.execute(some)))
    rows = rows_of_groups(tx, moving)
    living, as_they_are = [], {}
    for each in moving:
        values: dict[str, object] = {"generation": current.generation}
        row = rows.get(each.id)
        if row is not None and row.object_name is None and row.is_of(each.size, each.width):
            # What is no longer live stays behind, and is gone when the generation is emptied.
            living.append((each.id, each.living(row.content), each.width))
            values |= {"size": each.reports, "live": None}
        elif row is not None:  # an object, a body that cannot be read, one that was given up
            as_they_are[each.id] = row
        tx.connection.execute(update(table).where(table.c.id == each.id).values(values))
    if living:
        put_bodies(tx, current.generation, living)
    move_rows(tx, as_they_are, one.generation, current.generation)
    return len(moving)


def _first(groups: Iterable[Group]) -> list[Group]:
    """Return the first groups, up to `STEP_BYTES` of bodies."""
    some: list[Group] = []
    left = STEP_BYTES
    for each in groups:
        left -= each.size * each.width
        if left < 0 and some:
            break
        some.append(each)
    return some


def _note(tx: Transaction, one: _Generation, **values: int | None) -> None:
    ring = tables.report_generations
    statement = update(ring).where(ring.c.generation == one.generation)
    tx.connection.execute(statement.values(values))
