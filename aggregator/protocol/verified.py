"""The out shares of a job's reports at one aggregator, and what they add to its buckets.

Source: DAP, "Batch Buckets".
"""

import dataclasses
from collections.abc import Collection

from aggregator.dap.extensions import Extensions
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import ReportMetadata
from aggregator.protocol.batches import BatchTotals
from aggregator.protocol.buckets import BucketShare
from aggregator.protocol.reports import Rejected, report_error
from aggregator.protocol.task import Task
from aggregator.vdaf.aggregation_parameter import AggregationParameter
from aggregator.vdaf.prio3 import OutShares, Prio3


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """One aggregator's out shares of the reports of a job, before they are committed.

    Attributes:
        task: The job's task.
        agg_param: The job's aggregation parameter.
        extensions: The job's extensions.
        metadata: Of each report.
        out_shares: Of each report, or its error.
    """

    task: Task
    agg_param: AggregationParameter
    extensions: Extensions
    metadata: tuple[ReportMetadata, ...]
    out_shares: OutShares = dataclasses.field(repr=False)

    @property
    def vdaf(self) -> Prio3:
        """The VDAF under the job's aggregation parameter."""
        return self.task.vdaf(self.agg_param)

    @property
    def rejected(self) -> list[Rejected]:
        """The reports that failed verification."""
        return [
            Rejected(metadata.report_id, report_error(error))
            for metadata, error in zip(self.metadata, self.out_shares.errors, strict=True)
            if error is not None
        ]

    @property
    def accepted(self) -> list[ReportMetadata]:
        """The reports that passed verification."""
        return [
            metadata
            for metadata, error in zip(self.metadata, self.out_shares.errors, strict=True)
            if error is None
        ]

    def bucket_shares(self, refused: Collection[ReportId] = ()) -> list[BucketShare]:
        """Return what the accepted reports add to each bucket, in bucket order.

        Args:
            refused: Reports that the store refused at commitment: replayed, or too late.
        """
        refused = frozenset(refused)
        rows: dict[bytes, list[int]] = {}
        for row, (metadata, error) in enumerate(
            zip(self.metadata, self.out_shares.errors, strict=True)
        ):
            if error is None and metadata.report_id not in refused:
                rows.setdefault(self.bucket(metadata), []).append(row)
        vdaf = self.vdaf
        return [
            BucketShare(
                bucket,
                vdaf.agg_update(vdaf.agg_init(), self.out_shares.shares[rows[bucket]]),
                BatchTotals.of(
                    (self.metadata[row].report_id, self.metadata[row].time) for row in rows[bucket]
                ),
            )
            for bucket in sorted(rows)
        ]

    def bucket(self, metadata: ReportMetadata) -> bytes:
        """Return the key of the bucket that a report of the job falls in."""
        return self.task.batching.bucket(metadata, self.extensions)
