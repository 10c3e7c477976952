"""Adds up a batch before the transaction that releases it, and deletes the shares afterwards.

The releasing transaction draws noise, charges and destroys the batch's keys, and every other writer
waits for it. So the batch is added up beforehand, in reads that hold up nobody, and the transaction
only checks that no report has joined since. The sum is not stored: after a crash it is read anew.
"""

import dataclasses

from aggregator.errors import StoreError
from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.protocol.buckets import merge_agg_shares
from aggregator.protocol.task import Task
from aggregator.service.storage.batches.leftovers import delete_some_leftovers, has_leftovers
from aggregator.service.storage.batches.sums import StoredShard, read_shards
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.tracing import span
from aggregator.vdaf.prio3 import Prio3
from field import Vector

_SHARES_PER_STEP = 256
_BYTES_PER_STEP = 2**22


@dataclasses.dataclass(frozen=True, slots=True)
class MergedBatch:
    """The un-noised sum of a batch, and the totals of its reports; secret."""

    agg_share: Vector = dataclasses.field(repr=False)
    totals: BatchTotals


async def merge_batch(database: Database, task: Task, vdaf: Prio3, batch: Batch) -> MergedBatch:
    """Return the sum of the shards of a batch's buckets, which is empty if there are none.

    Args:
        database: The store.
        task: The batch's task.
        vdaf: Its VDAF under the batch's aggregation parameter.
        batch: The batch.

    Raises:
        CrypterError: A share was changed, or its key destroyed.
    """
    share_size = vdaf.output_len * vdaf.field.encoded_size
    limit = max(1, min(_SHARES_PER_STEP, _BYTES_PER_STEP // share_size))
    merged, after = MergedBatch(vdaf.agg_init(), BatchTotals()), None

    def step(tx: Transaction) -> tuple[MergedBatch, StoredShard | None]:
        shards = read_shards(tx, task.task_id.value, batch, limit, after)
        return _merged(vdaf, merged, shards), shards[-1] if shards else None

    with span("merge batch"):
        while True:
            merged, after = await database.read("merge buckets", step)
            if after is None:
                return merged


async def delete_leftovers(database: Database) -> None:
    """Delete, in short transactions, the shares of collected batches; their keys are destroyed."""
    while await database.read("look for leftovers", has_leftovers):
        await database.run("delete leftovers", delete_some_leftovers)


async def try_delete_leftovers(database: Database) -> None:
    """Best effort: whatever cannot be deleted now is left to garbage collection."""
    try:
        await delete_leftovers(database)
    except StoreError as error:
        log.warning("shares whose keys are destroyed stay for now", reason=str(error))


def _merged(vdaf: Prio3, so_far: MergedBatch, shards: list[StoredShard]) -> MergedBatch:
    agg_share = merge_agg_shares(vdaf, [shard.share for shard in shards])
    totals = sum((shard.totals for shard in shards), so_far.totals)
    return MergedBatch(vdaf.merge([so_far.agg_share, agg_share]), totals)
