"""A circuit with a gadget of degree three, which none of the draft's types has.

Its published vectors check the proof system where a gadget polynomial is longer than twice a wire
polynomial. It is for tests: any residue may be encoded, so that a client can make a false
statement.

Source:
    VDAF's test vectors for "Prio3HigherDegree".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits.base import Circuit, Run
from aggregator.vdaf.circuits.measurements import Measurement, integers
from aggregator.vdaf.gadgets import Gadget, PolyEval
from field import FIELD64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from field import Field, Vector


@dataclass(frozen=True, slots=True)
class HigherDegree(Circuit):
    """Measurements 0, 1 and 2: valid if x (x - 1) (x - 2) = 0."""

    name: ClassVar[str] = "HigherDegree"
    is_scalar: ClassVar[bool] = True
    field: ClassVar[Field] = FIELD64
    gadget: ClassVar[Gadget] = PolyEval((0, 2, -3, 1))
    num_calls: ClassVar[int] = 1
    meas_len: ClassVar[int] = 1
    joint_rand_len: ClassVar[int] = 0
    eval_output_len: ClassVar[int] = 1
    output_len: ClassVar[int] = 1

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        from field import Vector

        return Vector.from_array(
            self.field, integers(measurements, self.field.modulus - 1)[:, None]
        )

    @override
    def gadget_inputs(self, meas: Vector, joint_rands: Vector, num_shares: int) -> Vector:
        return meas[..., None]

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:
        return gadget_outputs

    @override
    def truncate(self, meas: Vector) -> Vector:
        return meas

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(1, 0, 2)]
