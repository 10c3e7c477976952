"""Privacy spent: one row per release, written in the transaction that makes the release.

The Leader reserves the cost when it freezes a batch, before it asks the Helper. The reservation
counts as spent until the release turns it into a charge or a failure cancels it. Costs are exact
rationals, kept as text. `journal` keeps a copy of the charges where no backup can set it back.
"""

import dataclasses

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, select, update

from aggregator.dp.filters import Cost
from aggregator.dp.group import Group
from aggregator.dp.rationals import format_rational, parse_cost
from aggregator.protocol.batches import Batch
from aggregator.protocol.groups import group_in
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.engine.transaction import Transaction

_ENTRY = tables.ledger.c
_MADE = select(func.count()).select_from(
    select(_ENTRY.id)
    .where(_ENTRY.task == bindparam("of_task"), _ENTRY.state != LedgerState.RESERVED)
    .limit(bindparam("most"))
    .subquery()
)


@dataclasses.dataclass(frozen=True, slots=True)
class Charge:
    """What one release costs.

    Attributes:
        mechanism: Its name; `None` for the mechanism that adds no noise.
        cost: What it adds to a person's cost; None if the mechanism promises nothing.
        population: The population that the task declares, empty if it declares none.
    """

    mechanism: str
    cost: Cost | None
    population: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One release, made or reserved; times (`…_at`) are in seconds.

    `share_sha256` is the hash of our sealed share, None if there is none.
    """

    task_id: bytes
    state: LedgerState
    batch: Batch
    charge: Charge
    created_at: int
    charged_at: int | None
    share_sha256: bytes | None = None


def reserve(tx: Transaction, task_id: bytes, batch: Batch, charge: Charge) -> None:
    """Reserve `charge` for the batch, before anybody draws noise for it."""
    _insert(tx, task_id, batch, charge, LedgerState.RESERVED)


def settle(
    tx: Transaction, task_id: bytes, batch: Batch, share_sha256: bytes | None = None
) -> None:
    """Turn the batch's reservation into a charge.

    Args:
        tx: The transaction.
        task_id: The task.
        batch: The batch.
        share_sha256: The hash of our sealed share; None if only the Helper may have released one.

    Raises:
        Conflict: There is no reservation: the release would be free.
    """
    charged = (
        update(tables.ledger)
        .where(*_reserved(tx, task_id, batch))
        .values(state=LedgerState.CHARGED, charged_at=tx.now, share_sha256=share_sha256)
    )
    if tx.connection.execute(charged).rowcount == 0:
        raise tx.refuse(Conflict("no cost is reserved for the batch"))


def cancel(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Cancel the batch's reservation: nothing was drawn and nothing was released."""
    tx.connection.execute(delete(tables.ledger).where(*_reserved(tx, task_id, batch)))


def charge(
    tx: Transaction, task_id: bytes, batch: Batch, charge: Charge, share_sha256: bytes | None = None
) -> None:
    """Charge for the release of a batch that has no reservation; for the hash see `settle`."""
    _insert(tx, task_id, batch, charge, LedgerState.CHARGED, tx.now, share_sha256)


def enter(
    tx: Transaction,
    task_id: bytes,
    batch: Batch,
    charge: Charge,
    charged_at: int,
    share_sha256: bytes | None,
) -> None:
    """Charge for a release that the journal knows."""
    _insert(tx, task_id, batch, charge, LedgerState.CHARGED, charged_at, share_sha256)


def presume(tx: Transaction, task_id: bytes, batch: Batch, charge: Charge) -> None:
    """Charge for a batch that may have been released before the store was restored."""
    _insert(tx, task_id, batch, charge, LedgerState.PRESUMED, tx.now)


def cancel_in(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Cancel the reservations of batches that overlap `batch`; other entries charge for them."""
    entry = tables.ledger.c
    tx.connection.execute(
        delete(tables.ledger).where(
            entry.task == tx.task_key(task_id),
            entry.state == LedgerState.RESERVED,
            entry.first_bucket <= batch.last,
            entry.last_bucket >= batch.first,
        )
    )


def list_ledger(tx: Transaction, task_id: bytes | None = None) -> list[LedgerEntry]:
    """Return the entries of one task or of all, oldest first."""
    mine = () if task_id is None else (tables.ledger.c.task == tx.task_key(task_id),)
    return _entries(tx, *mine)


def list_reserved(tx: Transaction, task_id: bytes) -> list[Batch]:
    """Return the batches with a reservation, oldest first."""
    entries = list_ledger(tx, task_id)
    return [each.batch for each in entries if each.state is LedgerState.RESERVED]


def list_without_share(tx: Transaction) -> list[LedgerEntry]:
    """Return the charges for batches that only the other aggregator may have released."""
    entry = tables.ledger.c
    return _entries(tx, entry.state == LedgerState.CHARGED, entry.share_sha256.is_(None))


def recently_released(tx: Transaction, task_id: bytes, most: int) -> list[Batch]:
    """Return the batches whose shares we released last, newest first."""
    entry = tables.ledger.c
    query = (
        select(entry.first_bucket, entry.last_bucket)
        .where(
            entry.task == tx.task_key(task_id),
            entry.state == LedgerState.CHARGED,
            entry.share_sha256.is_not(None),
        )
        .order_by(entry.charged_at.desc(), entry.id.desc())
        .limit(most)
    )
    return [Batch(first, last) for first, last in tx.connection.execute(query)]


def is_charged_for(tx: Transaction, task_id: bytes, batch: Batch) -> bool:
    """Return whether there is an entry of any state for the batch, or for a part of it."""
    entry = tables.ledger.c
    query = select(entry.id).where(
        entry.task == tx.task_key(task_id),
        entry.first_bucket <= batch.last,
        entry.last_bucket >= batch.first,
    )
    return tx.connection.execute(query.limit(1)).scalar() is not None


def find_charged(tx: Transaction, task_id: bytes, share_sha256: bytes) -> LedgerEntry | None:
    """Return the entry of the release of the share with this hash, if there is one."""
    entry = tables.ledger.c
    conditions = (entry.task == tx.task_key(task_id), entry.share_sha256 == share_sha256)
    return next(iter(_entries(tx, *conditions)), None)


def releases_made(tx: Transaction, task_id: bytes) -> int:
    """Return how many releases the task has made, reservations included."""
    locks.spend(tx)
    counted = (
        select(func.count())
        .select_from(tables.ledger)
        .where(tables.ledger.c.task == tx.task_key(task_id))
    )
    return tx.connection.execute(counted).scalar_one()


def is_used_up(tx: Transaction, task_id: bytes, most: int) -> bool:
    """Return whether a task has made all its releases; one that is under way may still fail."""
    ((made,),) = tx.run(_MADE, {"of_task": tx.task_key(task_id), "most": most})
    return int(made) >= most


def has_released(tx: Transaction, population: str) -> bool:
    """Return whether a task of the population has made a release, reservations included."""
    locks.spend(tx)
    entry = tables.ledger.c
    query = select(entry.id).where(entry.population == population).limit(1)
    return tx.connection.execute(query).scalar() is not None


def costs_in(tx: Transaction, population: str) -> list[tuple[Group | None, Cost]]:
    """Return the costs of a population's releases, each with the group of its task.

    Reservations are included; releases that promise nothing are left out. Releases of equal cost in
    one task are added up first.
    """
    locks.spend(tx)
    entry, task = tables.ledger.c, tables.tasks.c
    columns = (entry.epsilon, entry.delta, entry.rho)
    # Exact sums are slow, but thousands of releases have only a few costs: we multiply each.
    query = (
        select(entry.task, *columns, func.count())
        .where(entry.population == population)
        .group_by(entry.task, *columns)
    )
    rows = tx.connection.execute(query).all()
    definitions = select(task.id, task.definition).where(
        task.id.in_(select(entry.task).where(entry.population == population))
    )
    groups = {key: group_in(text) for key, text in tx.connection.execute(definitions)}
    costs = [(groups[key], cost_of(*cost), count) for key, *cost, count in rows]
    return [(group, cost.times(count)) for group, cost, count in costs if cost is not None]


def _entries(tx: Transaction, *conditions: ColumnElement[bool]) -> list[LedgerEntry]:
    entry = tables.ledger.c
    query = (
        select(tables.tasks.c.task_id, tables.ledger)
        .join(tables.tasks, tables.tasks.c.id == entry.task)
        .where(*conditions)
        .order_by(entry.id)
    )
    return [
        LedgerEntry(
            task_id=row.task_id,
            state=LedgerState(row.state),
            batch=Batch(row.first_bucket, row.last_bucket),
            charge=Charge(row.mechanism, cost_of(row.epsilon, row.delta, row.rho), row.population),
            created_at=row.created_at,
            charged_at=row.charged_at,
            share_sha256=row.share_sha256,
        )
        for row in tx.connection.execute(query)
    ]


def _reserved(tx: Transaction, task_id: bytes, batch: Batch) -> tuple[ColumnElement[bool], ...]:
    entry = tables.ledger.c
    return (
        entry.task == tx.task_key(task_id),
        entry.first_bucket == batch.first,
        entry.last_bucket == batch.last,
        entry.state == LedgerState.RESERVED,
    )


def cost_columns(cost: Cost | None) -> dict[str, str | None]:
    """Return the columns of a cost, exact text; all None if the mechanism promises nothing."""
    if cost is None:
        return {"epsilon": None, "delta": None, "rho": None}
    return {
        "epsilon": None if cost.epsilon is None else format_rational(cost.epsilon),
        "delta": format_rational(cost.delta),
        "rho": format_rational(cost.rho),
    }


def cost_of(epsilon: str | None, delta: str | None, rho: str | None) -> Cost | None:
    """Return the cost in a row's columns; None if the mechanism promises nothing."""
    if rho is None or delta is None:
        return None
    return Cost(
        None if epsilon is None else parse_cost(epsilon, "epsilon"),
        parse_cost(rho, "rho"),
        parse_cost(delta, "delta"),
    )


def _insert(
    tx: Transaction,
    task_id: bytes,
    batch: Batch,
    charge: Charge,
    state: LedgerState,
    charged_at: int | None = None,
    share_sha256: bytes | None = None,
) -> None:
    tx.connection.execute(
        insert(tables.ledger).values(
            task=tx.task_key(task_id),
            state=state,
            first_bucket=batch.first,
            last_bucket=batch.last,
            mechanism=charge.mechanism,
            **cost_columns(charge.cost),
            population=charge.population,
            created_at=tx.now,
            charged_at=charged_at,
            share_sha256=share_sha256,
        )
    )
