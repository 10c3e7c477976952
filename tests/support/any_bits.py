"""A measurement type that a stranger adds: its circuit, written by the documents alone."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits import (
    BitVectorCircuit,
    LinearForm,
    Measurement,
    Run,
)
from aggregator.vdaf.circuits.measurements import vectors
from field import FIELD128, Field, Vector


@dataclasses.dataclass(frozen=True, slots=True)
class AnyBits(BitVectorCircuit):
    """Vectors of `length` zeros and ones, any of them: how many set each."""

    length: int
    chunk_length: int

    name: ClassVar[str] = "AnyBits"
    field: ClassVar[Field] = FIELD128
    eval_output_len: ClassVar[int] = 1

    @property
    @override
    def meas_len(self) -> int:
        return self.length

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        return Vector.from_array(self.field, vectors(measurements, self.length, 1))

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:
        return gadget_outputs.sum(axis=1)[:, None]

    @override
    def truncate(self, meas: Vector) -> Vector:
        return meas

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(self.length, 0, 1)]


@dataclasses.dataclass(frozen=True, slots=True)
class AnyBitsOnLanes(AnyBits):
    """The same for kernels."""

    @override
    def linear_form(self) -> LinearForm:
        return LinearForm((1,))
