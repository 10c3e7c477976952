"""The bodies of groups, each written once, into the table of the current generation.

A body is never deleted by itself. A generation that no row of `report_groups` names any more is
emptied as a whole (`generations`), so deleting a report never rewrites its body.

It does not matter which generation a transaction adds to: on PostgreSQL it may be one that has just
ceased to be current. It is never emptied under that transaction. To empty it, its table is first
locked against all others, and only then do we look whether it is named. A transaction that has
added a body holds the table until its rows in `report_groups` are visible; one that has not yet
adds it afterwards. On SQLite there is one writer.

If object storage is configured (`report_bodies`), a large body lies there, and its row has the
object's name, 16 random bytes; every body is longer than that. The objects are put just before the
transaction commits, and deleted row by row before the generation is emptied.

A table with such names says in the row of group 0, which is no group, where the objects lie. A
service that looked for them elsewhere would take them for lost, and reject their reports.
"""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import ColumnElement, Table, bindparam, delete, func, insert, select

from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import AS_BYTES, Busy
from aggregator.service.storage.engine.objects import LEAST_BYTES, NAME_SIZE, Objects
from aggregator.service.storage.engine.transaction import Transaction

MOST_DELETED = 500
"""The most objects that one transaction deletes."""

PLACE = 0
"""The key, in a table of bodies, of the name of the place in which its objects lie."""


def current_generation(tx: Transaction) -> int:
    """Return the generation that bodies are added to now."""
    ((generation,),) = tx.run(_CURRENT)
    return int(generation)


_CURRENT = (
    select(tables.report_generations.c.generation)
    .order_by(tables.report_generations.c.turn.desc())
    .limit(1)
)


def put_bodies(tx: Transaction, generation: int, bodies: Mapping[int, bytes]) -> None:
    """Add bodies, by their groups' keys, to the generation that the groups' rows name."""
    before = len(tx.new_objects)
    rows = [{"report_group": key, "body": _row_of(tx, body)} for key, body in bodies.items()]
    if len(tx.new_objects) > before:
        _keep_place(tx, generation)
    # One by one: in an array, the server copies each body three times more.
    tx.run(_INSERTS[generation], *rows)


def _row_of(tx: Transaction, body: bytes) -> bytes:
    """Return what a body's row holds: the body, or the name of the object that will hold it."""
    if tx.objects is None or len(body) < LEAST_BYTES:
        return body
    name = tx.random_id()
    tx.new_objects[name] = body
    return name


_INSERTS = [insert(table) for table in tables.report_bodies]


def _keep_place(tx: Transaction, generation: int) -> None:
    """Say in a generation where its objects lie, unless it says so."""
    place = place_of(tx, generation)
    if place is None:
        row = {"report_group": PLACE, "body": _objects(tx).name.encode()}
        insert = tx.insert(tables.report_bodies[generation]).on_conflict_do_nothing()
        tx.connection.execute(insert, row)
        place = place_of(tx, generation)
        if place is None:  # another transaction's row, which this snapshot does not have
            raise Busy("another transaction has just begun to put objects")
    _objects(tx, place)


def place_of(tx: Transaction, generation: int) -> str | None:
    """Return in which place the objects of a generation lie; None if it has none."""
    found = tx.run(_READING[generation], {"keys": [PLACE]})
    return bytes(found[0][1]).decode() if found else None


def bodies_of(tx: Transaction, generations: Mapping[int, int]) -> dict[int, bytes]:
    """Return the bodies of groups by their keys, except those that are missing.

    Only the tables of the given generations are read, since a reader keeps a table from being
    emptied.

    Args:
        tx: The transaction.
        generations: The generation in which each group's body lies, by the group's key.
    """
    keys: defaultdict[int, list[int]] = defaultdict(list)
    for key, generation in generations.items():
        keys[generation].append(key)
    found: dict[int, bytes] = {}
    for generation, some in keys.items():
        read = tx.run(_READING[generation], {"keys": [PLACE, *some]})
        rows: dict[int, bytes] = {row[0]: row[1] for row in read}
        place = rows.pop(PLACE, None)
        if any(len(body) == NAME_SIZE for body in rows.values()):
            _objects(tx, None if place is None else place.decode())
        found.update(rows)
    named = {key: body for key, body in found.items() if len(body) == NAME_SIZE}
    return _with_objects(tx, found, named) if named else found


def _with_objects(
    tx: Transaction, found: Mapping[int, bytes], named: Mapping[int, bytes]
) -> dict[int, bytes]:
    """Return the bodies in `found`, and those in object storage by the names in `named`, if any."""
    objects = tx.new_objects | _objects(tx).get(
        name for name in named.values() if name not in tx.new_objects
    )
    bodies = {key: body for key, body in found.items() if key not in named}
    return bodies | {key: objects[name] for key, name in named.items() if name in objects}


def _objects(tx: Transaction, place: str | None = None) -> Objects:
    """Return the object storage, which has to be the given place if one is given."""
    ours = None if tx.objects is None else tx.objects.name
    if tx.objects is None or place not in {None, ours}:
        named = "is not set" if ours is None else f"is {ours}"
        raise StoreError(
            f"report_bodies: {named}, and bodies of this store lie in {place or 'object storage'}: "
            "set it to where they are"
        )
    return tx.objects


def delete_objects(tx: Transaction, generation: int) -> int:
    """Delete some objects of an unused generation, and their rows; return how many."""
    table = tables.report_bodies[generation]
    query = select(table.c.report_group, table.c.body).where(*are_names(table)).limit(MOST_DELETED)
    names = dict(tx.connection.execute(query).all())
    if names:
        _objects(tx, place_of(tx, generation)).delete(names.values())
        tx.connection.execute(delete(table).where(table.c.report_group.in_([*names])))
    return len(names)


def are_names(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that a row of a table of bodies has the name of an object."""
    return table.c.report_group != PLACE, func.length(table.c.body) == NAME_SIZE


_READING = [
    select(table.c.report_group, table.c.body)
    .where(table.c.report_group.in_(bindparam("keys", expanding=True)))
    .execution_options(**{AS_BYTES: True})
    for table in tables.report_bodies
]
