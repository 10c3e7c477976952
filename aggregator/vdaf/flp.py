"""Fully linear proofs for a batch: `prove`, `query` and `decide`.

The prover evaluates the circuit and sends, in shares, one polynomial: the gadget applied to the
wire polynomials, which interpolate the wires' values over all calls. The verifiers hold shares of
the wires and of that polynomial. Both sides of `gadget(wires) = gadget polynomial` are polynomials,
so the verifiers compare them at one random point, `query` for their shares and `decide` for the
sum.

All functions work on one proof per report, `rows` reports at a time; they know nothing of seeds,
keys or encodings.

Source:
    VDAF, "FLP Specification"; [BBCGGI19], Theorem 4.3.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aggregator.vdaf.circuits.base import Circuit
from field import Vector, concat, double_evaluations, extend_values_to_power_of_2, poly_eval

BoolRows = npt.NDArray[np.bool_]
"""Shape `(rows,)`."""


@dataclass(frozen=True, slots=True)
class Verifiers:
    """One aggregator's verifier shares for a batch.

    Attributes:
        shares: Shape `(rows, verifier_len)`; all aggregators' shares add up to the verifiers.
        is_rejected: Which reports hit a test point that would give a gadget's output away. Their
            shares are zero.
    """

    shares: Vector
    is_rejected: BoolRows


def prove(circuit: Circuit, meas: Vector, prove_rands: Vector, joint_rands: Vector) -> Vector:
    """Return a proof that each measurement is valid; the proof of a false statement fails.

    Args:
        circuit: The validity circuit the proofs are about.
        meas: Shape `(rows, meas_len)`.
        prove_rands: Shape `(rows, prove_rand_len)`.
        joint_rands: Shape `(rows, joint_rand_len)`.

    Returns:
        Shape `(rows, proof_len)`: the wire seeds, then the gadget polynomial's values at the first
        powers of a root of unity.

    Source:
        VDAF, "Generating the Proof".
    """
    inputs = circuit.gadget_inputs(meas, joint_rands, num_shares=1)
    wires = _wire_polys(circuit, prove_rands, inputs)
    # The gadget polynomial is the gadget of the wires, point by point, at enough points to fix it.
    while wires.shape[-1] < circuit.gadget_poly_len:
        wires = double_evaluations(wires)
    gadget_poly = circuit.gadget.evaluate(wires.swapaxes(1, 2))
    return concat([prove_rands, gadget_poly[:, : circuit.gadget_poly_len]])


def query(
    circuit: Circuit,
    meas_shares: Vector,
    proof_shares: Vector,
    query_rands: Vector,
    joint_rands: Vector,
    num_shares: int,
) -> Verifiers:
    """Return one aggregator's verifier share for each report of a batch.

    Args:
        circuit: The validity circuit the proofs are about.
        meas_shares: Shape `(rows, meas_len)`.
        proof_shares: Shape `(rows, proof_len)`.
        query_rands: Shape `(rows, query_rand_len)`, the same at all aggregators.
        joint_rands: Shape `(rows, joint_rand_len)`.
        num_shares: How many aggregators share the measurement, 2 to 255.

    Source:
        VDAF, "Querying the Proof"; [BBCGGI19], Theorem 4.3.
    """
    arity, num_calls = circuit.gadget.arity, circuit.num_calls
    wire_seeds, test_points = proof_shares[:, :arity], query_rands[:, -1]
    gadget_poly = extend_values_to_power_of_2(proof_shares[:, arity:])

    # The wire polynomials meet the calls at the powers of a root of order `wire_poly_len`; the
    # gadget polynomial is given at those of a finer root. Power 0 is the seeds'.
    step = gadget_poly.shape[1] // circuit.wire_poly_len
    gadget_outputs = gadget_poly[:, step : step * (num_calls + 1) : step]
    outputs = circuit.evaluate(gadget_outputs, meas_shares, num_shares)
    reduced = outputs
    if circuit.eval_output_len > 1:
        reduced = outputs.dot(query_rands[:, :-1])[:, None]

    inputs = circuit.gadget_inputs(meas_shares, joint_rands, num_shares)
    wire_checks = poly_eval(_wire_polys(circuit, wire_seeds, inputs), test_points)
    gadget_checks = poly_eval(gadget_poly, test_points)[:, None]
    # At a root of unity a check would be a wire's value at one call, and so reveal the measurement.
    is_rejected = (test_points**circuit.wire_poly_len).equals(1)
    shares = concat([reduced, wire_checks, gadget_checks])
    return Verifiers(shares.where(~is_rejected), is_rejected)


def decide(circuit: Circuit, verifiers: Vector) -> BoolRows:
    """Return which proofs hold.

    Args:
        circuit: The validity circuit the proofs are about.
        verifiers: Shape `(rows, verifier_len)`, the sums of all aggregators' shares.

    Source:
        VDAF, "Deciding Validity".
    """
    reduced, wire_checks, gadget_checks = verifiers[:, 0], verifiers[:, 1:-1], verifiers[:, -1]
    return reduced.equals(0) & circuit.gadget.evaluate(wire_checks).equals(gadget_checks)


def working_size(circuit: Circuit) -> int:
    """Return about how many bytes of intermediate values a report needs."""
    # The wires at twice the points of a wire polynomial, and two or three more such arrays.
    wires = circuit.gadget.arity * circuit.gadget.degree * circuit.wire_poly_len
    return 4 * wires * circuit.field.encoded_size


def _wire_polys(circuit: Circuit, seeds: Vector, inputs: Vector) -> Vector:
    """Return the wire polynomials by their values: the seed, the value at each call, then zeros.

    Args:
        circuit: The validity circuit.
        seeds: Shape `(rows, arity)`.
        inputs: Shape `(rows, num_calls, arity)`.

    Returns:
        Shape `(rows, arity, wire_poly_len)`.
    """
    rows, num_calls, arity = inputs.shape
    padding = Vector.zeros(circuit.field, (rows, circuit.wire_poly_len - 1 - num_calls, arity))
    return concat([seeds[:, None], inputs, padding], axis=1).swapaxes(1, 2)
