"""Groups of reports: how they are stored, which of their reports are live, and how one is split.

Reports of one task, one bucket and one size that one transaction stores share one row, with one
body: pieces of equal width, each of which begins with its report's id. So most work on reports
touches few rows. Dropping some reports of a group only clears their bits in `live`. If some must
part from the others, they are copied into a group of their own, which is rare.

On PostgreSQL, a transaction that changes what is live in a group, or moves its body, locks the
group's row before it reads the body: moving a body changes the places of reports in it.

A body that is missing, or is not what was stored, may be what it should be a minute later. Its
reports wait (`unreadable`), and count neither as reports nor as lost.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Table, bindparam, delete, select, update
from sqlalchemy.sql.dml import ReturningInsert, Update

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import BodyGone, Insert, UnreadableBodies
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.bodies import (
    Body,
    current_generation,
    put_bodies,
    reports_of,
    rows_of,
)

MOST_REPORTS: Final = 400
MOST_BYTES: Final = 2 << 20
"""The most reports of a group, and the most bytes; a single report may have more."""


@dataclasses.dataclass(frozen=True, slots=True)
class StoredReport:
    """An uploaded report.

    Attributes:
        report_id: Its id, 16 bytes.
        bucket: The key of its bucket; empty if a job will choose it.
        day: The day of its time (`Time.day`).
        body: The encoded Report, which begins with the id.
    """

    report_id: bytes
    bucket: bytes
    day: int
    body: bytes = dataclasses.field(repr=False)


class Packed(NamedTuple):
    """Reports of one bucket and one width that are to be a group.

    Attributes:
        bucket: The key of their bucket.
        width: The bytes of each.
        size: How many there are.
        body: They, one after another.
    """

    bucket: bytes
    width: int
    size: int
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A row of `report_groups`."""

    id: int
    task: int
    bucket: bytes
    received_at: int
    job: int | None
    waits_until: int | None
    size: int
    width: int
    live: bytes | None
    reports: int
    generation: int
    asked_at: int | None
    unreadable_since: int | None

    @property
    def places(self) -> Sequence[int]:
        """The places of its live reports in the body, in order."""
        if self.live is None:
            return range(self.size)
        bits = int.from_bytes(self.live, "little")
        return [place for place in range(self.size) if bits >> place & 1]

    def pieces(self, body: bytes, places: Iterable[int]) -> bytes:
        """Return the reports at some places of its body, one after another."""
        width = self.width
        return b"".join(body[place * width : (place + 1) * width] for place in places)

    def living(self, body: bytes) -> bytes:
        """Return its live reports, one after another."""
        return body if self.live is None else self.pieces(body, self.places)


GROUPS = select(tables.report_groups)
"""All groups; `as_groups` reads its rows."""


def as_groups(rows: Iterable[Sequence[Any]]) -> list[Group]:
    """Return rows of `GROUPS`."""
    return [Group(*row) for row in rows]


def put_groups(tx: Transaction, task: int, groups: Iterable[Packed]) -> None:
    """Store groups whose ids are new."""
    place = {"task": task, "received_at": tx.now, "job": None, "waits_until": None, "live": None}
    made: list[tuple[dict[str, object], bytes]] = []
    for bucket, width, size, body in groups:
        kind = {"bucket": bucket, "width": width, "size": size, "reports": size}
        made.append(({**place, **kind}, body))
    _put(tx, made)


def _put(tx: Transaction, made: Sequence[tuple[dict[str, object], bytes]]) -> None:
    """Store rows of groups, without keys and generations, each with its body."""
    generation = current_generation(tx)
    rows = [{**row, "generation": generation} for row, _ in made]
    # Among rows with equal values, it does not matter which new key goes to which.
    keys: dict[tuple[object, ...], list[int]] = {}
    for key, *kind in tx.insert_many(tx.prepared(_making), rows):
        keys.setdefault(tuple(kind), []).append(key)
    found = [
        (keys[row["bucket"], row["size"], row["width"]].pop(), body, int(str(row["width"])))
        for row, body in made
    ]
    put_bodies(tx, generation, found)


def _making(insert: Callable[[Table], Insert]) -> ReturningInsert[Any]:
    group = tables.report_groups.c
    return insert(tables.report_groups).returning(group.id, group.bucket, group.size, group.width)


def rows_of_groups(tx: Transaction, groups: Iterable[Group]) -> dict[int, Body]:
    """Return the rows of the groups' bodies by the groups' keys, except those that are missing."""
    return rows_of(tx, {each.id: each.generation for each in groups})


def bodies(tx: Transaction, groups: Iterable[Group]) -> dict[int, bytes]:
    """Return the bodies of groups by their keys, without those that an operator has given up.

    Raises:
        BodyGone: They were dropped, or their bodies moved, since this snapshot.
        UnreadableBodies: They are not what was stored.
    """
    named = {each.id: each for each in groups}
    rows = rows_of_groups(tx, named.values())
    missing = {key: each.generation for key, each in named.items() if key not in rows}
    if missing:
        raise BodyGone(f"the body of group {min(missing)} of reports is missing", missing)
    kinds = {key: (each.generation, each.width) for key, each in named.items()}
    whole = {
        key: row
        for key, row in rows.items()
        if not row.is_given_up and row.is_of(named[key].size, named[key].width)
    }
    found = reports_of(tx, whole, kinds)
    unreadable = {
        key: named[key].generation
        for key, row in rows.items()
        if key not in found and not row.is_given_up
    }
    if unreadable:
        raise UnreadableBodies(_unreadable(rows, min(unreadable)), unreadable)
    return found


def _unreadable(rows: Mapping[int, Body], key: int) -> str:
    name = rows[key].object_name
    if name is None:
        return f"the body of group {key} of reports is not of the length that it should have"
    return f"the object {name.hex()} of reports is not there, or not what was stored"


def split_off(
    tx: Transaction, group: Group, body: bytes, places: Collection[int], **values: object
) -> None:
    """Change values for some live reports of a group, whose row the transaction has locked.

    Unless they are all of its live reports, they move to a group of their own.
    """
    chosen = sorted(places)
    if len(chosen) == group.reports:
        changed = {f"new_{name}": value for name, value in values.items()}
        tx.connection.execute(_changing(tuple(values)), {"key": group.id, **changed})
        return
    row: dict[str, object] = {
        "task": group.task,
        "bucket": group.bucket,
        "received_at": group.received_at,
        "job": group.job,
        "waits_until": group.waits_until,
        "size": len(chosen),
        "width": group.width,
        "live": None,
        "reports": len(chosen),
        "asked_at": group.asked_at,
        "unreadable_since": group.unreadable_since,
        **values,
    }
    _put(tx, [(row, group.pieces(body, chosen))])
    take_away(tx, group, chosen)


def take_away(tx: Transaction, group: Group, places: Collection[int]) -> None:
    """Mark some reports of a group as no longer live; delete the group if none is left."""
    gone = set(places)
    left = [place for place in group.places if place not in gone]
    if not left:
        tx.connection.execute(_DELETING, {"key": group.id})
        return
    values = {"new_live": bitmap(left, group.size), "new_reports": len(left)}
    tx.connection.execute(_changing(("live", "reports")), {"key": group.id, **values})


def bitmap(places: Iterable[int], size: int) -> bytes:
    """Return the value of `live` for a group of `size` reports with live ones at `places`."""
    return sum(1 << place for place in places).to_bytes((size + 7) // 8, "little")


@lru_cache
def _changing(names: tuple[str, ...]) -> Update:
    """Return the statement that sets columns of a group's row to the parameters `new_…`."""
    group = tables.report_groups
    values = {name: bindparam(f"new_{name}", type_=group.c[name].type) for name in names}
    return update(group).where(group.c.id == bindparam("key")).values(values)


_DELETING = delete(tables.report_groups).where(tables.report_groups.c.id == bindparam("key"))
