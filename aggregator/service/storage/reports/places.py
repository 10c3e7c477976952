"""Whether reports that wait lie in the object storage that the settings name, asked at the start.

`bodies` never takes a body for lost because another place was asked for it. But a service that
starts with another place would wait for ever, and with the same name for another place (another
account, a disk that is not mounted) reject what waits. So neither starts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from sqlalchemy import Select, delete, func, select

from aggregator.errors import ConfigurationError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Busy
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.bodies import PLACE, are_names, place_of

T = TypeVar("T")

_SAMPLE = 16
"""How many objects are asked for at a start."""

_PIECE = 1000
"""How many bodies are given up by one statement."""

_REMEDY = (
    "if they are lost, or have been copied to where it is to be, `prio store moved-bodies` looks "
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

    def look(tx: Transaction) -> tuple[str, list[bytes]]:
        if tx.objects is None:
            return "", []
        rows = (tx.connection.execute(query.limit(_SAMPLE)) for query in _waiting())
        return tx.objects.name, [row.body for found in rows for row in found][-_SAMPLE:]

    place, names = database.read_sync("look for bodies", look)
    if names and len(database.missing_objects(names)) == len(names):
        raise ConfigurationError(
            f"report_bodies: {place} has none of {len(names)} objects with reports that wait: is "
            f"it the same account and address, or the disk there? {_REMEDY}"
        )


def give_up_what_is_not_there(database: Database) -> tuple[int, int]:
    """Take the object storage of the settings for where the bodies are; stop services first.

    Returns:
        How many waiting reports are there, and how many are not, which jobs now reject.

    Raises:
        ConfigurationError: The settings name none, or reports came meanwhile.
        StoreError: We cannot tell.
    """
    place, names = database.read_sync("names of bodies", _names)
    gone = database.missing_objects(names)
    return database.run_sync("give up bodies", lambda tx: _give_up(tx, place, names, gone))


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
        tx.connection.execute(delete(table).where(*are_names(table)))
        tx.connection.execute(delete(table).where(table.c.report_group == PLACE))
    if waiting.total():
        place, reports = waiting.most_common(1)[0]
        found = "is not set" if tx.objects is None else f"is {tx.objects.name}"
        raise ConfigurationError(
            f"report_bodies: {found}, and {reports:,} reports that wait lie in {place}: set it to "
            f"that until none waits any more; {_REMEDY}"
        )


def _waiting() -> list[Select[tuple[int, bytes, int]]]:
    """Return queries for the groups of each generation that are objects, the oldest first."""
    group = tables.report_groups.c
    return [
        select(table.c.report_group, table.c.body, group.reports)
        .join(tables.report_groups, (group.id == table.c.report_group))
        .where(group.generation == number, *are_names(table))
        .order_by(table.c.report_group)
        for number, table in enumerate(tables.report_bodies)
    ]


def _names(tx: Transaction) -> tuple[str, set[bytes]]:
    if tx.objects is None:
        raise ConfigurationError("report_bodies: is not set: set it to where bodies are to be")
    found = {row.body for query in _waiting() for row in tx.connection.execute(query)}
    return tx.objects.name, found


def _give_up(
    tx: Transaction, place: str, names: AbstractSet[bytes], missing: AbstractSet[bytes]
) -> tuple[int, int]:
    counts = [0, 0]
    for table, query in zip(tables.report_bodies, _waiting(), strict=True):
        rows = tx.connection.execute(query).all()
        if any(row.body not in names for row in rows):
            raise ConfigurationError(
                "report_bodies: reports came meanwhile: stop the leader's processes, and try again"
            )
        for row in rows:
            counts[row.body in missing] += row.reports
        gone = [row.report_group for row in rows if row.body in missing]
        for some in _pieces(gone):
            tx.connection.execute(delete(table).where(table.c.report_group.in_(some)))
        values = table.update().where(table.c.report_group == PLACE)
        tx.connection.execute(values.values(body=place.encode()))
    return counts[0], counts[1]


def _pieces(each: Sequence[T]) -> Iterator[Sequence[T]]:
    return (each[start : start + _PIECE] for start in range(0, len(each), _PIECE))
