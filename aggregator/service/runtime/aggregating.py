"""Adds verified reports to their buckets; both aggregators do it with this code."""

from collections.abc import Collection

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.buckets import BucketShare, add_to_agg_share
from aggregator.protocol.permits import mark_of
from aggregator.protocol.verified import Verified
from aggregator.service.storage.batches.closed import closed_among
from aggregator.service.storage.batches.sums import Addition, accumulate
from aggregator.service.storage.engine import locks
from aggregator.service.storage.engine.tables import aggregated_reports
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.job_shares import JobShare, put_job_shares
from aggregator.service.storage.reports.bound import bind
from aggregator.service.storage.reports.capacity import room_to_add
from aggregator.service.storage.reports.ids import Room, admit, let_in
from aggregator.service.storage.reports.permits import Presented, spend
from aggregator.vdaf.prio3 import Prio3


def aggregate_verified(
    tx: Transaction,
    verified: Verified,
    job: bytes,
    first_day: int | None = None,
    unopened: Collection[bytes] = (),
) -> dict[bytes, ReportError]:
    """Add verified reports to their buckets; a helper remembers their ids, or spends their permits.

    Args:
        tx: The transaction.
        verified: The reports.
        job: SHA-256 of the AggregationJobInitReq, by which both aggregators know the job.
        first_day: At the helper, passed to `admit` if the task has no permits. None at the leader:
            each of its reports is in one job, which ends in this transaction, and its id was stored
            when it was uploaded.
        unopened: Buckets that take none of these reports (`past_units.not_opened`).

    Returns:
        Why reports were left out, by their ids: they were late, replayed or too many.

    Raises:
        IdsForgotten: See `admit`.
    """
    arrivals = verified.accepted()
    if not arrivals:
        return {}
    task = verified.task
    task_id = task.task_id.value
    buckets = {bucket for _, bucket in arrivals}
    binds = task.batching.collector_selects and first_day is not None
    (locks.change_batches if binds else locks.keep_batches)(tx, task_id)
    batches = {bucket: task.smallest_batch(bucket) for bucket in buckets}
    room = room_to_add(tx, task_id, batches, task.max_reports, len(arrivals))
    room |= dict.fromkeys(unopened, Room(0))
    closed = closed_among(tx, task_id, buckets)
    if first_day is None:
        errors = let_in([bucket for _, bucket in arrivals], closed, room)
    elif task.permits is None:
        table, days = aggregated_reports, verified.accepted_days()
        errors = admit(tx, table, task_id, arrivals, days, closed, room, first_day)
        if binds:
            digests = verified.accepted_digests()
            errors, _ = bind(
                tx, task_id, arrivals, days, digests, errors, closed, room, may_drop=True
            )
    else:
        marks = [mark_of(task_id, report_id) for report_id, _ in arrivals]
        is_signed = task.permits.is_signed
        presented = Presented(arrivals, marks, task.permit_window, closed, room, is_signed)
        (errors,) = spend(tx, task.permits, [presented])
    refused = {
        report_id: error
        for (report_id, _), error in zip(arrivals, errors, strict=True)
        if error is not None
    }
    added = verified.bucket_shares(refused)
    ciphers = accumulate(tx, task_id, [_addition(verified.vdaf, share) for share in added])
    alone = [
        JobShare(
            share.bucket,
            job,
            add_to_agg_share(verified.vdaf, None, share.agg_share),
            share.totals,
        )
        for share in added
    ]
    put_job_shares(tx, task_id, alone, ciphers)
    return refused


def _addition(vdaf: Prio3, share: BucketShare) -> Addition:
    def merge(stored: bytes | None) -> bytes:
        return add_to_agg_share(vdaf, stored, share.agg_share)

    return Addition(share.bucket, merge, share.totals)
