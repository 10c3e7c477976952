"""Batch buckets: which report falls in which, what they add up to, and what a query selects.

In the time-interval batch mode a bucket is one unit of the task's time; its name is that unit.

Source: DAP, "Batch Modes", "Batch Buckets" and "Time Interval".
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence

from aggregator.dap.ids import ReportId
from aggregator.dap.messages import (
    BatchSelector,
    Query,
    TimeIntervalQuery,
    TimeIntervalSelector,
)
from aggregator.dap.problems import BatchInvalid, InvalidMessage
from aggregator.dap.times import Interval
from aggregator.vdaf.prio3 import Prio3
from field import Vector

CHECKSUM_SIZE = 32


@dataclasses.dataclass(frozen=True, slots=True)
class BucketShare:
    """What some reports of one bucket add to it.

    Attributes:
        bucket: The bucket's name, a unit of time.
        agg_share: The sum of their out shares.
        report_ids: Which reports they are.
    """

    bucket: int
    agg_share: Vector = dataclasses.field(repr=False)
    report_ids: tuple[ReportId, ...]

    @property
    def report_count(self) -> int:
        """How many reports these are."""
        return len(self.report_ids)

    @property
    def checksum(self) -> bytes:
        """The checksum of their identifiers."""
        return checksum(self.report_ids)


@dataclasses.dataclass(frozen=True, slots=True)
class BatchTotals:
    """What is said of a batch beside its aggregate share.

    Attributes:
        report_count: How many reports it holds.
        checksum: The checksum of their identifiers.
        interval: The smallest interval that holds them; None if there are none.
    """

    report_count: int
    checksum: bytes
    interval: Interval | None


def checksum(report_ids: Iterable[ReportId]) -> bytes:
    """Return the exclusive or of the SHA-256 hashes of the identifiers, 32 bytes."""
    combined = 0
    for report_id in report_ids:
        combined ^= int.from_bytes(hashlib.sha256(report_id.value).digest(), "big")
    return combined.to_bytes(CHECKSUM_SIZE, "big")


def merge_agg_shares(prio3: Prio3, encoded: Sequence[bytes]) -> Vector:
    """Return the sum of encoded aggregate shares; of none, the empty aggregate share."""
    agg_shares = [prio3.decode_agg_share(share) for share in encoded]
    return prio3.merge([prio3.agg_init(), *agg_shares])


def add_to_agg_share(prio3: Prio3, stored: bytes | None, agg_share: Vector) -> bytes:
    """Return the encoding of a stored aggregate share, if there is one, plus another."""
    if stored is None:
        return prio3.encode_agg_share(agg_share)
    return prio3.encode_agg_share(prio3.merge([prio3.decode_agg_share(stored), agg_share]))


def selected_interval(query: Query | BatchSelector) -> Interval:
    """Return the interval of buckets that a query or a batch selector names.

    Raises:
        InvalidMessage: It is of another batch mode than the tasks we serve.
        BatchInvalid: The interval holds no bucket.
    """
    if not isinstance(query, TimeIntervalQuery | TimeIntervalSelector):
        raise InvalidMessage("the task's batch mode is time_interval")
    if query.batch_interval.is_empty:
        raise BatchInvalid("the interval's duration is 0; it must be at least 1")
    return query.batch_interval
