"""Between the protocol's batches and the store's rows, the same for both aggregators."""

from collections.abc import Iterable

from aggregator.dap.times import Interval
from aggregator.dp.rationals import format_rational
from aggregator.protocol.batches import BatchTotals, BucketShare, add_to_agg_share
from aggregator.protocol.task import Task
from aggregator.storage.batches import BatchSummary, accumulate, bucket_key
from aggregator.storage.database import Transaction
from aggregator.storage.ledger import Charge


def accumulate_shares(tx: Transaction, task: Task, shares: Iterable[BucketShare]) -> None:
    """Add out shares to their buckets; the caller records the reports in the same transaction.

    Raises:
        BatchClosed: A bucket is frozen or collected: nothing of the transaction may stay.
    """
    for share in shares:

        def merge(stored: bytes | None, share: BucketShare = share) -> bytes:
            return add_to_agg_share(task.prio3, stored, share.agg_share)

        key = bucket_key(share.bucket)
        accumulate(tx, task.task_id.value, key, merge, share.report_count, share.checksum)


def batch_totals(summary: BatchSummary) -> BatchTotals:
    """Return what the aggregators compare of a batch."""
    if summary.start is None or summary.end is None:
        return BatchTotals(0, summary.checksum, None)
    interval = Interval.of(summary.start, summary.end - summary.start)
    return BatchTotals(summary.report_count, summary.checksum, interval)


def charge_of(task: Task) -> Charge:
    """Return what one release of the task costs, as the ledger keeps it."""
    mechanism = task.policy.mechanism
    guarantee = mechanism.guarantee(task.prio3.circuit)
    epsilon, delta, rho = (
        None if value is None else format_rational(value)
        for value in (guarantee.epsilon, guarantee.delta, guarantee.rho)
    )
    return Charge(mechanism.name, epsilon, delta, rho, task.policy.population)
