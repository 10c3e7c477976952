"""Prio3Count: how many measurements are 1.

Source:
    VDAF, "Prio3Count".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits.base import Circuit, Run
from aggregator.vdaf.circuits.linear_form import Block, LinearForm
from aggregator.vdaf.circuits.measurements import Measurement, integers
from aggregator.vdaf.gadgets import Gadget, Mul
from field import FIELD64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from field import Field, Vector


@dataclass(frozen=True, slots=True)
class Count(Circuit):
    """Measurements 0 and 1: valid if x^2 - x = 0."""

    name: ClassVar[str] = "Count"
    is_scalar: ClassVar[bool] = True
    field: ClassVar[Field] = FIELD64
    gadget: ClassVar[Gadget] = Mul()
    num_calls: ClassVar[int] = 1
    meas_len: ClassVar[int] = 1
    joint_rand_len: ClassVar[int] = 0
    eval_output_len: ClassVar[int] = 1
    output_len: ClassVar[int] = 1

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        from field import Vector

        return Vector.from_array(self.field, integers(measurements, 1)[:, None])

    @override
    def gadget_inputs(self, meas: Vector, joint_rands: Vector, num_shares: int) -> Vector:

        from field import stack

        return stack([meas, meas], axis=2)

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:
        return gadget_outputs - meas

    @override
    def truncate(self, meas: Vector) -> Vector:
        return meas

    @override
    def linear_form(self) -> LinearForm:
        return LinearForm((Block(1, (1,)),))

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(1, 0, 1)]
