"""`Verifier`: a fused kernel for circuits that have one, the general function for all others.

A fused kernel takes reports from bytes to verifier shares side by side, as many as the processor
has lanes. It flags a leader's share that holds a number that is no residue: that report is refused.
It decides nothing else that is rare: it flags a report whose XOF stream held such a number, or
whose test point is a root of unity, and such a report is computed again by
`aggregator.vdaf.verification.query_shares`, the definition of both.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from aggregator.vdaf import _digit_sum_plan, _parallel_sum_plan, flp
from aggregator.vdaf._kernel_arrays import NOT_A_RESIDUE, Inputs, Outputs, in_groups
from aggregator.vdaf.circuits import BitVectorCircuit, Count, Sum
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.shares import WORKING_MEMORY, slices
from aggregator.vdaf.verification import Aggregator, QueriedShares, ReportShares, query_shares
from aggregator.vdaf.xof import ByteRows
from field import FIELD128, encode_rows
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
    return isinstance(circuit, (Count, Sum))


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


class Results(NamedTuple):
    """What verification of a batch computes, one row a report; filled in a slice at a time.

    Attributes:
        verifier_shares: `uint8[rows, verifier_share_size]`.
        out_shares: `uint64[rows, output_len]`, with the words of an element as one more axis; not
            filled in where `leading_out_shares` has them, and `uint64[rows, 0]` where they stay
            there.
        joint_rand_seeds: `uint8[rows, 32]`, or `uint8[rows, 0]` without joint randomness.
    """

    verifier_shares: ByteRows
    out_shares: Words
    joint_rand_seeds: ByteRows

    @override
    def __repr__(self) -> str:
        """Show nothing: shares are secret."""
        return "Results()"

    def rows(self, part: slice) -> "Results":
        """Return the arrays of some of the reports."""
        return Results(
            self.verifier_shares[part], self.out_shares[part], self.joint_rand_seeds[part]
        )


def has_leading_out_shares(parameters: Parameters, agg_id: int) -> bool:
    """Return whether an aggregator's out shares are the beginnings of its input shares."""
    circuit = parameters.circuit
    if agg_id != 0 or not isinstance(circuit, BitVectorCircuit) or not is_fused(parameters):
        return False
    return _parallel_sum_plan.plan(parameters, agg_id).shape.digits == 1


def leading_out_shares(parameters: Parameters, input_shares: ByteRows) -> Words:
    """Return the out shares with which input shares begin; see `has_leading_out_shares`.

    Args:
        parameters: The Prio3.
        input_shares: `uint8[rows, input_share_size(0)]`, the leader's, in wire form.

    Returns:
        As `Results.out_shares`, in the memory of the input shares if that is contiguous and
        aligned. Where a number is no residue, they are none.
    """
    leading = input_shares[:, : parameters.output_len * parameters.field.encoded_size]
    if not input_shares.flags.c_contiguous:
        leading = np.ascontiguousarray(leading)
    # The processor's byte order is the encoding's.
    words = leading.view(np.uint64)
    shape = len(words), parameters.output_len, *parameters.field.word_shape
    return (words if words.flags.aligned else words.copy()).reshape(shape)


def new_results(parameters: Parameters, rows: int, *, has_out_shares: bool = True) -> Results:
    """Return arrays to be filled in, that of the out shares if it is wanted."""
    output_len = parameters.output_len if has_out_shares else 0
    return Results(
        np.empty((rows, parameters.verifier_share_size), np.uint8),
        np.empty((rows, output_len, *parameters.field.word_shape), np.uint64),
        np.empty((rows, parameters.blind_size), np.uint8),
    )


class Refused(NamedTuple):
    """Which reports have no result: their rows mean nothing.

    Attributes:
        undecodable: Their input shares hold a number that is no residue.
        rejected: They met a test point that is a root of unity.
    """

    undecodable: Sequence[int] = ()
    rejected: Sequence[int] = ()


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
        self._is_leading = has_leading_out_shares(parameters, aggregator.agg_id)
        self._run: Callable[[Inputs, Outputs], None] | None = None
        if is_fused(parameters):
            plan = _plan(parameters, aggregator.agg_id)
            width = plan.width if width is None else width
            self._lanes = len(width)
            self._run = plan.prepare(parameters, aggregator, width)

    def query(self, shares: ReportShares, results: Results) -> Refused:
        """Fill in what `verification.query_shares` returns, by a fused kernel if there is one.

        Args:
            shares: Any number of reports, of this aggregator.
            results: As many rows, to be filled in.
        """
        parameters, run = self._parameters, self._run
        if run is None:
            return _put(parameters, query_shares(parameters, shares), results, slice(None))
        wanted = results.out_shares[:, :0] if self._is_leading else results.out_shares
        outputs = _outputs(parameters, results._replace(out_shares=wanted))
        if len(shares) > 0:
            inputs = shares.nonces, shares.public_shares, shares.input_shares
            in_groups(
                lambda chosen, found: run(Inputs(*chosen), Outputs(*found)),
                self._lanes,
                inputs,
                outputs,
            )
        if not outputs.flags.any():
            return Refused()
        return self._again(shares, outputs.flags.view(np.uint64)[:, 0], results)

    def _again(self, shares: ReportShares, flags: Words, results: Results) -> Refused:
        """Compute the reports again that a kernel flagged, but for those it could not decode.

        They are few unless somebody wants them to be many, so that memory is bounded here too.
        """
        parameters = self._parameters
        is_undecodable = flags & np.uint64(NOT_A_RESIDUE) != 0
        undecodable = np.flatnonzero(is_undecodable).tolist()
        irregular = np.flatnonzero((flags != 0) & ~is_undecodable)
        if not len(irregular):
            return Refused(undecodable)
        rejected: list[int] = []
        for part in slices(len(irregular), flp.working_size(parameters.circuit), WORKING_MEMORY):
            chosen = irregular[part]
            queried = query_shares(parameters, shares.rows(chosen))
            refused = _put(parameters, queried, results, chosen)
            rejected += chosen[list(refused.rejected)].tolist()
        return Refused(undecodable, rejected)


def _put(
    parameters: Parameters,
    queried: QueriedShares,
    results: Results,
    place: slice | npt.NDArray[np.intp],
) -> Refused:
    """Fill in what the general function found."""
    size = parameters.verifiers_share_size
    results.verifier_shares[place, :size] = encode_rows(queried.verifiers_shares)
    results.verifier_shares[place, size:] = queried.joint_rand_parts
    # All elements, or none where they are not wanted.
    results.out_shares[place] = queried.out_shares.words[:, : results.out_shares.shape[1]]
    results.joint_rand_seeds[place] = queried.joint_rand_seeds
    return Refused(
        np.flatnonzero(queried.is_undecodable).tolist(),
        np.flatnonzero(queried.is_rejected).tolist(),
    )


def _outputs(parameters: Parameters, results: Results) -> Outputs:
    """Return the results' arrays as a kernel fills them in, with flags."""
    rows, output_len = results.out_shares.shape[:2]
    out_share_size = output_len * parameters.field.encoded_size
    return Outputs(
        verifier_shares=results.verifier_shares,
        out_shares=results.out_shares.view(np.uint8).reshape(rows, out_share_size),
        joint_rand_seeds=results.joint_rand_seeds,
        flags=np.empty((rows, 8), np.uint8),
    )
