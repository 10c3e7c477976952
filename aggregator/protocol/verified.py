"""The out shares of a job's reports at one aggregator, and what they add to its buckets.

Source: DAP, "Batch Buckets".
"""

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from aggregator.dap.extensions import Extensions
from aggregator.dap.ids import ReportId
from aggregator.dap.messages.byte_rows import Budgets, Times
from aggregator.dap.times import Time
from aggregator.protocol.batches import BatchTotals
from aggregator.protocol.buckets import BucketShare
from aggregator.protocol.reports import Rejected, report_error
from aggregator.protocol.task import Task
from aggregator.vdaf.aggregation_parameter import AggregationParameter
from aggregator.vdaf.prio3 import OutShares, Prio3


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """One aggregator's out shares of the reports of a job, before they are committed.

    Each report has an out share, or an error, and a budget where its task's reports have some. At a
    helper of a task whose batches collectors select, it has a hash of what its job says of
    it, too.
    """

    task: Task
    agg_param: AggregationParameter
    extensions: Extensions
    ids: list[bytes]
    times: Times
    out_shares: OutShares = dataclasses.field(repr=False)
    budgets: Budgets | None = None
    digests: Sequence[bytes] = ()

    @property
    def vdaf(self) -> Prio3:
        """The VDAF under the job's aggregation parameter."""
        return self.task.vdaf(self.agg_param)

    @property
    def rejected(self) -> list[Rejected]:
        """The reports that failed verification."""
        return [
            Rejected(ReportId(self.ids[row]), report_error(error))
            for row, error in sorted(self.out_shares.rejected.items())
        ]

    def accepted(self) -> list[tuple[bytes, bytes]]:
        """Return the id and the bucket's key of each report that passed verification."""
        pairs = zip(self.ids, self._buckets(), strict=True)
        if not self.out_shares.rejected:
            return [*pairs]
        failed = self.out_shares.rejected
        return [pair for row, pair in enumerate(pairs) if row not in failed]

    def accepted_days(self) -> list[int]:
        """Return the day of the time of each report that passed verification (`Time.day`)."""
        times: list[int] = self.times.tolist()
        precision = self.task.time_precision
        day_of = {units: Time(units).day(precision) for units in {*times}}
        failed = self.out_shares.rejected
        return [day_of[units] for row, units in enumerate(times) if row not in failed]

    def accepted_digests(self) -> list[bytes]:
        """Return the hash of each report that passed verification."""
        failed = self.out_shares.rejected
        return [digest for row, digest in enumerate(self.digests) if row not in failed]

    def bucket_shares(self, refused: Collection[bytes] = ()) -> list[BucketShare]:
        """Return what the accepted reports add to each bucket, in bucket order.

        Those in `refused` were refused at commitment: replayed, or too late.
        """
        times, of_row = np.unique(self.times, return_inverse=True)
        buckets = self._keys(times)
        in_order = sorted({*buckets})
        place_of = {bucket: place for place, bucket in enumerate(in_order)}
        of_bucket = np.array([place_of[bucket] for bucket in buckets], np.intp)[of_row]
        if self.out_shares.rejected or refused:
            refused = frozenset(refused)
            out = {*self.out_shares.rejected}
            out.update(row for row, each in enumerate(self.ids) if each in refused)
            of_bucket[[*out]] = -1
        # Rows of one bucket together, in order.
        rows = np.argsort(of_bucket, kind="stable")
        first, *ends = np.searchsorted(of_bucket[rows], np.arange(len(in_order) + 1)).tolist()
        shares = []
        for bucket, end in zip(in_order, ends, strict=True):
            if first < end:
                shares.append(self._share(bucket, rows[first:end].tolist()))
            first = end
        return shares

    def _share(self, bucket: bytes, rows: list[int]) -> BucketShare:
        shares = self.out_shares.shares
        if len(rows) < len(self.ids):
            shares = shares[rows]
        vdaf = self.vdaf
        return BucketShare(
            bucket,
            vdaf.agg_update(vdaf.agg_init(), shares),
            BatchTotals.of(
                [self.ids[row] for row in rows],
                self.times[rows].tolist(),
                () if self.budgets is None else self.budgets[rows].tolist(),
            ),
        )

    def _buckets(self) -> list[bytes]:
        """Return the key of the bucket that each report falls in."""
        times, of_row = np.unique(self.times, return_inverse=True)
        keys = self._keys(times)
        return [keys[each] for each in of_row.tolist()]

    def _keys(self, times: Times) -> list[bytes]:
        """Return the key of the bucket of each of some times."""
        batching = self.task.batching
        return [batching.bucket(Time(units), self.extensions) for units in times.tolist()]
