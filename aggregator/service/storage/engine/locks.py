"""Locks on what a transaction has read and relies on until it commits, if several write at once.

On SQLite a writing transaction is the only one, so these locks do nothing. On PostgreSQL they are
advisory locks, which need no rows and end with the transaction. They are taken in `ORDER`, and none
is shared first and then taken alone, so that no two transactions deadlock; a job's row is written
only after that. In tests, anything else raises. Where a unique constraint decides, no lock is
needed: the transaction that loses such a race is run again, and finds what the other has stored
(`backends.LostRace`). A task cannot be forgotten while a transaction stores something for it, since
`Transaction.task_key` locks the task's row.
"""

from typing import Final

from aggregator.service.storage.engine.transaction import Transaction

ORDER: Final = (
    "new tasks",
    "collections",
    "batches",
    "permits",
    "claims",
    "deferred",
    "answers",
    "ledger",
    "tokens",
    "generations",
    "hpke keys",
)
"""In this order a transaction takes its locks: the first if it adds tasks, then those of one task
and of its domain of permits, then the others that tasks have in common.

A shard's lock may come anywhere in between, where only counts are written: one is free unless as
many others write. Should two transactions deadlock all the same, the server ends one, which is run
again.
"""

IS_CHECKED = False
"""Whether a lock taken out of order raises. Tests set it; a service rather retries a deadlock."""


class OutOfOrder(AssertionError):
    """A transaction took a lock after one that comes later in `ORDER`."""


def _take(tx: Transaction, subject: str, task_id: bytes = b"", *, shared: bool = False) -> None:
    if IS_CHECKED and tx.is_writing:
        _check(tx, subject, task_id, shared=shared)
    tx.lock({subject.encode() + task_id}, shared=shared)


def _check(tx: Transaction, subject: str, task_id: bytes, *, shared: bool) -> None:
    together = [taken for of, taken in tx.taken.items() if of in (task_id, b"") or not task_id]
    held = {each: is_shared for taken in together for each, is_shared in taken.items()}
    late = [other for other in held if ORDER.index(other) > ORDER.index(subject)]
    if late and subject not in held:
        raise OutOfOrder(f"{subject} after {', '.join(late)}")
    if held.get(subject) and not shared:
        raise OutOfOrder(f"{subject} alone after sharing it: two such would wait for each other")
    tx.taken.setdefault(task_id, {}).setdefault(subject, shared)


def add_tasks(tx: Transaction) -> None:
    """Serialise the adding of tasks: a new one is compared with all that are there."""
    _take(tx, "new tasks")


def ask_for_collections(tx: Transaction, task_id: bytes) -> None:
    """Serialise the creation of the task's collection jobs."""
    _take(tx, "collections", task_id)


def keep_batches(tx: Transaction, task_id: bytes) -> None:
    """Keep the task's batches from being closed or reopened; many may do so at once."""
    _take(tx, "batches", task_id, shared=True)


def change_batches(tx: Transaction, task_id: bytes) -> None:
    """Serialise closing and reopening of the task's batches, also against `keep_batches`."""
    _take(tx, "batches", task_id)


def keep_permits(tx: Transaction, domain: bytes) -> None:
    """Keep the permits of a domain from being replaced or ended; many may do so at once."""
    _take(tx, "permits", domain, shared=True)


def change_permits(tx: Transaction, domain: bytes) -> None:
    """Serialise changes of a domain's permits, also against `keep_permits`."""
    _take(tx, "permits", domain)


def claim_waiting(tx: Transaction, task_id: bytes) -> None:
    """Serialise the creation of the task's aggregation jobs."""
    _take(tx, "claims", task_id)


def defer_jobs(tx: Transaction, task_id: bytes) -> None:
    """Serialise the deferring of the task's jobs."""
    _take(tx, "deferred", task_id)


def count_answers(tx: Transaction) -> None:
    """Serialise the hourly count of answers, so that there is one."""
    _take(tx, "answers")


def own_shard(tx: Transaction, task: int) -> int:
    """Lock one shard of the task's rows for adding; return its number, fixed for the transaction.

    The rows of buckets, waiting reports and counters, to which many transactions add, come in
    shards, which readers add up. Each writer takes a free shard, so it never waits for another
    writer's rows, and there are no more shards than there were writers at once.

    Args:
        tx: The transaction.
        task: The task's key.
    """
    shard = tx.shards.get(task)
    if shard is None:
        shard = tx.shards[task] = tx.lock_one_of(_shards(tx, task))
    return shard


def own_all_shards(tx: Transaction, task: int) -> None:
    """Lock all shards of the task's rows for adding.

    A transaction that owns a shard already may deadlock with another such one; one is then run
    again.
    """
    tx.lock(set(_shards(tx, task)))
    tx.shards.setdefault(task, 0)


def _shards(tx: Transaction, task: int) -> list[bytes]:
    return [b"shard%d:%d" % (shard, task) for shard in range(tx.backend.shards)]


def spend(tx: Transaction) -> None:
    """Serialise charges and changes of budgets, which several tasks may share."""
    _take(tx, "ledger")


def change_tokens(tx: Transaction, task_id: bytes) -> None:
    """Serialise changes of the tokens that the task's caller may show."""
    _take(tx, "tokens", task_id)


def rotate_generations(tx: Transaction) -> None:
    """Serialise the emptying of tables of bodies, and the choice of the one to add bodies to."""
    _take(tx, "generations")


def change_keys(tx: Transaction) -> None:
    """Serialise the making, retiring and destroying of HPKE keys."""
    _take(tx, "hpke keys")
