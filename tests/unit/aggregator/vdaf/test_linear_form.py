"""Which circuits kernels verify, and that all others are verified by the general path."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest
from typing_extensions import override

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import (
    Block,
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    LinearCheck,
    LinearForm,
    Measurement,
    MultihotCountVec,
    Run,
    Sum,
    SumVec,
)
from aggregator.vdaf.gadgets import Gadget, PolyEval
from aggregator.vdaf.instances import TYPES, VdafType
from aggregator.vdaf.kernels import dispatch
from aggregator.vdaf.kernels.tables import linear_form_of
from aggregator.vdaf.prio3 import Prio3
from field import FIELD64, Vector
from tests.support.new_types import AnyBits, AnyBitsOnLanes
from tests.support.prio3_batches import make_batch, result, take_path, verify


@dataclasses.dataclass(frozen=True, slots=True)
class WithForm(AnyBits):
    """`AnyBits` that states some linear form, whether it fits or not."""

    form: LinearForm

    @override
    def linear_form(self) -> LinearForm:
        return self.form


@dataclasses.dataclass(frozen=True, slots=True)
class Weighted(AnyBits):
    """Groups of bits are summed by any weights; bits that fill no group are not summed."""

    weights: tuple[int, ...]

    @property
    @override
    def output_len(self) -> int:
        return self.length // len(self.weights)

    @override
    def truncate(self, meas: Vector) -> Vector:
        size = len(self.weights)
        groups = meas[:, : self.output_len * size].reshape(len(meas), self.output_len, size)
        residues = [weight % self.field.modulus for weight in self.weights]
        return groups.dot(Vector.from_ints(self.field, residues))

    @override
    def furthest(self) -> Sequence[Run]:
        raise NotImplementedError

    @override
    def linear_form(self) -> LinearForm:
        return LinearForm((Block(self.output_len, self.weights),))


@dataclasses.dataclass(frozen=True, slots=True)
class Threes(Sum):
    """A sum whose digits may be 0, 1 or 2, so that no kernel knows its gadget."""

    gadget: ClassVar[Gadget] = PolyEval((0, 2, -3, 1))


@pytest.mark.parametrize(
    "circuit",
    [
        Count(),
        Sum(9),
        SumVec(3, 5, 2),
        Histogram(4, 2),
        MultihotCountVec(4, 2, 2),
        L1BoundSum(3, 5, 2),
        AnyBitsOnLanes(7, 3),
    ],
    ids=str,
)
def test_a_circuit_with_a_linear_form_is_verified_by_a_kernel(circuit: Circuit) -> None:
    assert dispatch.is_fused(Prio3(4, circuit))


@pytest.mark.parametrize(
    "circuit",
    [
        AnyBits(7, 3),
        SumVec(3, 5, 2, FIELD64),
        Threes(3),
        WithForm(7, 3, LinearForm((Block(6, (1,)),))),
        WithForm(7, 3, LinearForm((Block(6, (1,)), Block(1, (1, 2))))),
        WithForm(7, 3, LinearForm((Block(7, ()),))),
        WithForm(7, 3, LinearForm((Block(7, (1,)),), (LinearCheck(-1, ()),))),
    ],
    ids=str,
)
def test_a_circuit_without_a_linear_form_is_verified_by_the_general_path(circuit: Circuit) -> None:
    assert not dispatch.is_fused(Prio3(4, circuit))


@pytest.mark.parametrize(
    "parameters",
    [VdafType.least, pytest.param(VdafType.typical, marks=pytest.mark.slow)],
    ids=["least", "typical"],
)
@pytest.mark.parametrize("row", TYPES.values(), ids=lambda row: row.name)
def test_the_kernel_and_the_general_path_verify_every_type_alike(
    row: VdafType,
    parameters: Callable[[VdafType], dict[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prio3 = row.prio3(parameters(row))
    batch = make_batch(prio3, prio3.circuit.furthest_measurements())
    found = verify(prio3, batch)
    take_path("general", monkeypatch)
    expected = verify(prio3, batch)
    assert found.rejected == []
    assert [found.values(0), found.values(1)] == [expected.values(0), expected.values(1)]


MEASUREMENTS: list[Measurement] = [[1, 0, 1, 1, 0, 0, 1], [1] * 7, [0] * 7, [0, 1, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize("num_shares", [2, 3])
@pytest.mark.parametrize("circuit", [AnyBits(7, 3), AnyBitsOnLanes(7, 3)], ids=str)
def test_a_fifth_type_of_bit_vectors_has_right_results_and_refuses_false_proofs(
    circuit: Circuit, num_shares: int
) -> None:
    prio3 = Prio3(4, circuit, num_shares)
    batch = make_batch(prio3, MEASUREMENTS)
    spoiled = bytearray(batch.input_shares[0][3])
    spoiled[0] ^= 1
    batch.input_shares[0][3] = bytes(spoiled)
    outcome = verify(prio3, batch)
    assert outcome.rejected == [3]
    honest = verify(prio3, make_batch(prio3, MEASUREMENTS))
    assert honest.rejected == []
    assert result(prio3, honest, 4) == [2, 2, 3, 2, 1, 1, 2]


@pytest.mark.parametrize(
    "weights",
    [(1, -1), (1,) * 40, (2**28, 1), (2**130, 5, 0), (3, 3)],
    ids=["negative", "many", "large", "beyond the field", "equal"],
)
def test_any_weights_of_a_linear_form_give_what_the_circuit_does(
    weights: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    prio3 = Prio3(4, Weighted(2 * len(weights) + 1, 3, weights))
    measurements: list[Measurement] = [[1, 0] * len(weights) + [1], [1] * (2 * len(weights) + 1)]
    batch = make_batch(prio3, measurements)
    assert dispatch.is_fused(prio3)
    found = verify(prio3, batch)
    take_path("general", monkeypatch)
    expected = verify(prio3, batch)
    assert found.rejected == []
    for report in range(len(measurements)):
        assert found.values(report) == expected.values(report)


def test_a_kernel_asked_for_a_circuit_without_a_linear_form_says_so() -> None:
    with pytest.raises(ParameterError, match="Prio3AnyBits has no linear form"):
        linear_form_of(AnyBits(7, 3))
