"""Releases our noised aggregate share of a batch once, then repeats the stored bytes.

Everything that may refuse comes first. Then, in the same transaction as the checks, the noise is
drawn, the sum sealed and stored, the ledger charged, the batch marked collected and the un-noised
shares destroyed.

Source: DAP, "Obtaining Aggregate Shares".
"""

import hashlib

from aggregator.codec import decode, encode
from aggregator.dap.messages import AggregateShare, AggregateShareReq
from aggregator.dap.problems import BatchOverlap
from aggregator.dap.profile import Role
from aggregator.protocol.batches import Batch
from aggregator.protocol.buckets import merge_agg_shares
from aggregator.protocol.collection import (
    check_aggregate_share_request,
    check_agreement,
    release,
)
from aggregator.runtime import Runtime, ServedTask, charge_of, check_limits
from aggregator.storage.aggregate_shares import (
    NewAggregateShare,
    StoredAggregateShare,
    find_aggregate_share,
    put_aggregate_share,
)
from aggregator.storage.batches import closed_batches, read_shares, summarize_batch
from aggregator.storage.database import Transaction
from aggregator.vdaf.aggregation_parameter import AggregationParameter


class AggregateShares:
    """The helper's side of collections."""

    def __init__(self, runtime: Runtime) -> None:
        """Answer for `runtime`."""
        self._runtime = runtime

    async def answer(self, served: ServedTask, body: bytes) -> StoredAggregateShare:
        """Return the released share of a batch; release it the first time.

        Raises:
            Abort: The request is refused: nothing is drawn, stored or destroyed.
        """
        request = decode(AggregateShareReq, body)
        batch = check_aggregate_share_request(served.task, request)
        digest = hashlib.sha256(body).digest()
        return await self._runtime.database.run(
            "release batch", lambda tx: self._release(tx, served, request, batch, digest)
        )

    def _release(
        self,
        tx: Transaction,
        served: ServedTask,
        request: AggregateShareReq,
        batch: Batch,
        digest: bytes,
    ) -> StoredAggregateShare:
        task = served.task
        task_id = task.task_id.value
        selector = encode(request.batch_selector)
        found = find_aggregate_share(tx, task_id, selector)
        if found is not None and found.body_sha256 == digest and found.response is not None:
            return found
        if closed_batches(tx, task_id, batch).overall() is not None:
            raise BatchOverlap("a part of the batch was collected before", task.task_id)
        totals = summarize_batch(tx, task_id, batch)
        check_agreement(task, request, totals)
        check_limits(tx, task)
        vdaf = task.vdaf(AggregationParameter(request.collection_job_req.agg_param))
        sealed = release(
            task,
            Role.HELPER,
            merge_agg_shares(vdaf, read_shares(tx, task_id, batch)),
            request.collection_job_req,
            self._runtime.entropy,
        )
        share = NewAggregateShare(
            selector=selector,
            body_sha256=digest,
            response=encode(AggregateShare(sealed)),
            batch=batch,
            report_count=totals.report_count,
        )
        return put_aggregate_share(tx, task_id, share, charge_of(task))
