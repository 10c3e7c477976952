"""Prio3Sum: the sum of integers from 0 to any maximum.

Source:
    VDAF, "Prio3Sum".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits.base import Circuit, Run, check_max_measurement
from aggregator.vdaf.circuits.linear_form import Block, LinearForm
from aggregator.vdaf.circuits.measurements import Measurement, integers
from aggregator.vdaf.circuits.range_checked import (
    decode_range_checked,
    encode_range_checked,
    weights,
)
from aggregator.vdaf.gadgets import Gadget, PolyEval
from field import FIELD64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from field import Field, Vector


@dataclass(frozen=True, slots=True)
class Sum(Circuit):
    """Integers from 0 to `max_measurement`, digit by digit: valid if x^2 - x = 0 for each.

    Each digit's check is its own output; the verifiers reduce them by a random linear combination.
    """

    max_measurement: int

    name: ClassVar[str] = "Sum"
    is_scalar: ClassVar[bool] = True
    field: ClassVar[Field] = FIELD64
    gadget: ClassVar[Gadget] = PolyEval((0, -1, 1))
    joint_rand_len: ClassVar[int] = 0
    output_len: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_max_measurement("max_measurement", self.max_measurement, self.field)

    @property
    def bits(self) -> int:
        """How many digits a measurement has."""
        return self.max_measurement.bit_length()

    @property
    @override
    def num_calls(self) -> int:
        return self.bits

    @property
    @override
    def meas_len(self) -> int:
        return self.bits

    @property
    @override
    def eval_output_len(self) -> int:
        return self.bits

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        values = integers(measurements, self.max_measurement)
        return encode_range_checked(self.field, values, self.max_measurement)

    @override
    def gadget_inputs(self, meas: Vector, joint_rands: Vector, num_shares: int) -> Vector:
        return meas[..., None]

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:
        return gadget_outputs

    @override
    def truncate(self, meas: Vector) -> Vector:
        return decode_range_checked(meas, self.max_measurement)[..., None]

    @override
    def linear_form(self) -> LinearForm:
        return LinearForm((Block(1, weights(self.max_measurement)),))

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(1, 0, self.max_measurement)]
