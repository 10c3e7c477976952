"""Deletes an ended task with all that it has stored, except what its releases cost.

Its row stays, with its public definition: the ledger needs it to say what was released, and the
task's population to say what was spent. A forgotten task can never be added again: the ids of its
reports are gone, so they could be counted a second time.
"""

from sqlalchemy import Table, delete, literal, select, tuple_, update

from aggregator.dap.ids import encode_base64url
from aggregator.service.storage.batches.closed import destroy_shares
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionJobState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.tasks.version import settings_changed

ROWS_PER_STEP = 1000
_KEPT = (tables.ledger,)
_OF_TASK = [
    table
    for table in reversed(tables.metadata.sorted_tables)  # rows that refer to others come first
    if "task" in table.c and table not in _KEPT
]


def forget(database: Database, task_id: bytes) -> None:
    """Forget a task in short transactions; if this is interrupted, call it again.

    Raises:
        UnknownTask: There is no such task.
        Conflict: It has not ended, or one of its batches is being collected.
    """
    database.run_sync("forget task", lambda tx: begin_to_forget(tx, task_id))
    while database.run_sync("forget rows", forget_some):
        pass


def begin_to_forget(tx: Transaction, task_id: bytes) -> None:
    """Destroy the task's secrets and un-noised sums, and stop serving it; raises as `forget`."""
    task = tables.tasks.c
    locks.change_batches(tx, task_id)
    # Transactions that store for the task lock its row: they are done, or will find no such task.
    query = select(task.ended_at, task.forgotten_at).where(task.task_id == task_id)
    found = tx.connection.execute(query.with_for_update()).one_or_none()
    if found is not None and found.forgotten_at is not None:
        return
    key, name = tx.task_key(task_id), encode_base64url(task_id)
    if found is None or found.ended_at is None:
        raise tx.refuse(Conflict(f"task {name} has not ended; `prio task end` ends it"))
    job = tables.collection_jobs.c
    frozen = select(job.job_id).where(job.task == key, job.state == CollectionJobState.FROZEN)
    job_id = tx.connection.execute(frozen.limit(1)).scalar()
    if job_id is not None:
        raise tx.refuse(
            Conflict(
                f"a batch of task {name} is being collected: wait for it, or give the job "
                f"{job_id.hex()} up with `prio job abandon`"
            )
        )
    settings_changed(tx)
    destroy_shares(tx, task_id)
    values = {
        "forgotten_at": tx.now,
        "verify_key": tx.crypter.encrypt("tasks", task_id, "verify_key", b""),
        "peer_token": None,
    }
    tx.connection.execute(update(tables.tasks).where(task.id == key).values(**values))
    _end_domain(tx, key)
    tx.scrub_log = True


def _end_domain(tx: Transaction, task: int) -> None:
    """Let no task have the domain of a task that was just forgotten, if it was the last."""
    domain = tables.permit_domains.c
    of_task = select(tables.tasks.c.permit_domain).where(tables.tasks.c.id == task)
    key = tx.connection.execute(of_task).scalar_one()
    if key is None:
        return
    tx.connection.execute(select(domain.id).where(domain.id == key).with_for_update())
    others = select(tables.tasks.c.id).where(
        tables.tasks.c.permit_domain == key, tables.tasks.c.forgotten_at.is_(None)
    )
    if tx.connection.execute(others.limit(1)).first() is None:
        ended = update(tables.permit_domains).where(domain.id == key)
        tx.connection.execute(ended.values(forgotten_at=tx.now))


def forget_some(tx: Transaction) -> int:
    """Delete some rows of forgotten tasks; return how many, 0 if they have none left."""
    task = tables.tasks.c
    left = select(task.id).where(task.forgotten_at.is_not(None), task.emptied_at.is_(None))
    for key in tx.connection.execute(left).scalars().all():
        for table in _OF_TASK:
            deleted = _delete_some(tx, table, key)
            if deleted:
                tx.scrub_log = True
                return deleted
        # No more rows can come: all transactions that could store some ended before.
        done = update(tables.tasks).where(task.id == key).values(emptied_at=tx.now)
        tx.connection.execute(done)
    return _forget_permits(tx)


def _forget_permits(tx: Transaction) -> int:
    """Delete some permits of domains whose tasks are all forgotten; return how many rows."""
    for key in tx.connection.execute(_FORGOTTEN_DOMAINS).scalars().all():
        for table in (tables.permits, tables.spent_permits):
            deleted = _delete_some(tx, table, key, "domain")
            if deleted:
                return deleted
    return 0


_FORGOTTEN_DOMAINS = select(tables.permit_domains.c.id).where(
    tables.permit_domains.c.forgotten_at.is_not(None)
)


def _delete_some(tx: Transaction, table: Table, task: int, name: str = "task") -> int:
    """Delete some rows of a task, or of a domain, without looking at others or at any twice."""
    of_task = table.c[name] == task
    if "id" in table.c:
        some = select(table.c.id).where(of_task).limit(ROWS_PER_STEP)
        return tx.connection.execute(delete(table).where(table.c.id.in_(some))).rowcount
    keys = [column for column in table.primary_key if column.name != name]
    if not keys:  # a task has one row
        return tx.connection.execute(delete(table).where(of_task)).rowcount
    in_order = select(*keys).where(of_task).order_by(*keys)
    last = tx.connection.execute(in_order.offset(ROWS_PER_STEP - 1).limit(1)).one_or_none()
    first = delete(table).where(of_task)
    if last is not None:
        values = (literal(value, key.type) for value, key in zip(last, keys, strict=True))
        first = first.where(tuple_(*keys) <= tuple_(*values))
    return tx.connection.execute(first).rowcount
