"""Measurement types that a stranger adds by docs/architecture.md: their circuits and their rows.

`python -m tests.support.new_types ...` is `prio ...` with those rows in the table.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits import BitVectorCircuit, Block, Circuit, LinearForm, Measurement, Run
from aggregator.vdaf.circuits.base import check_parameter
from aggregator.vdaf.circuits.measurements import integers, vectors
from aggregator.vdaf.circuits.range_checked import decode_range_checked, encode_range_checked
from aggregator.vdaf.gadgets import Gadget, Mul
from aggregator.vdaf.instances import CHUNK_LENGTH, LENGTH, TYPES, Parameter, VdafType
from field import FIELD64, FIELD128, Field, Vector, concat, stack


@dataclasses.dataclass(frozen=True, slots=True)
class AnyBits(BitVectorCircuit):
    """Vectors of `length` zeros and ones in any number: how many set each."""

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
        return LinearForm((Block(self.length, (1,)),))


@dataclasses.dataclass(frozen=True, slots=True)
class Moments(Circuit):
    """Integers x from 0 to `largest`: the sum of x, and that of x^2.

    The client appends x^2. Valid if the digits of x are 0 or 1, and x * x is what is appended.
    """

    largest: int

    name: ClassVar[str] = "Moments"
    takes_vectors: ClassVar[bool] = False
    field: ClassVar[Field] = FIELD64
    gadget: ClassVar[Gadget] = Mul()
    joint_rand_len: ClassVar[int] = 0
    output_len: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_parameter("largest", self.largest, 2**31 - 1)

    @property
    def bits(self) -> int:
        """The number of digits of x."""
        return self.largest.bit_length()

    @property
    @override
    def num_calls(self) -> int:
        return self.bits + 1

    @property
    @override
    def meas_len(self) -> int:
        return self.bits + 1

    @property
    @override
    def eval_output_len(self) -> int:
        return self.bits + 1

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        values = integers(measurements, self.largest)
        digits = encode_range_checked(self.field, values, self.largest)
        return concat([digits, Vector.from_array(self.field, values[:, None] ** 2)])

    @override
    def gadget_inputs(self, meas: Vector, joint_rands: Vector, num_shares: int) -> Vector:
        wires = concat([meas[:, :-1], self._number(meas)])
        return stack([wires, wires], axis=2)

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:
        return gadget_outputs - meas

    @override
    def truncate(self, meas: Vector) -> Vector:
        return concat([self._number(meas), meas[:, -1:]])

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(1, 0, self.largest), Run(1, 0, self.largest**2)]

    @override
    def furthest_measurements(self) -> tuple[Measurement, Measurement]:
        return 0, self.largest

    def _number(self, meas: Vector) -> Vector:
        """Return x with one more axis, of length 1."""
        return decode_range_checked(meas[:, :-1], self.largest)[:, None]


LARGEST = Parameter("largest", 4, "Largest of the numbers", least=1, typical=100)

ANY_BITS = VdafType("Prio3AnyBits", "anybits", 0xFFFF0001, AnyBits, (LENGTH, CHUNK_LENGTH))
MOMENTS = VdafType("Prio3Moments", "moments", 0xFFFF0002, Moments, (LARGEST,))
ROWS = (ANY_BITS, MOMENTS)


if __name__ == "__main__":
    TYPES.update({row.name: row for row in ROWS})
    # Options are made from the table when the commands are imported.
    from aggregator.cli import main

    main()
