"""Prio3SumVec: the sum of vectors of integers from 0 to any maximum.

Source:
    VDAF, "Prio3SumVec".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits.base import Run, check_max_measurement
from aggregator.vdaf.circuits.bit_vector import BitVectorCircuit
from aggregator.vdaf.circuits.linear_form import Block, LinearForm
from aggregator.vdaf.circuits.measurements import Measurement, vectors
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
class SumVec(BitVectorCircuit):
    """Vectors of `length` integers from 0 to `max_measurement`, each written in digits."""

    length: int
    max_measurement: int
    chunk_length: int
    field: Field = FIELD128

    name: ClassVar[str] = "SumVec"
    eval_output_len: ClassVar[int] = 1

    @override
    def __post_init__(self) -> None:
        BitVectorCircuit.__post_init__(self)
        check_max_measurement("max_measurement", self.max_measurement, self.field)

    @property
    def bits(self) -> int:
        """How many digits an entry has."""
        return self.max_measurement.bit_length()

    @property
    @override
    def meas_len(self) -> int:
        return self.length * self.bits

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        values = vectors(measurements, self.length, self.max_measurement)
        digits = encode_range_checked(self.field, values, self.max_measurement)
        return digits.reshape(len(values), self.meas_len)

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:
        return gadget_outputs.sum(axis=1)[:, None]

    @override
    def truncate(self, meas: Vector) -> Vector:
        digits = meas.reshape(len(meas), self.length, self.bits)
        return decode_range_checked(digits, self.max_measurement)

    @override
    def linear_form(self) -> LinearForm:
        return LinearForm((Block(self.length, weights(self.max_measurement)),))

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(self.length, 0, self.max_measurement)]
