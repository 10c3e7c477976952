"""The bodies of groups, each written once, into the table of the current generation.

A body is never deleted by itself. A generation that no row of `report_groups` names any more is
emptied as a whole (`generations`), so deleting a report never rewrites its body.

If object storage is configured (`report_bodies`), a large body lies there, and its row has the
object's name and the digest of each report. The objects are put, and got again, just before the
transaction commits, and deleted row by row before the generation is emptied.
"""

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from sqlalchemy import bindparam, delete, func, insert, select

from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Busy
from aggregator.service.storage.engine.driver_statements import AS_BYTES
from aggregator.service.storage.engine.objects import LEAST_BYTES, Objects
from aggregator.service.storage.engine.transaction import Transaction

ID_SIZE = 16
"""Bytes of a report's id, with which an encoded Report begins."""

MOST_DELETED = 500
"""The most objects that one transaction deletes."""

PLACE = 0
"""The key, in a table of bodies, of the name of the place in which its objects lie."""

_DIGEST_SIZE = hashlib.sha256().digest_size


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """The row of a group's body.

    Attributes:
        content: Its reports, one after another; of an object, their `digests`.
        object_name: The object that holds the reports; None if `content` does. Empty if an operator
            has given them up while they were in a request.
    """

    content: bytes = dataclasses.field(repr=False)
    object_name: bytes | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether an operator has given the reports up."""
        return self.object_name == b""

    def is_of(self, size: int, width: int) -> bool:
        """Return whether it can be that of `size` reports of `width` bytes."""
        each = width if self.object_name is None else ID_SIZE + _DIGEST_SIZE
        return len(self.content) == size * each

    def size(self, width: int) -> int:
        """Return the bytes of its reports, each of which has `width`."""
        if self.object_name is None:
            return len(self.content)
        return len(self.content) // (ID_SIZE + _DIGEST_SIZE) * width

    def ids(self, width: int) -> list[bytes]:
        """Return the ids of its reports, each of which has `width` bytes."""
        each = width if self.object_name is None else ID_SIZE + _DIGEST_SIZE
        return [self.content[start : start + ID_SIZE] for start in _starts(self.content, each)]

    def sha256(self, width: int) -> list[bytes]:
        """Return the SHA-256 of each of its reports."""
        known = digests(self.content, width) if self.object_name is None else self.content
        each = ID_SIZE + _DIGEST_SIZE
        return [known[start + ID_SIZE : start + each] for start in _starts(known, each)]


GIVEN_UP = Body(b"", b"")


def digests(reports: bytes, width: int) -> bytes:
    """Return the id and the SHA-256 of each report of `width` bytes, one after another."""
    pieces = (reports[start : start + width] for start in _starts(reports, width))
    return b"".join([piece[:ID_SIZE] + hashlib.sha256(piece).digest() for piece in pieces])


def are_right(body: Body, width: int) -> Callable[[bytes], bool]:
    """Return whether given bytes are what the object of a body should hold."""
    return lambda found: digests(found, width) == body.content


def _starts(content: bytes, each: int) -> range:
    return range(0, len(content), each)


def current_generation(tx: Transaction) -> int:
    """Return the generation that bodies are added to now."""
    # On PostgreSQL it may cease to be the current one before the transaction has ended. It is not
    # emptied under the transaction all the same: whoever empties a table first locks it against
    # all others, and only then looks whether a row of `report_groups` names it.
    ((generation,),) = tx.run(_CURRENT)
    return int(generation)


_CURRENT = (
    select(tables.report_generations.c.generation)
    .order_by(tables.report_generations.c.turn.desc())
    .limit(1)
)


def put_bodies(tx: Transaction, generation: int, bodies: Iterable[tuple[int, bytes, int]]) -> None:
    """Add bodies to the generation that the rows of their groups name.

    Args:
        tx: The transaction.
        generation: The generation.
        bodies: For each group its key, its reports, and how many bytes each of these has.
    """
    _put_rows(tx, generation, {key: _made(tx, body, width) for key, body, width in bodies})


def _made(tx: Transaction, reports: bytes, width: int) -> Body:
    """Return the row of a body, which may be that of an object that will hold it."""
    if tx.objects is None or len(reports) < LEAST_BYTES:
        return Body(reports)
    name = tx.random_id()
    tx.new_objects[name] = reports
    return Body(digests(reports, width), name)


def _put_rows(tx: Transaction, generation: int, bodies: Mapping[int, Body]) -> None:
    if any(body.object_name for body in bodies.values()):
        _keep_place(tx, generation)
    # One by one: in an array, the server copies each body three times more.
    tx.run(_INSERTS[generation], *(_row(key, body) for key, body in bodies.items()))


def _row(key: int, body: Body) -> dict[str, object]:
    return {"report_group": key, "body": body.content, "object_name": body.object_name}


_INSERTS = [insert(table) for table in tables.report_bodies]


def set_place(tx: Transaction, generation: int) -> None:
    """Take the object storage of the settings for where the objects of a generation lie, if any."""
    table = tables.report_bodies[generation]
    values = table.update().where(table.c.report_group == PLACE)
    tx.connection.execute(values.values(body=_objects(tx).name.encode()))


def move_rows(tx: Transaction, bodies: Mapping[int, Body], before: int, after: int) -> None:
    """Move rows of bodies as they are, with the objects that they name, to another generation."""
    if bodies:
        _put_rows(tx, after, bodies)
        # Or else the object would be deleted with the generation that it has left.
        remove_rows(tx, before, bodies)


def remove_rows(tx: Transaction, generation: int, groups: Iterable[int]) -> None:
    """Delete the rows of some groups' bodies, and leave the objects that they name."""
    table = tables.report_bodies[generation]
    tx.connection.execute(delete(table).where(table.c.report_group.in_([*groups])))


def give_up_row(tx: Transaction, generation: int, group: int) -> None:
    """Store that an operator has given up the body of a group."""
    remove_rows(tx, generation, [group])
    tx.run(_INSERTS[generation], _row(group, GIVEN_UP))


def _keep_place(tx: Transaction, generation: int) -> None:
    """Say in a generation where its objects lie, unless it says so.

    A service that looked for them elsewhere would wait for ever for what was never there.
    """
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


def rows_of(tx: Transaction, generations: Mapping[int, int]) -> dict[int, Body]:
    """Return the rows of groups' bodies by their keys, except those that are missing.

    Only the tables of the given generations are read, since a reader keeps a table from being
    emptied.

    Args:
        tx: The transaction.
        generations: The generation in which each group's body lies, by the group's key.
    """
    keys: defaultdict[int, list[int]] = defaultdict(list)
    for key, generation in generations.items():
        keys[generation].append(key)
    return {
        key: Body(content, name)
        for generation, some in keys.items()
        for key, content, name in tx.run(_READING[generation], {"keys": some})
    }


def reports_of(
    tx: Transaction, bodies: Mapping[int, Body], kinds: Mapping[int, tuple[int, int]]
) -> dict[int, bytes]:
    """Return the reports of bodies by their groups' keys, except those that cannot be read now.

    Args:
        tx: The transaction.
        bodies: The rows, as `rows_of` returns them.
        kinds: By the group's key, the generation in which its body lies, and the bytes of each of
            its reports.

    Raises:
        Unreachable: Nobody can tell what the object storage has.
        StoreError: The objects lie in another place than the settings say.
    """
    named = {key: body.object_name for key, body in bodies.items() if body.object_name is not None}
    found = {key: body.content for key, body in bodies.items() if key not in named}
    if not named:
        return found
    for generation in {kinds[key][0] for key in named}:
        _objects(tx, place_of(tx, generation))
    got = tx.new_objects | _objects(tx).get(
        [name for name in named.values() if name not in tx.new_objects],
        max(bodies[key].size(kinds[key][1]) for key in named),
    )
    for key, name in named.items():
        reports = got.get(name)
        # Anything else than the very bytes tells us nothing of the reports.
        if reports is not None and are_right(bodies[key], kinds[key][1])(reports):
            found[key] = reports
    return found


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
    query = select(table.c.report_group, table.c.object_name)
    named = query.where(func.length(table.c.object_name) > 0).limit(MOST_DELETED)
    names: dict[int, bytes] = dict(tx.connection.execute(named).all())
    if names:
        _objects(tx, place_of(tx, generation)).delete(names.values())
        remove_rows(tx, generation, names)
    return len(names)


_READING = [
    select(table.c.report_group, table.c.body, table.c.object_name)
    .where(table.c.report_group.in_(bindparam("keys", expanding=True)))
    .execution_options(**{AS_BYTES: True})
    for table in tables.report_bodies
]
