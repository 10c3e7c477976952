"""Privacy spent: one row per release, written in the transaction that makes the release.

The Leader reserves the cost when it freezes a batch, before it asks the Helper. The reservation
counts as spent until the release turns it into a charge or a failure cancels it. Costs are exact
rationals, kept as the text in which they were given.
"""

import dataclasses
from fractions import Fraction

from sqlalchemy import ColumnElement, delete, insert, select, update

from aggregator.dp.rationals import parse_cost
from aggregator.protocol.batches import Batch
from aggregator.storage import locks, tables
from aggregator.storage.database import Transaction
from aggregator.storage.engine import Conflict
from aggregator.storage.states import LedgerState


@dataclasses.dataclass(frozen=True, slots=True)
class Charge:
    """What one aggregator's release costs.

    Attributes:
        mechanism: Its name; `None` for the mechanism that adds no noise.
        epsilon: Exact rational as text; None if the mechanism has no such parameter.
        delta: Likewise.
        rho: Likewise.
        population: The population that the task declares, empty if it declares none.
    """

    mechanism: str
    epsilon: str | None = None
    delta: str | None = None
    rho: str | None = None
    population: str = ""

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "rho"):
            _cost(getattr(self, name), name)


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One release, made or reserved; `_at` is in seconds."""

    task_id: bytes
    state: LedgerState
    batch: Batch
    charge: Charge
    created_at: int
    charged_at: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Spent:
    """What a task has spent by plain addition, reservations included."""

    releases: int
    epsilon: Fraction
    delta: Fraction
    rho: Fraction


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


def charge(tx: Transaction, task_id: bytes, batch: Batch, cost: Charge) -> None:
    """Charge `cost` for the release of the batch, which had no reservation."""
    _insert(tx, task_id, batch, cost, LedgerState.CHARGED)


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
            charge=Charge(row.mechanism, row.epsilon, row.delta, row.rho, row.population),
            created_at=row.created_at,
            charged_at=row.charged_at,
        )
        for row in tx.connection.execute(query)
    ]


def spent(tx: Transaction, task_id: bytes) -> Spent:
    """Return the sum of the task's costs, reservations included.

    Nobody else spends until the transaction ends, so what it spends fits what is left.
    """
    locks.spend(tx)
    charges = [entry.charge for entry in list_ledger(tx, task_id)]
    return Spent(
        len(charges),
        sum((_cost(cost.epsilon, "epsilon") for cost in charges), Fraction()),
        sum((_cost(cost.delta, "delta") for cost in charges), Fraction()),
        sum((_cost(cost.rho, "rho") for cost in charges), Fraction()),
    )


def _reserved(tx: Transaction, task_id: bytes, batch: Batch) -> tuple[ColumnElement[bool], ...]:
    entry = tables.ledger.c
    return (
        entry.task == tx.task_key(task_id),
        entry.first_bucket == batch.first,
        entry.last_bucket == batch.last,
        entry.state == LedgerState.RESERVED,
    )


def _insert(
    tx: Transaction, task_id: bytes, batch: Batch, cost: Charge, state: LedgerState
) -> None:
    tx.connection.execute(
        insert(tables.ledger).values(
            task=tx.task_key(task_id),
            state=state,
            first_bucket=batch.first,
            last_bucket=batch.last,
            mechanism=cost.mechanism,
            epsilon=cost.epsilon,
            delta=cost.delta,
            rho=cost.rho,
            population=cost.population,
            created_at=tx.now,
            charged_at=tx.now if state is LedgerState.CHARGED else None,
        )
    )


def _cost(text: str | None, name: str) -> Fraction:
    """Return the rational in `text`, 0 for None."""
    return Fraction(0) if text is None else parse_cost(text, name)
