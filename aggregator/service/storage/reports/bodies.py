"""The bodies of reports: each written once, into the table of the generation that is current.

A body is never deleted by itself. A generation that no row of `reports` names any more is emptied
as a whole (`generations`), so a report costs its leader no second writing of its body.

To which generation a transaction adds is no matter of life: on PostgreSQL it may be one that has
just ceased to be the current one. It is never emptied meanwhile, since whoever empties it locks its
table against all others first, and looks then whether it is named: a transaction that has added a
body holds the table until its rows in `reports` can be seen, and one that has not yet does so
afterwards. On SQLite there is one writer.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import ColumnElement, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Transaction


def current_generation(tx: Transaction) -> int:
    """Return the generation to which bodies are added now."""
    ring = tables.report_generations.c
    query = select(ring.generation).order_by(ring.turn.desc()).limit(1)
    generation: int = tx.connection.execute(query).scalar_one()
    return generation


def put_bodies(tx: Transaction, generation: int, bodies: Mapping[int, bytes]) -> None:
    """Add bodies to a generation, which the rows of their reports name, by their reports' keys."""
    table = tables.report_bodies[generation]
    rows = [{"report": key, "body": body} for key, body in bodies.items()]
    tx.insert_many(tx.insert(table), rows)


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
