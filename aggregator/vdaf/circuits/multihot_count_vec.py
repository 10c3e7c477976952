"""Prio3MultihotCountVec: how many measurements set each entry; each sets at most `max_weight`.

Source:
    VDAF, "Prio3MultihotCountVec".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits.base import Run, check_parameter
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
class MultihotCountVec(BitVectorCircuit):
    """Vectors of `length` zeros and ones with at most `max_weight` ones.

    The client appends the number of ones, its weight, in digits that cannot exceed `max_weight`.
    Valid if every entry and digit is 0 or 1 and the entries add up to the weight.
    """

    length: int
    max_weight: int
    chunk_length: int

    name: ClassVar[str] = "MultihotCountVec"
    field: ClassVar[Field] = FIELD128
    eval_output_len: ClassVar[int] = 2

    @override
    def __post_init__(self) -> None:
        BitVectorCircuit.__post_init__(self)
        check_parameter("max_weight", self.max_weight, self.length)

    @property
    def bits_for_weight(self) -> int:
        """How many digits the weight has."""
        return self.max_weight.bit_length()

    @property
    @override
    def meas_len(self) -> int:
        return self.length + self.bits_for_weight

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        from field import Vector, concat

        entries = vectors(measurements, self.length, 1)
        given = sums(entries, "weight", self.max_weight)
        return concat(
            [
                Vector.from_array(self.field, entries),
                encode_range_checked(self.field, given, self.max_weight),
            ]
        )

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:

        from field import stack

        range_check = gadget_outputs.sum(axis=1)
        claimed_weight = decode_range_checked(meas[:, self.length :], self.max_weight)
        weight_check = self.truncate(meas).sum(axis=1) - claimed_weight
        return stack([range_check, weight_check], axis=1)

    @override
    def truncate(self, meas: Vector) -> Vector:
        return meas[:, : self.length]

    @override
    def linear_form(self) -> LinearForm:
        entries = Term(0, self.length)
        digits = tuple(-weight for weight in weights(self.max_weight))
        claimed = Term(self.length, len(digits), digits)
        return LinearForm((Block(self.length, (1,)),), (LinearCheck(0, (entries, claimed)),))

    @property
    @override
    def most_entries(self) -> int:
        return self.max_weight

    @override
    def furthest(self) -> Sequence[Run]:
        # Two sets of at most `max_weight` entries differ most if they are disjoint or, if there is
        # no room for that, if they differ in every entry.
        rest = self.length - self.max_weight
        opposite = min(self.max_weight, rest)
        return [Run(self.max_weight, 1, 0), Run(rest - opposite, 0, 0), Run(opposite, 0, 1)]
