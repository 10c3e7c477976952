"""Whether reports that wait lie in the object storage that the settings name, asked at the start.

`bodies` never takes a body for lost because another place was asked for it. But a service that
starts with another place, or with the same name for another one (another account, a disk that is
not mounted), would wait for ever. So neither starts. What a job has found unreadable before says
nothing about the place: it waits for an operator, and a leader starts without it.
"""

from collections import Counter
from collections.abc import Callable

from sqlalchemy import Select, delete, func, select

from aggregator.errors import ConfigurationError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Busy
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.bodies import PLACE, Body, are_right, place_of

_SAMPLE = 16
"""How many objects are asked for at a start."""

_REMEDY = (
    "if they are lost, or have been copied to where it is to be, `prio store give-up-bodies` looks "
    "for them there and gives up the others"
)


def settle_place(database: Database) -> None:
    """Let object storage be where the settings say, unless reports wait elsewhere.

    Raises:
        ConfigurationError: Some do; both places are named.
    """
    if database.read_sync("places of bodies", _elsewhere):  # rarely, so this rarely writes
        database.run_sync("leave places of bodies", _leave)


def prove_waiting(database: Database) -> None:
    """Look for some of the bodies that wait in object storage.

    Raises:
        ConfigurationError: None of them is there.
        StoreError: We cannot tell.
    """
    was_readable = tables.report_groups.c.unreadable_since.is_(None)

    def look(tx: Transaction) -> tuple[str, dict[bytes, Callable[[bytes], bool]], int]:
        if tx.objects is None:
            return "", {}, 0
        rows = [
            row
            for query in _waiting()
            for row in tx.connection.execute(
                query.where(was_readable).order_by("report_group").limit(_SAMPLE)
            )
        ]
        some = rows[-_SAMPLE:]
        bodies = [(Body(row.body, row.object_name), row.width) for row in some]
        right = {body.object_name or b"": are_right(body, width) for body, width in bodies}
        return tx.objects.name, right, max((each.size(width) for each, width in bodies), default=0)

    place, right, most = database.read_sync("look for bodies", look)
    if right and len(database.wrong_objects(right, most)) == len(right):
        raise ConfigurationError(
            f"report_bodies: {place} has none of {len(right)} objects with reports that wait: is "
            f"it the same account and address, or the disk there? {_REMEDY}"
        )


def _elsewhere(tx: Transaction) -> dict[int, str]:
    """Return in which other places the objects of generations lie."""
    ours = None if tx.objects is None else tx.objects.name
    places = {number: place_of(tx, number) for number in range(tables.GENERATIONS)}
    return {number: place for number, place in places.items() if place not in (None, ours)}


def _leave(tx: Transaction) -> None:
    waiting: Counter[str] = Counter()
    places = _elsewhere(tx)
    queries = _waiting()
    for number, place in places.items():
        table = tables.report_bodies[number]
        # An upload that put its object there has not committed yet, or waits and then sees ours.
        if not tx.backend.lock_alone(tx.connection, table):
            raise Busy("bodies of reports are in use by another process")
        rows = queries[number].subquery()
        count = select(func.coalesce(func.sum(rows.c.reports), 0))
        waiting[place] += int(tx.connection.execute(count).scalar_one())
        # What no report needs stays there, and is deleted by the place's own rule.
        tx.connection.execute(delete(table).where(table.c.object_name.is_not(None)))
        tx.connection.execute(delete(table).where(table.c.report_group == PLACE))
    if waiting.total():
        place, reports = waiting.most_common(1)[0]
        found = "is not set" if tx.objects is None else f"is {tx.objects.name}"
        raise ConfigurationError(
            f"report_bodies: {found}, and {reports:,} reports that wait lie in {place}: set it to "
            f"that until none waits any more; {_REMEDY}"
        )


def _waiting() -> list[Select[tuple[int, bytes, bytes, int, int]]]:
    """Return queries for the groups of each generation whose reports are in objects."""
    group = tables.report_groups.c
    return [
        select(table.c.report_group, table.c.object_name, table.c.body, group.width, group.reports)
        .join(tables.report_groups, (group.id == table.c.report_group))
        .where(group.generation == number, func.length(table.c.object_name) > 0)
        for number, table in enumerate(tables.report_bodies)
    ]
