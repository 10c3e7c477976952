"""Releases our noised aggregate share of a batch once, then repeats the stored bytes.

Everything that may refuse comes first, and the batch is added up. Then, in one transaction with
the same checks, the noise is drawn, the sum sealed and stored, the ledger charged, the batch marked
collected and the un-noised shares destroyed.

Source: DAP, "Obtaining Aggregate Shares".
"""

import dataclasses
import hashlib

from aggregator.codec import decode, encode
from aggregator.dap.messages import AggregateShare, AggregateShareReq
from aggregator.dap.problems import BatchOverlap, CollectionFailed, NameTaken
from aggregator.dap.profile import Role
from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.protocol.collection import check_aggregate_share_request, check_agreement, release
from aggregator.protocol.task import Task
from aggregator.service.runtime import Runtime, ServedTask, charge_of, check_limits
from aggregator.service.runtime.release_steps import MergedBatch, merge_batch
from aggregator.service.storage.batches.closed import closed_batches
from aggregator.service.storage.batches.lost_keys import lost_for_good
from aggregator.service.storage.batches.sums import check_unchanged, summarize_batch
from aggregator.service.storage.engine import locks
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregate_shares import (
    NewAggregateShare,
    StoredAggregateShare,
    find_aggregate_share,
    is_share_named,
    put_aggregate_share,
)
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.tracing import span
from aggregator.vdaf.aggregation_parameter import AggregationParameter


class AggregateShares:
    """The helper's side of collections."""

    def __init__(self, runtime: Runtime) -> None:
        """Answer for `runtime`."""
        self._runtime = runtime

    async def answer(
        self, served: ServedTask, body: bytes, share_id: bytes | None = None
    ) -> StoredAggregateShare:
        """Return the released share of a batch; release it the first time.

        Args:
            served: The task.
            body: The exact request.
            share_id: The name of a new share, if its leader chose one.

        Raises:
            Abort: The request is refused: nothing is drawn, stored or destroyed.
        """
        task, database = served.task, self._runtime.database
        request = decode(AggregateShareReq, body)
        asked = _ShareRequest(
            task,
            request,
            check_aggregate_share_request(task, request),
            hashlib.sha256(body).digest(),
            share_id,
        )
        found = await database.read("find aggregate share", asked.found_or_allowed)
        if found is not None:
            return found
        if lost := await lost_for_good(database, task.task_id.value, asked.batch):
            # The same request may have been answered meanwhile, and its answer counts.
            found = await database.read("find aggregate share", asked.found_or_allowed)
            if found is not None:
                return found
            raise _lost_keys(task, len(lost))
        vdaf = task.vdaf(AggregationParameter(request.collection_job_req.agg_param))
        merged = await merge_batch(database, task, vdaf, asked.batch)
        with span("release batch", reports=merged.totals.report_count):
            return await database.run("release batch", lambda tx: self._release(tx, asked, merged))

    def _release(
        self, tx: Transaction, asked: "_ShareRequest", merged: MergedBatch
    ) -> StoredAggregateShare:
        task = asked.task
        locks.change_batches(tx, task.task_id.value)  # what is read now is what is released
        found = asked.found(tx)
        if found is not None:
            return found
        asked.check(tx, merged.totals)
        check_unchanged(tx, task.task_id.value, asked.batch, merged.totals)
        sealed = release(
            task,
            Role.HELPER,
            merged.agg_share,
            asked.request.collection_job_req,
            self._runtime.entropy,
        )
        share = NewAggregateShare(
            selector=asked.selector,
            body_sha256=asked.digest,
            response=encode(AggregateShare(sealed)),
            batch=asked.batch,
            report_count=merged.totals.report_count,
            share_id=asked.share_id,
        )
        return put_aggregate_share(
            tx, task.task_id.value, share, charge_of(task, asked.request.collection_job_req)
        )


def _lost_keys(task: Task, sums: int) -> CollectionFailed:
    """Say that sums cannot be read any more, which waiting does not mend."""
    log.error("a batch has lost its keys", sums=sums)
    return CollectionFailed(
        f"the helper has lost the keys of {sums:,} of the batch's sums", task.task_id
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _ShareRequest:
    """A request for a share: what is refused before the batch is read and again at its release."""

    task: Task
    request: AggregateShareReq
    batch: Batch
    digest: bytes  # SHA-256 of the request's bytes
    share_id: bytes | None  # the name that the leader chose

    @property
    def selector(self) -> bytes:
        return encode(self.request.batch_selector)

    def found_or_allowed(self, tx: Transaction) -> StoredAggregateShare | None:
        """Return what was released for this request; None if it may be released now."""
        found = self.found(tx)
        if found is None:
            self.check(tx, summarize_batch(tx, self.task.task_id.value, self.batch))
        return found

    def found(self, tx: Transaction) -> StoredAggregateShare | None:
        """Return what was released for exactly this request."""
        found = find_aggregate_share(tx, self.task.task_id.value, self.selector)
        if found is None or found.body_sha256 != self.digest or found.response is None:
            return None
        return found

    def check(self, tx: Transaction, totals: BatchTotals) -> None:
        """Refuse what may not be released."""
        task, task_id = self.task, self.task.task_id.value
        if closed_batches(tx, task_id, self.batch).overall() is not None:
            raise BatchOverlap("a part of the batch was collected before", task.task_id)
        if self.share_id is not None and is_share_named(tx, self.share_id):
            raise NameTaken("another aggregate share has it", task.task_id)
        check_agreement(task, self.request, totals)
        check_limits(tx, task)
