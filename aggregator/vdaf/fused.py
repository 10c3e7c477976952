"""`Verifier`: a fused kernel for circuits that have one, the general function for all others.

A fused kernel takes reports from bytes to verifier shares side by side, as many as the processor
has lanes. It decides nothing that is rare: it flags a report whose XOF stream held a number that is
no residue, or whose test point is a root of unity, and such a report is computed again by
`aggregator.vdaf.verification.query_shares`, the definition of both.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.vdaf import _digit_sum_plan, _parallel_sum_plan, flp
from aggregator.vdaf._kernel_arrays import NOT_A_RESIDUE, Inputs, Outputs
from aggregator.vdaf.circuits import BitVectorCircuit, Count, Sum
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.verification import Aggregator, QueriedShares, ReportShares, query_shares
from aggregator.vdaf.xof import ByteRows
from field import FIELD128, Field, Vector, encode_rows
from field._jit import LaneWidth

Words: TypeAlias = npt.NDArray[np.uint64]


class Plan(Protocol):
    """What a module of fused kernels offers for one Prio3 and one of its aggregators."""

    @property
    def width(self) -> LaneWidth:
        """How many lanes to use."""

    def prepare(
        self, parameters: Parameters, aggregator: Aggregator, width: LaneWidth
    ) -> Callable[[Inputs, Outputs], None]:
        """Return the kernel for a multiple of as many reports as there are lanes, call by call."""


def is_fused(parameters: Parameters) -> bool:
    """Return whether a fused kernel verifies this Prio3."""
    circuit = parameters.circuit
    if parameters.num_proofs > 1:
        return False
    if isinstance(circuit, BitVectorCircuit):
        return circuit.field is FIELD128
    return isinstance(circuit, Count | Sum)


def _plan(parameters: Parameters, agg_id: int) -> Plan:
    if isinstance(parameters.circuit, BitVectorCircuit):
        return _parallel_sum_plan.plan(parameters, agg_id)
    return _digit_sum_plan.plan(parameters, agg_id)


def working_size(parameters: Parameters, agg_id: int) -> int:
    """Return about how many bytes one report needs besides its out share."""
    shares = parameters.input_share_size(agg_id) + parameters.public_share_size
    if is_fused(parameters):
        return shares + 2 * parameters.verifier_share_size
    return shares + flp.working_size(parameters.circuit)


class Verifier:
    """`query` for one aggregator: what all its reports have in common is computed once.

    A kernel holds no Python lock while it runs, and its memory does not grow with the batch. A
    verifier has scratch space of its own: give every thread its own verifier.

    Args:
        parameters: The Prio3.
        aggregator: Whose shares are to be verified.
        width: How many lanes; by default as many as the processor has and memory allows.
    """

    def __init__(
        self, parameters: Parameters, aggregator: Aggregator, *, width: LaneWidth | None = None
    ) -> None:
        self._parameters = parameters
        self._lanes = 1
        self._run: Callable[[Inputs, Outputs], None] | None = None
        if is_fused(parameters):
            plan = _plan(parameters, aggregator.agg_id)
            width = plan.width if width is None else width
            self._lanes = len(width)
            self._run = plan.prepare(parameters, aggregator, width)

    def query(self, shares: ReportShares, out_shares: Words) -> QueriedShares:
        """Return what `verification.query_shares` returns, by a fused kernel if there is one.

        Args:
            shares: Any number of reports, of this aggregator.
            out_shares: Where the words of the out shares go, shape `(rows, output_len)` and the
                words of an element: the result's `out_shares` is this array.
        """
        parameters, run, lanes, rows = self._parameters, self._run, self._lanes, len(shares)
        if run is None:
            queried = query_shares(parameters, shares)
            out_shares[...] = queried.out_shares.words
            return queried
        outputs = _outputs(parameters, rows, out_shares)
        whole = rows - rows % lanes
        if whole > 0:
            filled = Outputs(*(array[:whole] for array in outputs))
            run(_inputs(shares.rows(slice(0, whole))), filled)
        if whole < rows:
            # The lanes that are left over at the end repeat the last report.
            chosen = np.minimum(np.arange(whole, whole + lanes), rows - 1)
            found = _outputs(parameters, lanes, np.empty((lanes, *out_shares.shape[1:]), np.uint64))
            run(_inputs(shares.rows(chosen)), found)
            for array, part in zip(outputs, found, strict=True):
                array[whole:] = part[: rows - whole]
        return _decided(parameters, shares, outputs)


def _inputs(shares: ReportShares) -> Inputs:
    """Return arrays as numba knows them: read-only and writable ones have different types."""
    arrays = [
        np.ascontiguousarray(rows).view()
        for rows in (shares.nonces, shares.public_shares, shares.input_shares)
    ]
    for array in arrays:
        array.flags.writeable = False
    return Inputs(*arrays)


def _outputs(parameters: Parameters, rows: int, out_shares: Words) -> Outputs:
    out_share_size = parameters.output_len * parameters.field.encoded_size
    return Outputs(
        verifiers=np.empty((rows, parameters.verifiers_share_size), np.uint8),
        out_shares=out_shares.view(np.uint8).reshape(rows, out_share_size),
        joint_rand_parts=np.empty((rows, parameters.blind_size), np.uint8),
        joint_rand_seeds=np.empty((rows, parameters.blind_size), np.uint8),
        flags=np.empty((rows, 8), np.uint8),
    )


def _decided(parameters: Parameters, shares: ReportShares, outputs: Outputs) -> QueriedShares:
    """Return what the kernel computed, with the reports that it flagged computed again."""
    flags = outputs.flags.view(np.uint64)[:, 0]
    is_undecodable = flags & np.uint64(NOT_A_RESIDUE) != 0
    is_rejected = np.zeros(len(shares), np.bool_)
    irregular = np.flatnonzero((flags != 0) & ~is_undecodable)
    if len(irregular):
        again = query_shares(parameters, shares.rows(irregular))
        outputs.verifiers[irregular] = encode_rows(again.verifiers_shares)
        outputs.out_shares[irregular] = encode_rows(again.out_shares)
        outputs.joint_rand_parts[irregular] = again.joint_rand_parts
        outputs.joint_rand_seeds[irregular] = again.joint_rand_seeds
        is_undecodable[irregular] = again.is_undecodable
        is_rejected[irregular] = again.is_rejected
    return QueriedShares(
        out_shares=_vector(parameters.field, outputs.out_shares),
        verifiers_shares=_vector(parameters.field, outputs.verifiers),
        joint_rand_parts=outputs.joint_rand_parts,
        joint_rand_seeds=outputs.joint_rand_seeds,
        is_undecodable=is_undecodable,
        is_rejected=is_rejected,
    )


def _vector(field: Field, rows: ByteRows) -> Vector:
    """Return encoded residues below p as a vector; the processor's byte order is the encoding's."""
    length = rows.shape[1] // field.encoded_size
    return Vector(field, rows.view(np.uint64).reshape(len(rows), length, *field.word_shape))
