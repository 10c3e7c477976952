"""The bodies of groups: each written once, into the table of the generation that is current.

A body is never deleted by itself. A generation that no row of `report_groups` names any more is
emptied as a whole (`generations`), so a report costs its leader no second writing of its body.

To which generation a transaction adds is no matter of life: on PostgreSQL it may be one that has
just ceased to be the current one. It is never emptied meanwhile, since whoever empties it locks its
table against all others first, and looks then whether it is named: a transaction that has added a
body holds the table until its rows in `report_groups` can be seen, and one that has not yet does so
afterwards. On SQLite there is one writer.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from sqlalchemy import Table, bindparam, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import AS_BYTES, Insert
from aggregator.service.storage.engine.database import Transaction


def current_generation(tx: Transaction) -> int:
    """Return the generation to which bodies are added now."""
    generation: int = tx.connection.execute(_CURRENT).scalar_one()
    return generation


_CURRENT = (
    select(tables.report_generations.c.generation)
    .order_by(tables.report_generations.c.turn.desc())
    .limit(1)
)


def put_bodies(tx: Transaction, generation: int, bodies: Mapping[int, bytes]) -> None:
    """Add bodies to a generation, which the rows of their groups name, by their groups' keys."""
    rows = [{"report_group": key, "body": body} for key, body in bodies.items()]
    tx.insert_many(tx.prepared(_inserts)[generation], rows)


def _inserts(insert: Callable[[Table], Insert]) -> list[Insert]:
    return [insert(table) for table in tables.report_bodies]


def bodies_of(tx: Transaction, generations: Mapping[int, int]) -> dict[int, bytes]:
    """Return the bodies of groups by their keys, as far as they are where they should be.

    Only tables that are named are read, for whoever reads one keeps it from being emptied.

    Args:
        tx: The transaction.
        generations: Where each group's body lies, by the group's key.
    """
    keys: defaultdict[int, list[int]] = defaultdict(list)
    for key, generation in generations.items():
        keys[generation].append(key)
    found: dict[int, bytes] = {}
    for generation, some in keys.items():
        found.update(dict(tx.connection.execute(_READING[generation], {"keys": some}).all()))
    return found


_READING = [
    select(table.c.report_group, table.c.body)
    .where(table.c.report_group.in_(bindparam("keys", expanding=True)))
    .execution_options(**{AS_BYTES: True})
    for table in tables.report_bodies
]
