"""Prio3L1BoundSum: the sum of vectors whose entries add up to a bounded total.

A vector may put its whole bound in one entry or spread it. So one measurement moves the sum by at
most 2 * max_value in L1, whatever the length; a SumVec with the same bound on each entry would
allow length * max_value.

Source:
    draft-ietf-ppm-l1-bound-sum, "Prio3L1BoundSum Definition".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits.base import Run, check_max_measurement
from aggregator.vdaf.circuits.bit_vector import BitVectorCircuit
from aggregator.vdaf.circuits.linear_form import Block, LinearCheck, LinearForm, Term
from aggregator.vdaf.circuits.measurements import Measurement, sums, vectors
from aggregator.vdaf.circuits.range_checked import (
    decode_range_checked,
    encode_range_checked,
    weights,
)
from field import FIELD128

if TYPE_CHECKING:
    from collections.abc import Sequence

    from field import Field, Vector


@dataclass(frozen=True, slots=True)
class L1BoundSum(BitVectorCircuit):
    """Vectors of `length` integers from 0 to `max_value` whose sum is at most `max_value` too.

    The client appends the sum. Valid if every digit is 0 or 1, which keeps each number in its
    range, and the appended sum is what the entries add up to.
    """

    length: int
    max_value: int
    chunk_length: int

    name: ClassVar[str] = "L1BoundSum"
    field: ClassVar[Field] = FIELD128
    eval_output_len: ClassVar[int] = 2

    @override
    def __post_init__(self) -> None:
        BitVectorCircuit.__post_init__(self)
        check_max_measurement("max_value", self.max_value, self.field)

    @property
    def bits(self) -> int:
        """How many digits each entry and the sum have."""
        return self.max_value.bit_length()

    @property
    @override
    def meas_len(self) -> int:
        return (self.length + 1) * self.bits

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        import numpy as np

        entries = vectors(measurements, self.length, self.max_value)
        norms = sums(entries, "sum", self.max_value)
        values = np.concatenate([entries, norms[:, None]], axis=1)
        digits = encode_range_checked(self.field, values, self.max_value)
        return digits.reshape(len(entries), self.meas_len)

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:

        from field import stack

        range_check = gadget_outputs.sum(axis=1)
        values = self._values(meas)
        weight_check = values[:, :-1].sum(axis=1) - values[:, -1]
        return stack([range_check, weight_check], axis=1)

    @override
    def truncate(self, meas: Vector) -> Vector:
        return self._values(meas)[:, :-1]

    @override
    def linear_form(self) -> LinearForm:
        digits = weights(self.max_value)
        size = self.length * self.bits
        entries = Term(0, size, digits)
        claimed = Term(size, self.bits, tuple(-weight for weight in digits))
        return LinearForm((Block(self.length, digits),), (LinearCheck(0, (entries, claimed)),))

    @property
    @override
    def most_entries(self) -> int:
        return min(self.length, self.max_value)

    @override
    def furthest(self) -> Sequence[Run]:
        # The whole bound in one entry, then in another: what one measurement has more of than the
        # other adds up to at most the bound, and so does what it has less of.
        if self.length == 1:
            return [Run(1, self.max_value, 0)]
        return [Run(1, self.max_value, 0), Run(self.length - 2, 0, 0), Run(1, 0, self.max_value)]

    def _values(self, meas: Vector) -> Vector:
        """Return the entries and, last, the sum that the client claims."""
        digits = meas.reshape(len(meas), self.length + 1, self.bits)
        return decode_range_checked(digits, self.max_value)
