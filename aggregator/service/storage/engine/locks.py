"""What a transaction relies on from its look to its commit, where several write at once.

On SQLite a transaction that writes is the only one, so all of this holds by itself. On PostgreSQL
these are advisory locks, which need no rows and end with the transaction. Who needs several takes
them in `ORDER`, so that no two transactions wait for each other; a job's row is written after that.
Tests raise where that is broken. What a unique constraint can refuse needs no lock: whoever loses
such a race is run again, and finds what the other has stored (`backends.LostRace`). A task that is
being stored for cannot be forgotten meanwhile: whoever looks for its key keeps its row
(`Transaction.task_key`).
"""

from typing import Final

from aggregator.service.storage.engine.database import Transaction

ORDER: Final = ("collections", "batches", "claims", "ledger", "tokens", "generations", "hpke keys")
"""In this order a transaction takes its locks: of one task, then those that tasks have in common.

A shard may come anywhere among them, where a count is all that is written: one is free unless as
many others write, and should two wait for each other all the same, the server ends one, which is
run again.
"""

IS_CHECKED = False
"""Whether a lock out of its order raises; set by tests. A service would rather be run again."""


class OutOfOrder(AssertionError):
    """A transaction took a lock after one that comes later."""


def _take(tx: Transaction, subject: str, task_id: bytes = b"", *, shared: bool = False) -> None:
    if IS_CHECKED and tx.is_writing:
        _check(tx, subject, task_id)
    tx.lock({subject.encode() + task_id}, shared=shared)


def _check(tx: Transaction, subject: str, task_id: bytes) -> None:
    together = [held for of, held in tx.taken.items() if of in (task_id, b"") or not task_id]
    held = [each for row in together for each in row]
    late = [other for other in held if ORDER.index(other) > ORDER.index(subject)]
    if late and subject not in held:
        raise OutOfOrder(f"{subject} after {', '.join(late)}")
    tx.taken.setdefault(task_id, []).append(subject)


def ask_for_collections(tx: Transaction, task_id: bytes) -> None:
    """Serialise the creation of the task's collection jobs."""
    _take(tx, "collections", task_id)


def keep_batches(tx: Transaction, task_id: bytes) -> None:
    """Keep the task's batches as open or closed as they are; many may do so at once."""
    _take(tx, "batches", task_id, shared=True)


def change_batches(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who closes or opens batches of the task, while nobody keeps them."""
    _take(tx, "batches", task_id)


def claim_waiting(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who makes aggregation jobs of the task's reports."""
    _take(tx, "claims", task_id)


def own_shard(tx: Transaction, task: int) -> int:
    """Be the only one who adds to a shard of the task's rows; return its number, always the same.

    Rows that many transactions add to come in shards, which readers add up: those of buckets, of
    reports that wait and of counters. Each shard has one writer at a time, which takes one that is
    free, so a transaction finds nobody in its rows, and there are no more shards than writers were
    at once.

    Args:
        tx: The transaction.
        task: The task's key.
    """
    shard = tx.shards.get(task)
    if shard is None:
        shard = tx.shards[task] = tx.lock_one_of(_shards(tx, task))
    return shard


def own_all_shards(tx: Transaction, task: int) -> None:
    """Be the only one who adds to the task's rows that come in shards.

    Who owns one shard already may meet another such transaction; one of both is then run again.
    """
    tx.lock(set(_shards(tx, task)))
    tx.shards.setdefault(task, 0)


def _shards(tx: Transaction, task: int) -> list[bytes]:
    return [b"shard%d:%d" % (shard, task) for shard in range(tx.backend.shards)]


def spend(tx: Transaction) -> None:
    """Be the only one who spends, or says what may be spent: tasks may have it in common."""
    _take(tx, "ledger")


def change_tokens(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who changes which tokens the task's caller may show."""
    _take(tx, "tokens", task_id)


def turn_generations(tx: Transaction) -> None:
    """Be the only one who empties tables of bodies, or decides to which one bodies are added."""
    _take(tx, "generations")


def change_keys(tx: Transaction) -> None:
    """Be the only one who makes, retires or destroys HPKE keys."""
    _take(tx, "hpke keys")
