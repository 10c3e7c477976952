"""What `verifier_shares_to_message` computes for a slice of a batch: shares in, decisions out.

`decide_shares` adds up the aggregators' verifier shares, decides which proofs hold, and derives the
seeds of the joint randomness. It works for every circuit in terms of the field's vectors; for
those that have a fused kernel, another kernel does the same on lanes.

Source:
    VDAF, "Verification" of Prio3.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from aggregator.vdaf import _digit_decide, flp, fused
from aggregator.vdaf import _lane_decide as kernels
from aggregator.vdaf._kernel_arrays import in_groups
from aggregator.vdaf._kernel_tables import joint_rand_seed_message
from aggregator.vdaf.circuits import BitVectorCircuit
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.randomness import Randomness
from aggregator.vdaf.shares import nth
from aggregator.vdaf.xof import (
    SEED_SIZE,
    ByteRows,
)
from field import Vector, decode_rows
from field._jit import LaneWidth, lane_width
from field.lane_arrays import Table
from field.lanes128 import constant_table


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """What all aggregators' verifier shares of a batch of reports say.

    Attributes:
        joint_rand_seeds: Shape `(rows, 32)`, or `(rows, 0)` without joint randomness.
        undecodable: Which reports have a share with a number that is no residue.
        invalid: Whose proofs do not hold, of the others.
    """

    joint_rand_seeds: ByteRows = dataclasses.field(repr=False)
    undecodable: Sequence[int]
    invalid: Sequence[int]


def decide_shares(
    parameters: Parameters,
    ctx: bytes,
    shares: Sequence[ByteRows],
    *,
    width: LaneWidth | None = None,
) -> Decided:
    """Decide on a batch of reports.

    Args:
        parameters: The Prio3.
        ctx: The application context string.
        shares: For each aggregator shape `(rows, verifier_share_size)`, verifier shares in wire
            form.
        width: How many lanes a kernel uses; by default as many as the processor has.
    """
    width = lane_width() if width is None else width
    if len(shares[0]) == 0 or not fused.is_fused(parameters):
        return _decided(parameters, ctx, shares)
    if isinstance(parameters.circuit, BitVectorCircuit):
        return _decided_on_lanes(parameters, ctx, shares, width)
    return _decided_on_words(parameters, shares, width)


def _decided(parameters: Parameters, ctx: bytes, shares: Sequence[ByteRows]) -> Decided:
    """Decide by the field's vectors."""
    rows, size = len(shares[0]), parameters.verifiers_share_size
    is_decodable = np.ones(rows, np.bool_)
    verifiers = Vector.zeros(parameters.field, (rows, parameters.verifiers_len))
    for array in shares:
        residues, is_whole = decode_rows(parameters.field, array[:, :size])
        verifiers = verifiers + residues
        is_decodable &= is_whole
    is_valid = np.ones(rows, np.bool_)
    for proof in range(parameters.num_proofs):
        verifier = nth(verifiers, proof, parameters.circuit.verifier_len)
        is_valid &= flp.decide(parameters.circuit, verifier)
    parts = np.concatenate([array[:, size:] for array in shares], axis=1)
    return Decided(
        Randomness(parameters, ctx).joint_rand_seeds(parts),
        undecodable=np.flatnonzero(~is_decodable).tolist(),
        invalid=np.flatnonzero(is_decodable & ~is_valid).tolist(),
    )


def _decided_on_lanes(
    parameters: Parameters, ctx: bytes, shares: Sequence[ByteRows], width: LaneWidth
) -> Decided:
    """Decide by the kernel for sums of products in Field128."""
    lanes, rows = len(width), len(shares[0])
    message, parts_start = joint_rand_seed_message(parameters, ctx)
    workspace = kernels.workspace_for(parameters.num_shares, parameters.verifiers_len, lanes)
    minus_one = _minus_one(lanes)

    def decide(chosen: Sequence[ByteRows], found: Sequence[ByteRows]) -> None:
        kernels.decide_groups(
            width,
            parameters.verifiers_len,
            minus_one,
            message,
            parts_start,
            chosen[0],
            _beside_each_other(chosen[1:]),
            found[0],
            found[1],
            workspace,
        )

    seeds, flags = np.empty((rows, SEED_SIZE), np.uint8), np.empty((rows, 8), np.uint8)
    in_groups(decide, lanes, shares, (seeds, flags))
    return _as_flagged(seeds, flags)


@functools.cache
def _minus_one(lanes: int) -> Table:
    """Return -1 as a table of constants, in the limbs of so many lanes."""
    return constant_table(lanes, [-1])


def _decided_on_words(
    parameters: Parameters, shares: Sequence[ByteRows], width: LaneWidth
) -> Decided:
    """Decide by the kernel for Count and Sum, which have no joint randomness."""
    lanes, rows, arity = len(width), len(shares[0]), parameters.circuit.gadget.arity
    scratch = _digit_decide.new_scratch(parameters.num_shares, parameters.verifiers_len, lanes)

    def decide(chosen: Sequence[ByteRows], found: Sequence[ByteRows]) -> None:
        others = _beside_each_other(chosen[1:])
        _digit_decide.decide_groups(width, arity, chosen[0], others, found[0], scratch)

    flags = np.empty((rows, 8), np.uint8)
    in_groups(decide, lanes, shares, (flags,))
    return _as_flagged(np.empty((rows, 0), np.uint8), flags)


def _as_flagged(seeds: ByteRows, flags: ByteRows) -> Decided:
    """Return what a kernel found."""
    if not flags.any():
        return Decided(seeds, (), ())
    words = flags.view(np.uint64)[:, 0]
    is_undecodable = words & kernels.UNDECODABLE != 0
    return Decided(
        seeds,
        undecodable=np.flatnonzero(is_undecodable).tolist(),
        invalid=np.flatnonzero(~is_undecodable & (words != 0)).tolist(),
    )


def _beside_each_other(arrays: Sequence[ByteRows]) -> ByteRows:
    """Return arrays as one, read-only; a single one, as two aggregators have it, is not copied."""
    if len(arrays) == 1:
        return arrays[0][None]
    together = np.stack(arrays)
    together.flags.writeable = False
    return together
