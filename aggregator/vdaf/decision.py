"""What `verifier_shares_to_message` computes for a slice of a batch: shares in, decisions out.

`decide_shares` adds up the aggregators' verifier shares, decides which proofs hold, and derives the
seeds of the joint randomness. It works for every circuit in terms of the field's vectors; for those
that check digits in chunks, a kernel does the same on lanes.

Source:
    VDAF, "Verification" of Prio3.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from aggregator.vdaf import _lane_decide as kernels
from aggregator.vdaf import flp, fused
from aggregator.vdaf._lane_xof import template
from aggregator.vdaf.circuits import BitVectorCircuit
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.randomness import Randomness
from aggregator.vdaf.shares import BoolRows, nth
from aggregator.vdaf.xof import (
    SEED_SIZE,
    USAGE_JOINT_RAND_SEED,
    ByteRows,
    domain_separation_tag,
)
from field import Vector, decode_rows
from field._jit import LaneWidth, lane_width
from field.lanes128 import constant_table


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """What all aggregators' verifier shares of a batch of reports say.

    Attributes:
        joint_rand_seeds: Shape `(rows, 32)`, or `(rows, 0)` without joint randomness.
        is_decodable: Which reports have no share with a number that is no residue.
        is_valid: Whose proofs hold; where a share is not decodable it means nothing.
    """

    joint_rand_seeds: ByteRows = dataclasses.field(repr=False)
    is_decodable: BoolRows
    is_valid: BoolRows


def decide_shares(
    parameters: Parameters, ctx: bytes, shares: ByteRows, *, width: LaneWidth | None = None
) -> Decided:
    """Decide on a batch of reports.

    Args:
        parameters: The Prio3.
        ctx: The application context string.
        shares: Shape `(rows, num_shares, verifier_share_size)`, verifier shares in wire form.
        width: How many lanes a kernel uses; by default as many as the processor has.
    """
    width = lane_width() if width is None else width
    if fused.is_fused(parameters) and isinstance(parameters.circuit, BitVectorCircuit):
        return _decided_on_lanes(parameters, ctx, shares, width)
    return _decided(parameters, ctx, shares)


def _decided(parameters: Parameters, ctx: bytes, shares: ByteRows) -> Decided:
    """Decide by the field's vectors."""
    rows, size = len(shares), parameters.verifiers_share_size
    is_decodable = np.ones(rows, np.bool_)
    verifiers = Vector.zeros(parameters.field, (rows, parameters.verifiers_len))
    for agg_id in range(parameters.num_shares):
        residues, is_whole = decode_rows(parameters.field, shares[:, agg_id, :size])
        verifiers = verifiers + residues
        is_decodable &= is_whole
    is_valid = np.ones(rows, np.bool_)
    for proof in range(parameters.num_proofs):
        verifier = nth(verifiers, proof, parameters.circuit.verifier_len)
        is_valid &= flp.decide(parameters.circuit, verifier)
    parts = shares[:, :, size:].reshape(rows, parameters.public_share_size)
    seeds = Randomness(parameters, ctx).joint_rand_seeds(parts)
    return Decided(seeds, is_decodable, is_valid)


def _decided_on_lanes(
    parameters: Parameters, ctx: bytes, shares: ByteRows, width: LaneWidth
) -> Decided:
    """Decide by a kernel."""
    lanes, rows = len(width), len(shares)
    dst = domain_separation_tag(parameters.algorithm_id, USAGE_JOINT_RAND_SEED, ctx)
    message = template(lanes, dst, bytes(parameters.public_share_size))
    scratch = kernels.new_scratch(parameters.num_shares, parameters.verifiers_len, lanes)
    minus_one = constant_table(lanes, [-1])
    # The lanes that are left over at the end repeat the last report.
    padded = -(-rows // lanes) * lanes
    seeds, flags = np.empty((padded, SEED_SIZE), np.uint8), np.empty((padded, 8), np.uint8)
    whole = rows - rows % lanes
    for part in (slice(0, whole), slice(whole, padded)):
        within = shares[part] if part.stop <= rows else shares[_repeating_last(part, rows)]
        # Read-only arrays and others are different types, and kernels are compiled for one.
        chosen = np.ascontiguousarray(within).view()
        chosen.flags.writeable = False
        kernels.decide_groups(
            width,
            parameters.verifiers_len,
            minus_one,
            message,
            chosen,
            seeds[part],
            flags[part],
            scratch,
        )
    words = flags.view(np.uint64)[:rows, 0]
    return Decided(seeds[:rows], words & kernels.UNDECODABLE == 0, words & kernels.INVALID == 0)


def _repeating_last(part: slice, rows: int) -> npt.NDArray[np.intp]:
    """Return the indices in a slice, with the last row's in place of those beyond it."""
    return np.minimum(np.arange(part.start, part.stop), rows - 1)
