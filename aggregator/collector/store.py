"""The Collector's own store: its tasks, and every collection it asked for with its outcome."""

import dataclasses
from collections.abc import Sequence

from sqlalchemy import Row, delete, func, insert, or_, select, update

from aggregator.dap.ids import encode_base64url
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.secret_columns import prove_store_key
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction, UnknownTask

_HAS_JOB = (CollectionState.PENDING, CollectionState.ABANDONED)
"""The states in which the Leader may still keep a collection's job."""


@dataclasses.dataclass(frozen=True, slots=True)
class CollectorTask:
    """A task as the Collector knows it: the public task file, and the token that it shows."""

    task_id: bytes
    definition: str
    token: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class NewCollection:
    """A batch to collect, under a random id of 16 bytes, by an exact CollectionJobReq.

    `asks_for_next` says whether equal requests ask for one batch after the other.
    """

    collection_id: bytes
    task_id: bytes
    request: bytes
    asks_for_next: bool


@dataclasses.dataclass(frozen=True, slots=True)
class StoredCollection:
    """A collection and its state.

    Attributes:
        collection_id: Our own random name for it, 16 bytes.
        task_id: 32 bytes.
        request: The exact CollectionJobReq.
        location: Where the Leader keeps the job, once it has answered; for an abandoned collection,
            until the Leader has been told.
        state: Where it is in its life.
        reason: Why it waits: its latest obstacle. For an abandoned collection: why the Leader has
            not been told yet.
        result: The result, JSON; None unless finished.
        problem: Why it failed or was abandoned, JSON; None otherwise.
        created_at: Seconds.
        ended_at: Seconds; None while pending.
    """

    collection_id: bytes
    task_id: bytes
    request: bytes = dataclasses.field(repr=False)
    location: str | None
    state: CollectionState
    reason: str | None
    result: str | None
    problem: str | None
    created_at: int
    ended_at: int | None


def put_collector_task(tx: Transaction, task: CollectorTask) -> None:
    """Store a task; storing the same task again changes nothing.

    Raises `Conflict` if the id is that of a task with another definition or token, and
    `CrypterError`: see `prove_store_key`.
    """
    stored = get_collector_task(tx, task.task_id)
    if stored is not None:
        if stored != task:
            raise tx.refuse(
                Conflict(f"task {encode_base64url(task.task_id)} is stored with other contents")
            )
        return
    prove_store_key(tx)
    tx.connection.execute(
        insert(tables.collector_tasks).values(
            task_id=task.task_id,
            definition=task.definition,
            token=_encrypted(tx, task.task_id, task.token),
            created_at=tx.now,
        )
    )


def forget_collector_task(tx: Transaction, task_id: bytes, *, results_too: bool) -> None:
    """Delete a task with its collections, unless one may still be under way.

    Those that have a result are deleted only if the results are to go, too.
    """
    columns = tables.collections.c
    query = select(columns.state).where(columns.task_id == task_id).distinct()
    states = {CollectionState(each) for each in tx.connection.execute(query).scalars()}
    kept = {*_HAS_JOB, *(() if results_too else (CollectionState.FINISHED,))}
    if states.isdisjoint(kept):
        for table in (tables.collections, tables.collector_tasks):
            tx.connection.execute(delete(table).where(table.c.task_id == task_id))


def replace_token(tx: Transaction, task_id: bytes, token: str) -> None:
    """Show another token to the Leader from now on; raises `UnknownTask`."""
    columns = tables.collector_tasks.c
    stored = _encrypted(tx, task_id, token)
    done = tx.connection.execute(
        update(tables.collector_tasks).where(columns.task_id == task_id).values(token=stored)
    )
    if not done.rowcount:
        raise tx.refuse(UnknownTask(f"this collector has no task {encode_base64url(task_id)}"))


def get_collector_task(tx: Transaction, task_id: bytes) -> CollectorTask | None:
    """Return the task with this id, if any."""
    columns = tables.collector_tasks.c
    query = select(tables.collector_tasks).where(columns.task_id == task_id)
    row = tx.connection.execute(query).one_or_none()
    return None if row is None else _task(tx, row)


def get_definition(tx: Transaction, task_id: bytes) -> str | None:
    """Return the public task file of a task, if there is one; nothing is decrypted."""
    columns = tables.collector_tasks.c
    query = select(columns.definition).where(columns.task_id == task_id)
    return tx.connection.execute(query).scalar_one_or_none()


def list_definitions(tx: Transaction) -> list[str]:
    """Return the public task files of all tasks, oldest first; nothing is decrypted."""
    columns = tables.collector_tasks.c
    query = select(columns.definition).order_by(columns.created_at)
    return list(tx.connection.execute(query).scalars())


def task_added_at(tx: Transaction, task_id: bytes) -> int:
    """Return when the collector got one of its tasks, in seconds."""
    columns = tables.collector_tasks.c
    added_at: int = tx.connection.execute(
        select(columns.created_at).where(columns.task_id == task_id)
    ).scalar_one()
    return added_at


def find_collection(tx: Transaction, collection: NewCollection) -> StoredCollection | None:
    """Return the collection of the same batch, if any.

    Failed collections do not count, since the batch may have been too small then; nor do abandoned
    ones. Where the Leader selects batches, finished ones do not count either: the next batch is
    new.
    """
    live = [CollectionState.PENDING]
    if not collection.asks_for_next:
        live.append(CollectionState.FINISHED)
    columns = tables.collections.c
    same = select(tables.collections).where(
        columns.task_id == collection.task_id,
        columns.request == collection.request,
        columns.state.in_(live),
    )
    row = tx.connection.execute(same).one_or_none()
    return None if row is None else _collection(row)


def is_requested(tx: Transaction, task_id: bytes, request: bytes) -> bool:
    """Return whether there is a collection of exactly this request, in any state."""
    columns = tables.collections.c
    query = select(columns.id).where(columns.task_id == task_id, columns.request == request)
    return tx.connection.execute(query.limit(1)).scalar() is not None


def put_collection(tx: Transaction, collection: NewCollection) -> StoredCollection:
    """Store a collection before the Leader is asked; return the batch's earlier one if any."""
    found = find_collection(tx, collection)
    if found is not None:
        return found
    tx.connection.execute(
        insert(tables.collections).values(
            collection_id=collection.collection_id,
            task_id=collection.task_id,
            request=collection.request,
            state=CollectionState.PENDING,
            created_at=tx.now,
        )
    )
    columns = tables.collections.c
    stored = select(tables.collections).where(columns.collection_id == collection.collection_id)
    return _collection(tx.connection.execute(stored).one())


def get_collection(tx: Transaction, collection_id: bytes) -> StoredCollection | None:
    """Return the collection with this id, if any."""
    query = select(tables.collections).where(tables.collections.c.collection_id == collection_id)
    row = tx.connection.execute(query).one_or_none()
    return None if row is None else _collection(row)


def list_collections(
    tx: Transaction, task_id: bytes | None = None, state: CollectionState | None = None
) -> list[StoredCollection]:
    """Return collections, oldest first: of one task or all, in one state or any."""
    columns = tables.collections.c
    query = select(tables.collections).order_by(columns.id)
    if task_id is not None:
        query = query.where(columns.task_id == task_id)
    if state is not None:
        query = query.where(columns.state == state)
    return [_collection(row) for row in tx.connection.execute(query)]


def newest_collections(
    tx: Transaction, task_id: bytes, most: int | None = None, state: CollectionState | None = None
) -> list[StoredCollection]:
    """Return a task's newest collections, newest first: `most` at most, in one state or any."""
    columns = tables.collections.c
    query = select(tables.collections).where(columns.task_id == task_id).order_by(columns.id.desc())
    if state is not None:
        query = query.where(columns.state == state)
    return [_collection(row) for row in tx.connection.execute(query.limit(most))]


def finished_requests(
    tx: Transaction, task_ids: Sequence[bytes], most: int
) -> list[tuple[bytes, bytes, bytes]]:
    """Return the newest finished collections of some tasks, without their results.

    Returns the task, the id and the exact request of each, the oldest first.
    """
    columns = tables.collections.c
    query = (
        select(columns.task_id, columns.collection_id, columns.request)
        .where(columns.task_id.in_(task_ids), columns.state == CollectionState.FINISHED)
        .order_by(columns.id.desc())
        .limit(most)
    )
    return [(row[0], row[1], row[2]) for row in tx.connection.execute(query)][::-1]


def count_collections(tx: Transaction, task_id: bytes, state: CollectionState) -> int:
    """Return how many collections of a task are in a state."""
    columns = tables.collections.c
    count: int = tx.connection.execute(
        select(func.count()).where(columns.task_id == task_id, columns.state == state)
    ).scalar_one()
    return count


def list_unannounced_collections(tx: Transaction, task_id: bytes) -> list[StoredCollection]:
    """Return a task's collections that have ended and that no webhook was told of."""
    columns = tables.collections.c
    query = (
        select(tables.collections)
        .where(
            columns.task_id == task_id,
            columns.state != CollectionState.PENDING,
            columns.announced_at.is_(None),
        )
        .order_by(columns.id)
    )
    return [_collection(row) for row in tx.connection.execute(query)]


def announce_collection(tx: Transaction, collection_id: bytes) -> None:
    """Remember that a webhook was told of a collection's end, or that none will be."""
    columns = tables.collections.c
    tx.connection.execute(
        update(tables.collections)
        .where(columns.collection_id == collection_id)
        .values(announced_at=tx.now)
    )


def is_finished(tx: Transaction, task_id: bytes, location: str) -> bool:
    """Return whether the result of the Leader's job at `location` is stored."""
    columns = tables.collections.c
    query = select(columns.id).where(
        columns.task_id == task_id,
        columns.location == location,
        columns.state == CollectionState.FINISHED,
    )
    return tx.connection.execute(query).first() is not None


def set_location(tx: Transaction, collection_id: bytes, location: str) -> None:
    """Remember where the Leader keeps the job, even if the collection was abandoned meanwhile."""
    _update(tx, collection_id, _HAS_JOB, location=location)


def note_reason(tx: Transaction, collection_id: bytes, reason: str | None) -> None:
    """Remember why a collection waits; None if its batch is merely not ready."""
    _update(tx, collection_id, _HAS_JOB, reason=reason)


def finish_collection(tx: Transaction, collection_id: bytes, result: str) -> bool:
    """Store the result of a pending collection, JSON; return whether it was still pending."""
    return _end(tx, collection_id, state=CollectionState.FINISHED, result=result)


def fail_collection(tx: Transaction, collection_id: bytes, problem: str) -> bool:
    """Store why a pending collection fails, JSON; return whether it was still pending."""
    return _end(tx, collection_id, state=CollectionState.FAILED, problem=problem)


def abandon_collection(tx: Transaction, collection_id: bytes, problem: str) -> bool:
    """Give a pending collection up, with a problem document; return whether it was pending."""
    return _end(tx, collection_id, state=CollectionState.ABANDONED, problem=problem)


def list_untold_collections(tx: Transaction) -> list[StoredCollection]:
    """Return abandoned collections whose job the Leader has not been told to delete.

    Without those whose batch was asked for again, if the new collection goes on with the same job,
    or may do so.
    """
    columns, again = tables.collections.c, tables.collections.alias()
    asked_again = (
        select(again.c.id)
        .where(
            again.c.task_id == columns.task_id,
            again.c.request == columns.request,
            again.c.state == CollectionState.PENDING,
            or_(again.c.location.is_(None), again.c.location == columns.location),
        )
        .exists()
    )
    query = select(tables.collections).where(
        columns.state == CollectionState.ABANDONED, columns.location.is_not(None), ~asked_again
    )
    return [_collection(row) for row in tx.connection.execute(query.order_by(columns.id))]


def note_told(tx: Transaction, collection_id: bytes) -> None:
    """Remember that the Leader was told that a collection is abandoned."""
    _update(tx, collection_id, (CollectionState.ABANDONED,), location=None, reason=None)


def _end(tx: Transaction, collection_id: bytes, **values: object) -> bool:
    pending = (CollectionState.PENDING,)
    return _update(tx, collection_id, pending, reason=None, ended_at=tx.now, **values)


def _update(
    tx: Transaction, collection_id: bytes, states: Sequence[CollectionState], **values: object
) -> bool:
    columns = tables.collections.c
    found = columns.collection_id == collection_id, columns.state.in_(states)
    return (
        tx.connection.execute(update(tables.collections).where(*found).values(**values)).rowcount
        == 1
    )


def _encrypted(tx: Transaction, task_id: bytes, token: str) -> bytes:
    return tx.crypter.encrypt("collector_tasks", task_id, "token", token.encode())


def _task(tx: Transaction, row: Row[tuple[object, ...]]) -> CollectorTask:
    columns = row._mapping  # noqa: SLF001  SQLAlchemy's public name, underscored against clashes
    task_id: bytes = columns["task_id"]
    token = tx.crypter.decrypt("collector_tasks", task_id, "token", columns["token"])
    return CollectorTask(task_id, columns["definition"], token.decode())


def _collection(row: Row[tuple[object, ...]]) -> StoredCollection:
    columns = row._mapping  # noqa: SLF001  as above
    return StoredCollection(
        **{
            field.name: columns[field.name]
            for field in dataclasses.fields(StoredCollection)
            if field.name != "state"
        },
        state=CollectionState(columns["state"]),
    )
