"""What a transaction relies on from its look to its commit, where several write at once.

On SQLite a transaction that writes is the only one, so all of this holds by itself. On PostgreSQL
these are advisory locks, which need no rows and end with the transaction. Who needs several takes
them in the order in which they stand here, so that no two transactions wait for each other; a job's
row is written after that. (A shard may come after it, where a count is all that is written: one is
free unless as many others write, and should two wait for each other all the same, the server ends
one, which is run again.) What a unique constraint can refuse needs no lock: whoever loses such a
race is run again, and finds what the other has stored (`engine.LostRace`). A task that is being
stored for cannot be forgotten meanwhile: whoever looks for its key keeps its row
(`Transaction.task_key`).
"""

from aggregator.service.storage.engine.database import Transaction


def ask_for_collections(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who lets the task's Collector ask for another collection."""
    tx.lock({b"collections" + task_id})


def keep_batches(tx: Transaction, task_id: bytes) -> None:
    """Keep the task's batches as open or closed as they are; many may do so at once."""
    tx.lock({b"batches" + task_id}, shared=True)


def change_batches(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who closes or opens batches of the task, while nobody keeps them."""
    tx.lock({b"batches" + task_id})


def claim_waiting(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who makes aggregation jobs of the task's reports."""
    tx.lock({b"claims" + task_id})


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
    tx.lock({b"ledger"})


def change_tokens(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who changes which tokens the task's caller may show."""
    tx.lock({b"tokens" + task_id})


def turn_generations(tx: Transaction) -> None:
    """Be the only one who empties tables of bodies, or decides to which one bodies are added."""
    tx.lock({b"generations"})


def change_keys(tx: Transaction) -> None:
    """Be the only one who makes, retires or destroys HPKE keys."""
    tx.lock({b"hpke keys"})
