"""`query`: a fused kernel for the circuits that have one, the general function for all others.

A fused kernel takes reports from bytes to verifier shares, one per lane of the processor. It flags
a leader's share that holds a non-residue: that report is rejected. Other rare cases it only flags:
a report whose XOF stream held a non-residue, or whose test point is a root of unity, is computed
again by `aggregator.vdaf.verification.query_shares`, which defines both. That function also does
all of the work while the kernels are being compiled elsewhere.
"""

import functools
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.vdaf import flp
from aggregator.vdaf.kernels.arrays import NOT_A_RESIDUE, Outputs, in_groups
from aggregator.vdaf.kernels.chunks import plan as chunks
from aggregator.vdaf.kernels.digits import plan as digits
from aggregator.vdaf.outcomes import Rejections, ShareDecodeError, VerifyError
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.shares import WORKING_MEMORY, slices
from aggregator.vdaf.verification import QueriedShares, ReportShares, query_shares
from aggregator.vdaf.xof import ByteRows
from field import encode_rows
from field.lanes import WORD_SIZE, KernelMissing, LaneWidth, is_looking

Words: TypeAlias = npt.NDArray[np.uint64]


Plan: TypeAlias = chunks.Plan | digits.Plan
"""What a module of fused kernels offers for one aggregator of a Prio3.

A kernel that it prepares has its own scratch space, so every thread needs its own kernel. It runs
without the interpreter's lock, and its memory does not grow with the batch.
"""


def is_fused(parameters: Parameters) -> bool:
    """Return whether a fused kernel verifies this Prio3."""
    return plan_for(parameters, 0) is not None


@functools.lru_cache(maxsize=64)
def plan_for(parameters: Parameters, agg_id: int) -> Plan | None:
    """Return the plan for one aggregator of a Prio3, None if there is no kernel."""
    if chunks.takes(parameters):
        return chunks.plan(parameters, agg_id)
    if digits.takes(parameters):
        return digits.plan(parameters, agg_id)
    return None


def working_size(parameters: Parameters, agg_id: int) -> int:
    """Return roughly how many bytes one report needs besides its out share."""
    shares = parameters.input_share_size(agg_id) + parameters.public_share_size
    if is_fused(parameters):
        return shares + 2 * parameters.verifier_share_size
    return shares + flp.working_size(parameters.circuit)


def has_leading_out_shares(parameters: Parameters, agg_id: int) -> bool:
    """Return whether an aggregator's out shares are the beginnings of its input shares."""
    plan = plan_for(parameters, agg_id)
    return agg_id == 0 and isinstance(plan, chunks.Plan) and plan.shape.is_prefix


def new_outputs(parameters: Parameters, rows: int, *, has_out_shares: bool = True) -> Outputs:
    """Return arrays to be filled in; the out shares' is empty unless `has_out_shares`."""
    out_share_size = parameters.output_len * parameters.field.encoded_size
    return Outputs(
        verifier_shares=np.empty((rows, parameters.verifier_share_size), np.uint8),
        out_shares=np.empty((rows, out_share_size if has_out_shares else 0), np.uint8),
        joint_rand_seeds=np.empty((rows, parameters.blind_size), np.uint8),
        flags=np.empty((rows, WORD_SIZE), np.uint8),
    )


def out_shares_of(parameters: Parameters, encoded: ByteRows) -> Words:
    """Return the out shares with which rows of bytes begin.

    Args:
        parameters: The Prio3.
        encoded: Out shares, or input shares that `has_leading_out_shares`.

    Returns:
        `uint64[rows, output_len]`, with one more axis if an element has several words; a view of
        `encoded` if that is contiguous and aligned. Non-residues in `encoded` stay as they are.
    """
    leading = encoded[:, : parameters.output_len * parameters.field.encoded_size]
    if not encoded.flags.c_contiguous:
        leading = np.ascontiguousarray(leading)
    # The processor's byte order is the encoding's.
    words = leading.view(np.uint64)
    shape = len(words), parameters.output_len, *parameters.field.word_shape
    return (words if words.flags.aligned else words.copy()).reshape(shape)


def query(
    parameters: Parameters,
    shares: ReportShares,
    outputs: Outputs,
    *,
    width: LaneWidth | None = None,
) -> Rejections:
    """Fill in what `verification.query_shares` returns, by a fused kernel if there is one.

    Args:
        parameters: The Prio3.
        shares: One aggregator's shares of any number of reports.
        outputs: One row per report, to be filled in. Out shares may be left out if the aggregator
            `has_leading_out_shares`.
        width: The lanes; by default as many as the processor has and memory allows.

    Returns:
        Which reports have no result, and why; their rows are meaningless.
    """
    plan = plan_for(parameters, shares.aggregator.agg_id)
    if plan is None:
        return _put(parameters, query_shares(parameters, shares), outputs, np.arange(len(shares)))
    width = plan.width if width is None else width
    run = plan.prepare(parameters, shares.aggregator, width)
    given = shares.nonces, shares.public_shares, shares.input_shares
    try:
        in_groups(run, len(width), given, outputs)
    except KernelMissing:
        if is_looking():
            raise
        return _query_generally(parameters, shares, np.arange(len(shares)), outputs)
    flags = outputs.flags.view(np.uint64)
    if not np.count_nonzero(flags):
        return {}
    return _query_again(parameters, shares, flags[:, 0], outputs)


def _query_again(
    parameters: Parameters, shares: ReportShares, flags: Words, outputs: Outputs
) -> Rejections:
    """Compute again the reports that a kernel flagged, except those it could not decode.

    They are few unless an attacker makes them many, so memory is bounded here too.
    """
    is_undecodable = flags & np.uint64(NOT_A_RESIDUE) != 0
    rejected: Rejections = {i: _not_a_residue() for i in np.flatnonzero(is_undecodable).tolist()}
    irregular = np.flatnonzero((flags != 0) & ~is_undecodable)
    return rejected | _query_generally(parameters, shares, irregular, outputs)


def _query_generally(
    parameters: Parameters, shares: ReportShares, rows: npt.NDArray[np.intp], outputs: Outputs
) -> Rejections:
    """Compute some of the reports by the general function, a bounded number at a time."""
    rejected: Rejections = {}
    if len(rows):
        for part in slices(len(rows), flp.working_size(parameters.circuit), WORKING_MEMORY):
            chosen = rows[part]
            queried = query_shares(parameters, shares.rows(chosen))
            rejected |= _put(parameters, queried, outputs, chosen)
    return rejected


def _put(
    parameters: Parameters, queried: QueriedShares, outputs: Outputs, rows: npt.NDArray[np.intp]
) -> Rejections:
    """Fill in what the general function computed for some of the reports."""
    size = parameters.verifiers_share_size
    outputs.verifier_shares[rows, :size] = encode_rows(queried.verifiers_shares)
    outputs.verifier_shares[rows, size:] = queried.joint_rand_parts
    # All bytes, or no bytes if out shares are not wanted.
    wanted = outputs.out_shares.shape[1]
    outputs.out_shares[rows] = encode_rows(queried.out_shares)[:, :wanted]
    outputs.joint_rand_seeds[rows] = queried.joint_rand_seeds
    rejected: Rejections = {}
    for index in rows[queried.is_rejected].tolist():
        rejected[index] = VerifyError("the test point is a root of unity")
    for index in rows[queried.is_undecodable].tolist():
        rejected[index] = _not_a_residue()
    return rejected


def _not_a_residue() -> ShareDecodeError:
    return ShareDecodeError("the input share holds a non-residue")
