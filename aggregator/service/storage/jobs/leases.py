"""Leases: a driver holds a job for a while, and only the holder moves it.

A lease is a random token in the job's row with an expiry by the database's clock, which its holder
puts off while it works. Every write of a holder is a compare-and-set on the token, so a driver that
sleeps past its expiry while another takes the job changes nothing: every verb that takes its lease
raises `LeaseLost`. So it does no harm either that a lease or a delay ends when the clock is put
back to well before it began; it would last too long.

`Jobs` has the verbs that are the same for every kind of job.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Select, Table, bindparam, func, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.states import Machine
from aggregator.service.storage.engine.transaction import Transaction

T = TypeVar("T")
_TOKEN_SIZE = 16

LATE_SECONDS = 10
"""On PostgreSQL `now` is when the transaction began, so a lease that was renewed since can lie up
to this far ahead. Only what lies further ahead was set by a clock that has been put back."""


class LeaseLost(StoreError):
    """The job is no longer ours to move: leased by another driver, ended, or deleted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """The right to move one job until `expires_at`, in seconds by the database's clock."""

    key: int
    token: bytes = dataclasses.field(repr=False)
    attempts: int
    expires_at: int


@dataclasses.dataclass(frozen=True, slots=True)
class Leased(Generic[T]):
    """A job and the lease on it."""

    job: T
    lease: Lease


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Jobs(Generic[T]):
    """Jobs of one kind, and the verbs of their leases.

    Attributes:
        kind: What the log calls such a job.
        table: Where they are.
        read: Reads the job with a key.
        states: Those in which a job is driven. Empty if rows of the table have no state, and leave
            when their jobs end.
        machine: The life of such a job; None without states.
        forgotten_by_progress: Columns that are null again once a job makes progress.
    """

    kind: str
    table: Table
    read: Callable[[Transaction, int], T]
    states: tuple[str, ...] = ()
    machine: Machine | None = None
    forgotten_by_progress: tuple[str, ...] = ()

    def due(self, tx: Transaction) -> dict[bytes, int]:
        """Return how many jobs each task has that are to be driven and nobody holds, if any.

        A task that is being forgotten still has rows for a while, which nobody leases any more.
        """
        return {row[0]: row[1] for row in tx.run(_due(self.table, self.states), _now(tx))}

    def lease(
        self, tx: Transaction, limit: int, seconds: int, task_id: bytes | None = None
    ) -> list[Leased[T]]:
        """Lease at most `limit` of those jobs, of one task or any, longest due first.

        Jobs that another transaction is leasing, moving or deleting are passed over.
        """
        place: dict[str, object] = {**_now(tx), "limit": limit}
        if task_id is not None:
            place["of_task"] = tx.task_key(task_id)
        free = _free(self.table, self.states, of_one=task_id is not None)
        leases = [
            Lease(key, tx.entropy.bytes(_TOKEN_SIZE), attempts + 1, tx.now + seconds)
            for key, attempts in tx.run(free, place)
        ]
        for lease in leases:
            taken = {
                "lease_token": lease.token,
                "lease_expires_at": lease.expires_at,
                "lease_set_at": tx.now,
                "lease_attempts": lease.attempts,
            }
            statement = _writing(self.table, tuple(taken), is_taking=True)
            tx.run(statement, {"key": lease.key, **_new(taken)})
        return [Leased(self.read(tx, lease.key), lease) for lease in leases]

    def renew(self, tx: Transaction, lease: Lease, seconds: int) -> None:
        """Hold the job for `seconds` from now on."""
        self.write(tx, lease, {"lease_expires_at": tx.now + seconds, "lease_set_at": tx.now})

    def release(
        self,
        tx: Transaction,
        lease: Lease,
        delay_seconds: int,
        reason: str | None = None,
        *,
        progressed: bool = False,
    ) -> None:
        """Give the job back for another try.

        Args:
            tx: The transaction.
            lease: The lease on the job.
            delay_seconds: Nobody leases the job before.
            reason: Why it waits, for an operator.
            progressed: Whether it has made progress, so that the attempts so far no longer count.
        """
        values: dict[str, object] = {
            "lease_token": None,
            "lease_expires_at": tx.now + delay_seconds,
            "lease_set_at": tx.now,
            "reason": reason,
        }
        if progressed:
            values |= {"lease_attempts": 0, **dict.fromkeys(self.forgotten_by_progress)}
        self.write(tx, lease, values)

    def advance(
        self,
        tx: Transaction,
        verb: str,
        lease: Lease,
        values: Mapping[str, object],
        *,
        ends: bool = False,
    ) -> None:
        """Move the job along `verb`'s transition and store `values`; `ends` frees the lease.

        Raises:
            LeaseLost: The lease is not ours any more, or the job is in no state `verb` starts from.
        """
        assert self.machine is not None  # noqa: S101  whoever has a verb has a machine
        transition = self.machine.transition(verb)
        changes: dict[str, object] = {**values, "state": transition.target, "lease_attempts": 0}
        if ends:
            changes |= {"lease_token": None, "ended_at": tx.now}
        self.write(tx, lease, changes, transition.sources)

    def write(
        self,
        tx: Transaction,
        lease: Lease,
        values: Mapping[str, object],
        sources: Sequence[str] = (),
    ) -> None:
        """Store `values` in the job's row, if the lease is ours and its state is in `sources`.

        Raises:
            LeaseLost: It is not.
        """
        statement = _writing(self.table, tuple(values), sources=tuple(sources))
        self._write(tx, lease, statement, values)

    def count(self, tx: Transaction, lease: Lease, column: str, more: int) -> None:
        """Add to a count in the job's row, if the lease is ours.

        Raises:
            LeaseLost: It is not.
        """
        statement = _writing(self.table, (column,), is_adding=True)
        self._write(tx, lease, statement, {column: more})

    def _write(
        self,
        tx: Transaction,
        lease: Lease,
        statement: ReturningUpdate[tuple[int]],
        values: Mapping[str, object],
    ) -> None:
        place = {"key": lease.key, "token": lease.token}
        if len(tx.run(statement, place | _new(values))) != 1:
            raise tx.refuse(LeaseLost(f"the lease on {self.table.name} {lease.key} was lost"))


@cache
def _due(table: Table, states: tuple[str, ...]) -> Select[Any]:
    task = tables.tasks.c
    return (
        select(task.task_id, func.count())
        .join(table, task.id == table.c.task)
        .where(*_in(table, states), _is_free(table), task.forgotten_at.is_(None))
        .group_by(task.id)
    )


@cache
def _free(table: Table, states: tuple[str, ...], *, of_one: bool) -> Select[Any]:
    free = (
        select(table.c.id, table.c.lease_attempts)
        .where(*_in(table, states), _is_free(table))
        .order_by(table.c.lease_expires_at, table.c.id)
        .limit(bindparam("limit"))
        .with_for_update(skip_locked=True)  # on SQLite there is nobody else, and no such words
    )
    return free.where(table.c.task == bindparam("of_task")) if of_one else free


def _in(table: Table, states: tuple[str, ...]) -> Sequence[ColumnElement[bool]]:
    return (table.c.state.in_(states),) if states else ()


def _is_free(table: Table) -> ColumnElement[bool]:
    """Return whether a job may be leased; what was set by a clock since put back is void."""
    return (table.c.lease_expires_at <= bindparam("now")) | (
        table.c.lease_set_at > bindparam("later")
    )


def _now(tx: Transaction) -> dict[str, object]:
    """Return the values of `_is_free`."""
    return {"now": tx.now, "later": tx.now + LATE_SECONDS}


def _new(values: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of `_writing` with which it stores these values."""
    return {f"new_{name}": value for name, value in values.items()}


@cache
def _writing(
    table: Table,
    names: tuple[str, ...],
    *,
    sources: tuple[str, ...] = (),
    is_taking: bool = False,
    is_adding: bool = False,
) -> ReturningUpdate[tuple[int]]:
    """Return the statement that writes into a job's row, and returns its key if it does.

    Args:
        table: The job's table.
        names: The columns that it writes.
        sources: The states that the job may be in; any if empty.
        is_taking: Whether it writes no matter who holds the lease.
        is_adding: Whether it adds to what the columns hold.
    """
    statement = update(table).where(table.c.id == bindparam("key")).returning(table.c.id)
    if not is_taking:
        statement = statement.where(table.c.lease_token == bindparam("token"))
    if sources:
        statement = statement.where(table.c.state.in_(sources))
    values = {name: bindparam(f"new_{name}", type_=table.c[name].type) for name in names}
    if is_adding:
        return statement.values({name: table.c[name] + new for name, new in values.items()})
    return statement.values(values)
