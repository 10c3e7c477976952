"""Adds verified reports to their buckets, the same for both aggregators."""

from aggregator.dap.ids import ReportId
from aggregator.dap.report_errors import ReportError
from aggregator.protocol.aggregation import Verified
from aggregator.protocol.batches import Batch
from aggregator.protocol.buckets import BucketShare, add_to_agg_share
from aggregator.protocol.replay import refusal
from aggregator.storage.batches import accumulate, closed_batches
from aggregator.storage.database import Transaction
from aggregator.storage.report_ids import record_ids
from aggregator.storage.tables import aggregated_reports


def commit(tx: Transaction, verified: Verified) -> dict[ReportId, ReportError]:
    """Add verified reports to their buckets and remember their ids.

    Returns:
        The reports that were left out because they are late or replayed.
    """
    accepted = verified.accepted
    if not accepted:
        return {}
    task = verified.task
    task_id = task.task_id.value
    buckets = [verified.bucket(metadata) for metadata in accepted]
    closed = closed_batches(tx, task_id, Batch.spanning(buckets))
    arrivals = [
        (metadata.report_id.value, bucket in closed)
        for metadata, bucket in zip(accepted, buckets, strict=True)
    ]
    seen = record_ids(tx, aggregated_reports, task_id, arrivals)
    refused = {}
    for metadata, is_seen, (_, is_closed) in zip(accepted, seen, arrivals, strict=True):
        error = refusal(is_seen=is_seen, is_closed=is_closed)
        if error is not None:
            refused[metadata.report_id] = error
    for share in verified.bucket_shares(refused):

        def merge(stored: bytes | None, share: BucketShare = share) -> bytes:
            return add_to_agg_share(verified.vdaf, stored, share.agg_share)

        accumulate(tx, task_id, share.bucket, merge, share.totals)
    return refused
