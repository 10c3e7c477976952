"""Privacy spent: one row per release, written in the transaction that makes the release.

The Leader reserves the cost when it freezes a batch, before it asks the Helper. The reservation
counts as spent until the release turns it into a charge or a failure cancels it. Costs are exact
rationals, kept as text.
"""

import dataclasses

from sqlalchemy import ColumnElement, delete, func, insert, select, update

from aggregator.dp.filters import Cost, total
from aggregator.dp.rationals import format_rational, parse_cost
from aggregator.protocol.batches import Batch
from aggregator.storage import tables
from aggregator.storage.database import Transaction
from aggregator.storage.engine import Conflict
from aggregator.storage.states import LedgerState


@dataclasses.dataclass(frozen=True, slots=True)
class Charge:
    """What one aggregator's release costs.

    Attributes:
        mechanism: Its name; `None` for the mechanism that adds no noise.
        cost: What it adds to a person's; None if the mechanism promises nothing.
        population: The population that the task declares, empty if it declares none.
    """

    mechanism: str
    cost: Cost | None
    population: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One release, made or reserved; `_at` is in seconds."""

    task_id: bytes
    state: LedgerState
    batch: Batch
    charge: Charge
    created_at: int
    charged_at: int | None


def reserve(tx: Transaction, task_id: bytes, batch: Batch, charge: Charge) -> None:
    """Set `charge` aside for the batch, before anybody draws noise for it."""
    _insert(tx, task_id, batch, charge, LedgerState.RESERVED)


def settle(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Turn the batch's reservation into a charge.

    Raises:
        Conflict: There is none: the release would be free.
    """
    charged = (
        update(tables.ledger)
        .where(*_reserved(tx, task_id, batch))
        .values(state=LedgerState.CHARGED, charged_at=tx.now)
    )
    if tx.connection.execute(charged).rowcount == 0:
        raise tx.refuse(Conflict("no cost is reserved for the batch"))


def cancel(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Cancel the batch's reservation: nothing was drawn and nothing was released."""
    tx.connection.execute(delete(tables.ledger).where(*_reserved(tx, task_id, batch)))


def charge(tx: Transaction, task_id: bytes, batch: Batch, charge: Charge) -> None:
    """Charge for the release of the batch, which had no reservation."""
    _insert(tx, task_id, batch, charge, LedgerState.CHARGED)


def list_ledger(tx: Transaction, task_id: bytes | None = None) -> list[LedgerEntry]:
    """Return the entries of one task or of all, oldest first."""
    entry = tables.ledger.c
    query = (
        select(tables.tasks.c.task_id, tables.ledger)
        .join(tables.tasks, tables.tasks.c.id == entry.task)
        .order_by(entry.id)
    )
    if task_id is not None:
        query = query.where(entry.task == tx.task_key(task_id))
    return [
        LedgerEntry(
            task_id=row.task_id,
            state=LedgerState(row.state),
            batch=Batch(row.first_bucket, row.last_bucket),
            charge=Charge(row.mechanism, _cost(row.epsilon, row.rho, row.delta), row.population),
            created_at=row.created_at,
            charged_at=row.charged_at,
        )
        for row in tx.connection.execute(query)
    ]


def releases_made(tx: Transaction, task_id: bytes) -> int:
    """Return how many releases the task has made, reservations included."""
    counted = (
        select(func.count())
        .select_from(tables.ledger)
        .where(tables.ledger.c.task == tx.task_key(task_id))
    )
    return tx.connection.execute(counted).scalar_one()


def has_released(tx: Transaction, population: str) -> bool:
    """Return whether a task of the population has made a release, reservations included."""
    entry = tables.ledger.c
    query = select(entry.id).where(entry.population == population).limit(1)
    return tx.connection.execute(query).scalar() is not None


def spent_by(tx: Transaction, population: str) -> Cost:
    """Return the sum of the costs of a population's tasks, reservations included.

    Releases that promise nothing are left out.
    """
    entry = tables.ledger.c
    query = select(entry.epsilon, entry.rho, entry.delta).where(entry.population == population)
    costs = (_cost(*row) for row in tx.connection.execute(query))
    return total(cost for cost in costs if cost is not None)


def _reserved(tx: Transaction, task_id: bytes, batch: Batch) -> tuple[ColumnElement[bool], ...]:
    entry = tables.ledger.c
    return (
        entry.task == tx.task_key(task_id),
        entry.first_bucket == batch.first,
        entry.last_bucket == batch.last,
        entry.state == LedgerState.RESERVED,
    )


def _insert(
    tx: Transaction, task_id: bytes, batch: Batch, charge: Charge, state: LedgerState
) -> None:
    cost = charge.cost
    tx.connection.execute(
        insert(tables.ledger).values(
            task=tx.task_key(task_id),
            state=state,
            first_bucket=batch.first,
            last_bucket=batch.last,
            mechanism=charge.mechanism,
            epsilon=None if cost is None or cost.epsilon is None else format_rational(cost.epsilon),
            delta=None if cost is None else format_rational(cost.delta),
            rho=None if cost is None else format_rational(cost.rho),
            population=charge.population,
            created_at=tx.now,
            charged_at=tx.now if state is LedgerState.CHARGED else None,
        )
    )


def _cost(epsilon: str | None, rho: str | None, delta: str | None) -> Cost | None:
    """Return the cost in a row's columns; None if the mechanism promises nothing."""
    if rho is None or delta is None:
        return None
    return Cost(
        None if epsilon is None else parse_cost(epsilon, "epsilon"),
        parse_cost(rho, "rho"),
        parse_cost(delta, "delta"),
    )
