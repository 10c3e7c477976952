"""Stored tasks: definition, verification key, and the token we present to the other aggregator."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from aggregator.dap.ids import encode_base64url
from aggregator.protocol.task_file import collector_identity_in, permits_in
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.secret_columns import prove_store_key
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import CrypterError
from aggregator.service.storage.tasks.version import settings_changed

_PUBLIC = select(
    tables.tasks.c.task_id,
    tables.tasks.c.role,
    tables.tasks.c.definition,
    tables.tasks.c.created_at,
    tables.tasks.c.ended_at,
    tables.tasks.c.retention_seconds,
)
_SERVED = tables.tasks.c.forgotten_at.is_(None)
_NAMED = tables.tasks.c.task_id == bindparam("task_id")
_ONE_PUBLIC = _PUBLIC.where(_NAMED, _SERVED)
_NAMED_ONE = tables.tasks.alias("named")
_TOGETHER = _PUBLIC.where(
    _SERVED,
    ~_NAMED,
    tables.tasks.c.addition
    == select(_NAMED_ONE.c.addition)
    .where(_NAMED_ONE.c.task_id == bindparam("task_id"))
    .scalar_subquery(),
)
_COUNTED = select(func.count(tables.tasks.c.id)).where(_SERVED)
_COUNTED_OF_ONE = _COUNTED.where(tables.tasks.c.collector_identity == bindparam("identity"))
_WITH_SECRETS = _PUBLIC.add_columns(
    tables.tasks.c.verify_key, tables.tasks.c.verify_key_id, tables.tasks.c.peer_token
).where(_SERVED)
_ONE = _WITH_SECRETS.where(_NAMED)


@dataclasses.dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as an operator provisions it.

    Attributes:
        task_id: 32 bytes.
        role: Our role in it, `leader` or `helper`.
        definition: The text of the public task file.
        verify_key: The VDAF verification key; a task has one for life.
        verify_key_id: Its id on the wire, 0 to 255.
        peer_token: Leader: the bearer token that we show to the Helper.
    """

    task_id: bytes
    role: str
    definition: str
    verify_key: bytes = dataclasses.field(repr=False)
    verify_key_id: int = 0
    peer_token: str | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class PublicTask:
    """A task without its secrets; otherwise as `StoredTask`."""

    task_id: bytes
    role: str
    definition: str
    created_at: int
    ended_at: int | None
    retention_seconds: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as it is stored. `ended_at` is in seconds, None while uploads are accepted.

    `retention_seconds` is how long its ended work is kept; None for the service's setting.
    """

    record: TaskRecord
    created_at: int
    ended_at: int | None
    retention_seconds: int | None = None


def put_task(tx: Transaction, task: TaskRecord) -> None:
    """Store `task`; storing the same again changes nothing.

    Raises:
        Conflict: The id is that of a task with another definition, key or token. A task never gets
            a second verification key: a report verified under two keys reveals its measurement.
            Or the task was forgotten, and with it which reports were counted; or so was the last
            task with its domain of permits.
        CrypterError: See `prove_store_key`.
    """
    check_not_forgotten(tx, task.task_id)
    stored = get_task(tx, task.task_id)
    if stored is not None:
        if stored.record != task:
            raise tx.refuse(_conflict(stored.record, task))
        return
    prove_store_key(tx)
    settings_changed(tx)
    permits = permits_in(task.definition)
    tx.connection.execute(
        insert(tables.tasks).values(
            task_id=task.task_id,
            role=task.role,
            definition=task.definition,
            verify_key_id=task.verify_key_id,
            verify_key=tx.crypter.encrypt("tasks", task.task_id, "verify_key", task.verify_key),
            peer_token=_encrypted(tx, task.task_id, task.peer_token),
            created_at=tx.now,
            addition=tx.addition,
            collector_identity=collector_identity_in(task.definition),
            permit_domain=None if permits is None else _domain_for(tx, permits.domain),
        )
    )


def check_not_forgotten(tx: Transaction, task_id: bytes) -> None:
    """Raise `Conflict` if a task was forgotten, and with it which reports were counted."""
    named = tables.tasks.c.task_id == task_id
    if tx.connection.execute(select(tables.tasks.c.id).where(named, ~_SERVED)).first() is not None:
        name = encode_base64url(task_id)
        raise tx.refuse(Conflict(f"task {name} was forgotten: make another one"))


def _domain_for(tx: Transaction, domain: bytes) -> int:
    """Return the key of the domain of a new task, made if it is the first.

    The row stays locked, so that its last other task is not forgotten meanwhile.

    Raises:
        Conflict: Its last task was forgotten, and with it which permits were spent.
    """
    domains = tables.permit_domains.c
    made = tx.insert(tables.permit_domains).values(domain=domain, first_window=0)
    tx.connection.execute(made.on_conflict_do_nothing())
    query = select(domains.id, domains.forgotten_at).where(domains.domain == domain)
    found = tx.connection.execute(query.with_for_update()).one()
    if found.forgotten_at is not None:
        raise tx.refuse(
            Conflict(
                "permits: the last task with this domain was forgotten, and with it which permits "
                "were spent: make a task with another domain"
            )
        )
    return int(found.id)


def get_task(tx: Transaction, task_id: bytes) -> StoredTask | None:
    """Return the task with this id, if any."""
    rows = tx.run(_ONE, {"task_id": task_id})
    return _stored_task(tx, rows[0]) if rows else None


def get_public_task(tx: Transaction, task_id: bytes) -> PublicTask | None:
    """Return the task with this id without its secrets, if any; nothing is decrypted."""
    rows = tx.run(_ONE_PUBLIC, {"task_id": task_id})
    return PublicTask(*rows[0]) if rows else None


def list_tasks(tx: Transaction) -> list[PublicTask]:
    """Return all tasks, oldest first, except forgotten ones."""
    rows = tx.connection.execute(_PUBLIC.where(_SERVED).order_by(tables.tasks.c.id))
    return [PublicTask(*row) for row in rows]


def count_tasks(tx: Transaction, identity: str | None = None) -> int:
    """Return how many tasks there are, or how many name this collector, except forgotten ones."""
    if identity is None:
        return int(tx.connection.execute(_COUNTED).scalar_one())
    return int(tx.connection.execute(_COUNTED_OF_ONE, {"identity": identity}).scalar_one())


def list_all_tasks(tx: Transaction) -> list[PublicTask]:
    """Return all tasks that there ever were, oldest first; the ledger refers to them."""
    rows = tx.connection.execute(_PUBLIC.order_by(tables.tasks.c.id))
    return [PublicTask(*row) for row in rows]


def added_together(tx: Transaction, task_id: bytes) -> list[PublicTask]:
    """Return the other tasks that one transaction stored with a task, as those of one file."""
    rows = tx.run(_TOGETHER, {"task_id": task_id})
    return [PublicTask(*row) for row in rows]


def undecryptable_tasks(tx: Transaction) -> dict[bytes, str]:
    """Return, by id, the tasks with a secret that cannot be read, and why.

    Such a task stands still until its row or the store key is restored; no other task does.
    """
    found = {}
    for row in tx.run(_WITH_SECRETS):
        try:
            _stored_task(tx, row)
        except CrypterError as error:
            found[row[0]] = str(error)
    return found


def replace_peer_token(tx: Transaction, task_id: bytes, token: str) -> None:
    """Show another token to the Helper from now on.

    Raises:
        UnknownTask: There is no such task.
    """
    key = tx.task_key(task_id)
    settings_changed(tx)
    tx.connection.execute(
        update(tables.tasks)
        .where(tables.tasks.c.id == key)
        .values(peer_token=_encrypted(tx, task_id, token))
    )


def end_task(tx: Transaction, task_id: bytes) -> None:
    """Take no more uploads for the task; what is stored can still be aggregated and collected.

    Raises:
        UnknownTask: There is no such task.
    """
    task = tables.tasks.c
    key = tx.task_key(task_id)
    settings_changed(tx)
    tx.connection.execute(
        update(tables.tasks).where(task.id == key, task.ended_at.is_(None)).values(ended_at=tx.now)
    )


def keep_for(tx: Transaction, task_id: bytes, seconds: int | None) -> None:
    """Set how long the task's ended work is kept from now on; None for the service's setting.

    Raises:
        UnknownTask: There is no such task.
    """
    task = tables.tasks.c
    statement = update(tables.tasks).where(task.id == tx.task_key(task_id))
    tx.connection.execute(statement.values(retention_seconds=seconds))


def _conflict(stored: TaskRecord, given: TaskRecord) -> Conflict:
    name = f"task {encode_base64url(given.task_id)}"
    if dataclasses.replace(stored, peer_token=given.peer_token) == given:
        return Conflict(
            f"{name} is stored with another token to show; `prio task token use` replaces it"
        )
    return Conflict(f"{name} is stored with other contents")


def _encrypted(tx: Transaction, task_id: bytes, token: str | None) -> bytes | None:
    if token is None:
        return None
    return tx.crypter.encrypt("tasks", task_id, "peer_token", token.encode())


def _stored_task(tx: Transaction, row: Sequence[Any]) -> StoredTask:
    *public, verify_key, verify_key_id, token = row
    task_id, role, definition, *rest = public
    record = TaskRecord(
        task_id=task_id,
        role=role,
        definition=definition,
        verify_key=tx.crypter.decrypt("tasks", task_id, "verify_key", verify_key),
        verify_key_id=verify_key_id,
        peer_token=None
        if token is None
        else tx.crypter.decrypt("tasks", task_id, "peer_token", token).decode(),
    )
    return StoredTask(record, *rest)
