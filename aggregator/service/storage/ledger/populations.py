"""What an operator allows all tasks of a population to cost, fixed before its first release.

A limit chosen after seeing results promises less than it says (docs/privacy.md, "A collector who
chooses").
"""

import dataclasses

from sqlalchemy import delete, insert, select

from aggregator.dp.filters import Filter
from aggregator.dp.rationals import format_rational, parse_cost
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.charges import has_released


@dataclasses.dataclass(frozen=True, slots=True)
class Population:
    """What is fixed about a population.

    Attributes:
        limits: The limits on what all releases of its tasks cost together; None for no limit.
        is_closed: Whether it takes no more tasks after its first release.
    """

    limits: Filter | None = None
    is_closed: bool = False


def put_population(tx: Transaction, name: str, population: Population) -> None:
    """Fix what a population is allowed, replacing what was fixed before.

    Raises:
        Conflict: A task of the population has made a release.
    """
    if has_released(tx, name):
        raise tx.refuse(
            Conflict(
                f"population {name!r}: its tasks have made releases, so its limits cannot change"
            )
        )
    limits, row = population.limits, tables.populations
    epsilon, rho = (None, None) if limits is None else (limits.epsilon, limits.rho)
    tx.connection.execute(delete(row).where(row.c.name == name))
    tx.connection.execute(
        insert(row).values(
            name=name,
            epsilon=None if epsilon is None else format_rational(epsilon),
            rho=None if rho is None else format_rational(rho),
            delta="0" if limits is None else format_rational(limits.delta),
            is_closed=int(population.is_closed),
        )
    )


def get_population(tx: Transaction, name: str) -> Population:
    """Return what is fixed about a population; no limits if nothing was fixed."""
    locks.spend(tx)
    columns = tables.populations.c
    query = select(columns.epsilon, columns.rho, columns.delta, columns.is_closed)
    row = tx.connection.execute(query.where(columns.name == name)).one_or_none()
    if row is None:
        return Population()
    limits = None
    if row.epsilon is not None or row.rho is not None:
        limits = Filter(
            None if row.epsilon is None else parse_cost(row.epsilon, "epsilon"),
            None if row.rho is None else parse_cost(row.rho, "rho"),
            parse_cost(row.delta, "delta"),
        )
    return Population(limits, bool(row.is_closed))
