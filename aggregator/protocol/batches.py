"""A batch as a value: which buckets it holds, and what the aggregators compare.

A report falls into one bucket, named by a key, and a batch is all buckets of a task from its first
key to its last. The batch mode says what keys mean (`batch_modes`). Here and in the store they are
byte strings, all of one size in a task, in the order of their bytes. So in every mode a closed
batch is one range, whether of 2^63 units of time or of a single batch id, and one comparison tells
whether two batches overlap.

Source: DAP, "Batch Modes" and "Batch Buckets".
"""

import dataclasses
import hashlib
from collections.abc import Collection, Sequence
from typing import Self

from aggregator.dap.messages import CHECKSUM_SIZE
from aggregator.dap.times import Interval, Time
from aggregator.errors import LocalError, ParameterError


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """All buckets of a task from `first` to `last`, both included.

    Raises `ParameterError` if `last` comes before `first`, or their sizes differ.
    """

    first: bytes
    last: bytes

    def __post_init__(self) -> None:
        if len(self.first) != len(self.last) or self.last < self.first:
            raise ParameterError(
                "a batch must end with a bucket that is not before its first one, "
                f"not {self.first.hex()} to {self.last.hex()}"
            )

    @classmethod
    def spanning(cls, buckets: Collection[bytes]) -> Self:
        """Return the smallest batch that holds all `buckets`, of which there is at least one."""
        return cls(min(buckets), max(buckets))


@dataclasses.dataclass(frozen=True, slots=True)
class BatchTotals:
    """The count, checksum and times that go with the aggregate share of some reports.

    The checksum is the bitwise XOR of the SHA-256 hashes of their ids, 32 bytes. Times are the
    first and the last. `least_budget` is that of their privacy budgets, where reports have some.
    """

    report_count: int = 0
    checksum: bytes = bytes(CHECKSUM_SIZE)
    times: tuple[Time, Time] | None = None
    least_budget: int | None = None

    @classmethod
    def of(
        cls, report_ids: Sequence[bytes], times: Sequence[int], budgets: Sequence[int] = ()
    ) -> Self:
        """Return the totals of reports, by their ids, times in units, and any budgets."""
        import numpy as np  # here, since clients import this module

        hashes = b"".join([hashlib.sha256(report_id).digest() for report_id in report_ids])
        rows = np.frombuffer(hashes, np.uint8).reshape(len(report_ids), CHECKSUM_SIZE)
        checksum = np.bitwise_xor.reduce(rows, axis=0).tobytes()
        ends = (Time(min(times)), Time(max(times))) if len(report_ids) else None
        return cls(len(report_ids), checksum, ends, min(budgets, default=None))

    def __add__(self, other: "BatchTotals") -> "BatchTotals":
        """Return the totals of both sets of reports, which must be disjoint."""
        times = [*(self.times or ()), *(other.times or ())]
        least = self.least_budget, other.least_budget
        budgets = [each for each in least if each is not None]
        return BatchTotals(
            self.report_count + other.report_count,
            bytes(a ^ b for a, b in zip(self.checksum, other.checksum, strict=True)),
            (min(times), max(times)) if times else None,
            min(budgets, default=None),
        )

    @property
    def interval(self) -> Interval:
        """The smallest interval that holds the reports.

        Raises `LocalError` if there is no report.
        """
        if self.times is None:
            raise LocalError("no interval holds the reports of an empty batch")
        return Interval.spanning(*self.times)
