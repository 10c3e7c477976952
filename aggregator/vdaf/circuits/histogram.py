"""Prio3Histogram: how many measurements fall in each bucket.

Source:
    VDAF, "Prio3Histogram".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits.base import Run
from aggregator.vdaf.circuits.bit_vector import BitVectorCircuit
from aggregator.vdaf.circuits.linear_form import Block, LinearCheck, LinearForm, Term
from aggregator.vdaf.circuits.measurements import Measurement, integers
from field import FIELD128

if TYPE_CHECKING:
    from collections.abc import Sequence

    from field import Field, Vector


@dataclass(frozen=True, slots=True)
class Histogram(BitVectorCircuit):
    """One of `length` buckets, as a vector with a 1 there and zeros elsewhere.

    Valid if every entry is 0 or 1 and the entries add up to 1.
    """

    length: int
    chunk_length: int

    name: ClassVar[str] = "Histogram"
    is_one_hot: ClassVar[bool] = True
    field: ClassVar[Field] = FIELD128
    eval_output_len: ClassVar[int] = 2

    @property
    @override
    def meas_len(self) -> int:
        return self.length

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        import numpy as np

        from field import Vector

        buckets = integers(measurements, self.length - 1)
        # Compare every entry, so that no memory address depends on the bucket.
        is_bucket = buckets[:, None] == np.arange(self.length, dtype=np.uint64)
        return Vector.from_array(self.field, is_bucket.astype(np.uint64))

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:

        from field import stack

        range_check = gadget_outputs.sum(axis=1)
        sum_check = meas.sum(axis=1) - self.field.inverse(num_shares)
        return stack([range_check, sum_check], axis=1)

    @override
    def truncate(self, meas: Vector) -> Vector:
        return meas

    @override
    def linear_form(self) -> LinearForm:
        everything = Term(0, self.length)
        return LinearForm((Block(self.length, (1,)),), (LinearCheck(-1, (everything,)),))

    @override
    def furthest(self) -> Sequence[Run]:
        # One bucket loses the report and another gains it; with one bucket nothing changes.
        if self.length == 1:
            return [Run(1, 1, 1)]
        return [Run(1, 1, 0), Run(self.length - 2, 0, 0), Run(1, 0, 1)]

    @property
    @override
    def most_entries(self) -> int:
        return 1

    @override
    def furthest_measurements(self) -> tuple[Measurement, Measurement]:
        return 0, self.length - 1
