"""Bounds the collection jobs of a task at the Leader, whatever its Collector asks for.

A released job needs a batch of reports, so there are no more of these than batches. Any other job
costs the Collector one request: those that wait are bounded, and so are those that came to nothing.
"""

from sqlalchemy import delete, func, select

from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.states import CollectionJobState
from aggregator.service.storage.engine.transaction import Transaction

MOST_PENDING = 256
"""A task's jobs that have not ended, at most. Each is looked at every ten seconds, in a transaction
that writes, and by each upload; a collector that catches up asks for 200 windows at once."""

MOST_FRUITLESS = 1000
"""A task's jobs that are kept of those that came to nothing: their Collector may ask why."""

_PENDING = (CollectionJobState.OPEN, CollectionJobState.START, CollectionJobState.FROZEN)
_ENDED = (CollectionJobState.FAILED, CollectionJobState.DELETED)


def pending_collections(tx: Transaction, task_id: bytes) -> int:
    """Return how many collection jobs of a task have not ended; nobody else adds one meanwhile."""
    locks.ask_for_collections(tx, task_id)
    job = tables.collection_jobs.c
    query = select(func.count()).where(job.task == tx.task_key(task_id), job.state.in_(_PENDING))
    count: int = tx.connection.execute(query).scalar_one()
    return count


def open_collections(tx: Transaction, identity: str) -> int:
    """Return how many jobs of all tasks that name a collector have not ended, as above."""
    locks.ask_for_collections(tx, identity.encode())
    job, task = tables.collection_jobs.c, tables.tasks.c
    query = (
        select(func.count())
        .where(task.collector_identity == identity, job.state.in_(_PENDING))
        .select_from(tables.collection_jobs.join(tables.tasks, job.task == task.id))
    )
    count: int = tx.connection.execute(query).scalar_one()
    return count


def delete_fruitless_jobs(tx: Transaction, task_id: bytes, *, leader_selects: bool) -> int:
    """Delete the oldest jobs of a task that came to nothing, but the newest; return how many.

    Args:
        tx: The transaction.
        task_id: The task.
        leader_selects: Whether a job remembers that its batch was selected before: it stays, and
            is bounded by the batches.
    """
    job = tables.collection_jobs.c
    fruitless = [
        job.task == tx.task_key(task_id),
        job.state.in_(_ENDED),
        job.report_count.is_(None),
    ]
    if leader_selects:
        fruitless.append(job.first_bucket.is_(None))
    newest = select(job.id).where(*fruitless).order_by(job.id.desc())
    last = tx.connection.execute(newest.offset(MOST_FRUITLESS).limit(1)).scalar()
    if last is None:
        return 0
    return tx.connection.execute(
        delete(tables.collection_jobs).where(*fruitless, job.id <= last)
    ).rowcount
