"""The proof system on a circuit of no type: any degree, any number of calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from typing_extensions import override

from aggregator.vdaf import flp
from aggregator.vdaf.circuits import Circuit, Measurement, Run
from aggregator.vdaf.gadgets import Gadget, Mul, ParallelSum, PolyEval
from field import FIELD64, FIELD128, Field, Vector
from tests.support.residues import random_residues, rows_to_ints


@dataclass(frozen=True, slots=True)
class Products(Circuit):
    """Numbers 0 to `degree` - 1: each gives zero when multiplied by all it can be less."""

    degree: int
    length: int
    field: Field = FIELD64

    name: ClassVar[str] = "Products"

    @property
    @override
    def gadget(self) -> Gadget:
        coefficients = [1]
        for root in range(self.degree):
            # Multiply by x - root.
            shifted = [0, *coefficients]
            coefficients = [
                high - root * low for high, low in zip(shifted, [*coefficients, 0], strict=True)
            ]
        return PolyEval(tuple(coefficients))

    @property
    @override
    def num_calls(self) -> int:
        return self.length

    @property
    @override
    def meas_len(self) -> int:
        return self.length

    @property
    @override
    def joint_rand_len(self) -> int:
        return 0

    @property
    @override
    def eval_output_len(self) -> int:
        return self.length

    @property
    @override
    def output_len(self) -> int:
        return self.length

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        return Vector.from_array(self.field, np.array(measurements))

    @override
    def gadget_inputs(self, meas: Vector, joint_rands: Vector, num_shares: int) -> Vector:
        return meas[..., None]

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:
        return gadget_outputs

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(self.output_len, 0, 0)]

    @override
    def truncate(self, meas: Vector) -> Vector:
        return meas


def rows(field: Field, num_rows: int, length: int, seed: int) -> Vector:
    numbers = random_residues(field, num_rows * length, seed)
    return Vector.from_ints(field, numbers).reshape(num_rows, length)


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "length", [1, 2, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 8, 20))]
)
def test_true_statements_are_accepted_and_false_ones_and_changed_proofs_rejected(
    field: Field, degree: int, length: int
) -> None:
    circuit = Products(degree, length, field)
    measurements = [
        [0] * length,
        [(index * 5) % degree for index in range(length)],
        [degree - 1] * length,
        [0] * (length - 1) + [degree],  # false
        [degree - 1] * length,  # true, but its proof is changed
    ]
    meas = circuit.encode(measurements)
    nothing = Vector.zeros(field, (5, 0))
    proofs = flp.prove(circuit, meas, rows(field, 5, circuit.prove_rand_len, 1), nothing)
    assert proofs.shape == (5, circuit.proof_len)
    change = Vector.from_ints(
        field, [[0] * circuit.proof_len] * 4 + [[0] * (circuit.proof_len - 1) + [1]]
    )
    proofs = proofs + change

    query_rands = rows(field, 5, circuit.query_rand_len, 2)
    meas_share, proofs_share = rows(field, 5, length, 3), rows(field, 5, circuit.proof_len, 4)
    shares = [(meas_share, proofs_share), (meas - meas_share, proofs - proofs_share)]
    verifiers = [
        flp.query(circuit, meas, proof, query_rands, nothing, num_shares=2)
        for meas, proof in shares
    ]
    assert not any(verifier.is_rejected.any() for verifier in verifiers)
    total = verifiers[0].shares + verifiers[1].shares
    assert total.shape == (5, circuit.verifier_len)
    assert flp.decide(circuit, total).tolist() == [True, True, True, False, False]


def test_a_gadget_of_many_wires_is_the_sum_of_its_parts() -> None:
    for field in (FIELD64, FIELD128):
        wires = rows(field, 4, 6, 5)
        numbers = rows_to_ints(wires)
        products = [sum(x * y for x, y in zip(row[::2], row[1::2], strict=True)) for row in numbers]
        gadget = ParallelSum(Mul(), 3)
        assert (gadget.arity, gadget.degree) == (6, 2)
        assert gadget.evaluate(wires).to_ints() == [x % field.modulus for x in products]
        cubes = ParallelSum(PolyEval((1, -2, 0, 4)), 6)
        assert (cubes.arity, cubes.degree) == (6, 3)
        assert cubes.evaluate(wires).to_ints() == [
            sum(1 - 2 * x + 4 * x**3 for x in row) % field.modulus for row in numbers
        ]
