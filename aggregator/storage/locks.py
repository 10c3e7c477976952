"""What a transaction relies on from its look to its commit, where several write at once.

On SQLite a transaction that writes is the only one, so all of this holds by itself. On PostgreSQL
these are advisory locks, which need no rows and end with the transaction. Who needs several takes
them in the order in which they stand here, so that no two transactions wait for each other; a job's
row is written after that. What a unique constraint can refuse needs no lock: whoever loses such a
race is run again, and finds what the other has stored (`engine.LostRace`). A task that is being
stored for cannot be forgotten meanwhile: whoever looks for its key keeps its row
(`Transaction.task_key`).
"""

import zlib
from collections.abc import Collection, Mapping

from aggregator.protocol.batches import Batch
from aggregator.storage.database import Transaction

_STRIPES = 64


def keep_batches(tx: Transaction, task_id: bytes) -> None:
    """Keep the task's batches as open or closed as they are; many may do so at once."""
    tx.lock({b"batches" + task_id}, shared=True)


def change_batches(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who closes or opens batches of the task, while nobody keeps them."""
    tx.lock({b"batches" + task_id})


def fill_batches(tx: Transaction, task_id: bytes, batches: Mapping[bytes, Batch]) -> None:
    """Be the only one who adds to buckets, or stores reports for them, or for their batches.

    Args:
        tx: The transaction.
        task_id: The task.
        batches: The smallest batch that each bucket can be collected in, by the bucket's key.
    """
    fill_buckets(tx, task_id, {*batches, *(batch.first for batch in batches.values())})


def fill_buckets(tx: Transaction, task_id: bytes, buckets: Collection[bytes]) -> None:
    """Be the only one who adds to these buckets, or stores reports for them.

    The server holds so many locks and no more, so a task has 64 at most, and several buckets share
    one.
    """
    tx.lock({b"buckets%d:" % (zlib.crc32(bucket) % _STRIPES) + task_id for bucket in buckets})


def claim_waiting(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who makes aggregation jobs of the task's reports."""
    tx.lock({b"claims" + task_id})


def spend(tx: Transaction) -> None:
    """Be the only one who spends, or says what may be spent: tasks may have it in common."""
    tx.lock({b"ledger"})


def change_tokens(tx: Transaction, task_id: bytes) -> None:
    """Be the only one who changes which tokens the task's caller may show."""
    tx.lock({b"tokens" + task_id})


def change_keys(tx: Transaction) -> None:
    """Be the only one who makes, retires or destroys HPKE keys."""
    tx.lock({b"hpke keys"})
