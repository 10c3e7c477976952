"""Tasks with their keys and tokens, and this aggregator's HPKE key pairs."""

import dataclasses

from sqlalchemy import Row, insert, select, update

from aggregator.dap.ids import encode_base64url
from aggregator.storage import tables
from aggregator.storage.database import Transaction
from aggregator.storage.engine import Conflict


@dataclasses.dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as an operator provisions it.

    Attributes:
        task_id: 32 bytes.
        role: Ours in it, `leader` or `helper`.
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
class StoredTask:
    """A task as it is stored. `ended_at` is in seconds, None while uploads are taken."""

    record: TaskRecord
    created_at: int
    ended_at: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class HpkeKey:
    """An HPKE key pair. `retired_at` is in seconds, None while the key is advertised."""

    config_id: int
    config: bytes
    private_key: bytes = dataclasses.field(repr=False)
    retired_at: int | None = None


def put_task(tx: Transaction, task: TaskRecord) -> None:
    """Store `task`; storing the same again changes nothing.

    Raises:
        Conflict: The id is taken by a task with another definition, key or token. A task never gets
            a second verification key: a report verified under two keys reveals its measurement.
    """
    stored = get_task(tx, task.task_id)
    if stored is not None:
        if stored.record != task:
            raise tx.refuse(_conflict(stored.record, task))
        return
    tx.connection.execute(
        insert(tables.tasks).values(
            task_id=task.task_id,
            role=task.role,
            definition=task.definition,
            verify_key_id=task.verify_key_id,
            verify_key=tx.crypter.encrypt("tasks", task.task_id, "verify_key", task.verify_key),
            peer_token=_encrypted(tx, task.task_id, task.peer_token),
            created_at=tx.now,
        )
    )


def get_task(tx: Transaction, task_id: bytes) -> StoredTask | None:
    """Return the task with this id, if any."""
    query = select(tables.tasks).where(tables.tasks.c.task_id == task_id)
    row = tx.connection.execute(query).one_or_none()
    return None if row is None else _stored_task(tx, row)


def list_tasks(tx: Transaction) -> list[StoredTask]:
    """Return all tasks, oldest first."""
    query = select(tables.tasks).order_by(tables.tasks.c.id)
    return [_stored_task(tx, row) for row in tx.connection.execute(query)]


def replace_peer_token(tx: Transaction, task_id: bytes, token: str) -> None:
    """Show another token to the Helper from now on.

    Raises:
        UnknownTask: There is no such task.
    """
    tx.connection.execute(
        update(tables.tasks)
        .where(tables.tasks.c.id == tx.task_key(task_id))
        .values(peer_token=_encrypted(tx, task_id, token))
    )


def end_task(tx: Transaction, task_id: bytes) -> None:
    """Take no more uploads for the task; what is stored can still be aggregated and collected.

    Raises:
        UnknownTask: There is no such task.
    """
    task = tables.tasks.c
    key = tx.task_key(task_id)
    tx.connection.execute(
        update(tables.tasks).where(task.id == key, task.ended_at.is_(None)).values(ended_at=tx.now)
    )


def put_hpke_key(tx: Transaction, key: HpkeKey) -> None:
    """Store a fresh key pair.

    Raises:
        Conflict: The config id is taken, perhaps by a retired key that stored reports still need.
    """
    known = {stored.config_id for stored in list_hpke_keys(tx, retired=True)}
    if key.config_id in known:
        raise tx.refuse(Conflict(f"the HPKE config id {key.config_id} is taken"))
    row = bytes([key.config_id])
    tx.connection.execute(
        insert(tables.hpke_keys).values(
            config_id=key.config_id,
            config=key.config,
            private_key=tx.crypter.encrypt("hpke_keys", row, "private_key", key.private_key),
            created_at=tx.now,
            retired_at=key.retired_at,
        )
    )


def list_hpke_keys(tx: Transaction, *, retired: bool) -> list[HpkeKey]:
    """Return the key pairs, newest first; `retired` includes those that only open old reports."""
    columns = tables.hpke_keys.c
    query = select(tables.hpke_keys).order_by(columns.created_at.desc(), columns.config_id.desc())
    if not retired:
        query = query.where(columns.retired_at.is_(None))
    return [
        HpkeKey(
            row.config_id,
            row.config,
            tx.crypter.decrypt("hpke_keys", bytes([row.config_id]), "private_key", row.private_key),
            row.retired_at,
        )
        for row in tx.connection.execute(query)
    ]


def list_hpke_configs(tx: Transaction, *, retired: bool) -> list[bytes]:
    """Return the public halves of `list_hpke_keys`; no private key is decrypted."""
    columns = tables.hpke_keys.c
    query = select(columns.config).order_by(columns.created_at.desc(), columns.config_id.desc())
    if not retired:
        query = query.where(columns.retired_at.is_(None))
    return list(tx.connection.execute(query).scalars())


def retire_hpke_key(tx: Transaction, config_id: int) -> None:
    """Stop advertising the key; it is kept to open the reports that were made for it."""
    columns = tables.hpke_keys.c
    tx.connection.execute(
        update(tables.hpke_keys)
        .where(columns.config_id == config_id, columns.retired_at.is_(None))
        .values(retired_at=tx.now)
    )


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


def _stored_task(tx: Transaction, row: Row[tuple[object, ...]]) -> StoredTask:
    columns = row._mapping  # noqa: SLF001  SQLAlchemy's public name, underscored against clashes
    task_id: bytes = columns["task_id"]
    token: bytes | None = columns["peer_token"]
    record = TaskRecord(
        task_id=task_id,
        role=columns["role"],
        definition=columns["definition"],
        verify_key=tx.crypter.decrypt("tasks", task_id, "verify_key", columns["verify_key"]),
        verify_key_id=columns["verify_key_id"],
        peer_token=None
        if token is None
        else tx.crypter.decrypt("tasks", task_id, "peer_token", token).decode(),
    )
    return StoredTask(record, columns["created_at"], columns["ended_at"])
