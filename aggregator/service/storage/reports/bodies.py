"""The bodies of reports: each written once, into the table of the generation that is current.

A body is never deleted by itself. A generation that no row of `reports` names any more is emptied
as a whole (`generations`), so a report costs its leader no second writing of its body.

To which generation a transaction adds is no matter of life: on PostgreSQL it may be one that has
just ceased to be the current one. It is never emptied meanwhile, since whoever empties it locks its
table against all others first, and looks then whether it is named: a transaction that has added a
body holds the table until its rows in `reports` can be seen, and one that has not yet does so
afterwards. On SQLite there is one writer.
"""

from collections.abc import Callable, Iterable, Mapping

from sqlalchemy import ColumnElement, Table, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Insert
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
    """Add bodies to a generation, which the rows of their reports name, by their reports' keys."""
    rows = [{"report": key, "body": body} for key, body in bodies.items()]
    tx.insert_many(_inserts_of(tx)[generation], rows)


def _inserts_of(tx: Transaction) -> list[Insert]:
    return tx.prepared(_inserts)


def _inserts(insert: Callable[[Table], Insert]) -> list[Insert]:
    return [insert(table) for table in tables.report_bodies]


def bodies_of(
    tx: Transaction, generations: Iterable[int], chosen: Iterable[ColumnElement[bool]]
) -> dict[int, bytes]:
    """Return the bodies of reports by their keys.

    Only the tables of `generations` are read, for whoever reads one keeps it from being emptied.

    Args:
        tx: The transaction.
        generations: Where they lie.
        chosen: Conditions on rows of `reports`.
    """
    report, conditions = tables.reports.c, tuple(chosen)
    found: dict[int, bytes] = {}
    for generation in generations:
        body = tables.report_bodies[generation].c
        query = (
            select(body.report, body.body)
            .join(tables.reports, report.id == body.report)
            .where(report.generation == generation, *conditions)
        )
        found.update(dict(tx.connection.execute(query).all()))
    return found
