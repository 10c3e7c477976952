"""`verifier_shares_to_message` for a batch: all aggregators' shares in, messages out.

`decide_shares` adds up the aggregators' verifier shares, decides which proofs hold, and derives the
joint randomness seeds. It computes with the field's vectors for every circuit; for those that have
a fused kernel, another kernel does the same on lanes.

Source:
    VDAF, "Verification" of Prio3.
"""

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from aggregator.errors import ReportRejected
from aggregator.vdaf import flp
from aggregator.vdaf.kernels import dispatch
from aggregator.vdaf.kernels.arrays import INVALID, UNDECODABLE, in_groups
from aggregator.vdaf.kernels.chunks import decide as chunks
from aggregator.vdaf.kernels.digits import decide as digits
from aggregator.vdaf.kernels.digits.plan import Plan as DigitsPlan
from aggregator.vdaf.kernels.tables import joint_rand_seed_message
from aggregator.vdaf.outcomes import NO_VERIFIER_SHARE, VerifierMessages, VerifyError
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.randomness import Randomness
from aggregator.vdaf.shares import WORKING_MEMORY, nth, slices
from aggregator.vdaf.xof import ByteRows
from field import Vector, decode_rows
from field.lanes import (
    KernelMissing,
    LaneWidth,
    Table,
    field128,
    is_looking,
    lane_width,
    new_workspace,
)


def decide_shares(
    parameters: Parameters,
    ctx: bytes,
    shares: Sequence[ByteRows],
    *,
    width: LaneWidth | None = None,
) -> VerifierMessages:
    """Decide on a batch of reports.

    Args:
        parameters: The Prio3.
        ctx: The application context string.
        shares: Each aggregator's encoded verifier shares, `uint8[rows, verifier_share_size]`.
        width: The lanes a kernel uses; by default as many as the processor has.
    """
    rows = len(shares[0])
    seeds = np.empty((rows, parameters.verifier_message_size), np.uint8)
    flags = np.empty(rows, np.uint64)
    if not _decided_on_lanes(parameters, ctx, shares, width, (seeds, flags)):
        for part in _slices(parameters, rows):
            chosen = [array[part] for array in shares]
            seeds[part], flags[part] = _decided(parameters, ctx, chosen)
    flagged = flags.nonzero()[0].tolist()
    return VerifierMessages(seeds, {index: _error(int(flags[index])) for index in flagged})


def _decided_on_lanes(
    parameters: Parameters,
    ctx: bytes,
    shares: Sequence[ByteRows],
    width: LaneWidth | None,
    results: tuple[ByteRows, dispatch.Words],
) -> bool:
    """Fill in the results by a kernel, and return whether there is one that is compiled."""
    if not dispatch.is_fused(parameters):
        return False
    width = lane_width() if width is None else width
    run = _kernel(parameters, ctx, width)
    seeds, flags = results
    outputs = [seeds, flags[:, None].view(np.uint8)]
    try:
        if len(shares) == 2 and all(array.flags.c_contiguous for array in shares):  # noqa: PLR2004  the usual two
            in_groups(run, len(width), shares, outputs)
        else:
            for part in _slices(parameters, len(flags)):
                others = np.concatenate([array[part] for array in shares[1:]], axis=1)
                found = [array[part] for array in outputs]
                in_groups(run, len(width), [shares[0][part], others], found)
    except KernelMissing:
        if is_looking():
            raise
        return False
    return True


def _slices(parameters: Parameters, rows: int) -> Iterator[slice]:
    """Return the parts of a batch that are copied one at a time."""
    return slices(rows, 4 * parameters.num_shares * parameters.verifier_share_size, WORKING_MEMORY)


def _error(flags: int) -> ReportRejected:
    return VerifyError(NO_VERIFIER_SHARE if flags & UNDECODABLE else "the proof does not hold")


def _decided(
    parameters: Parameters, ctx: bytes, shares: Sequence[ByteRows]
) -> tuple[ByteRows, dispatch.Words]:
    """Return the joint randomness seeds and the flags, computed with the field's vectors."""
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
    flags = np.where(is_decodable, np.where(is_valid, 0, INVALID), UNDECODABLE)
    return Randomness(parameters, ctx).joint_rand_seeds(parts), flags.astype(np.uint64)


def _kernel(parameters: Parameters, ctx: bytes, width: LaneWidth) -> Callable[..., None]:
    """Return the kernel: it takes the leader's shares and the others', and fills in two outputs."""
    if isinstance(dispatch.plan_for(parameters, 0), DigitsPlan):
        arity = parameters.circuit.gadget.arity
        return functools.partial(digits.decide_groups, width, arity)
    constants, scratch_ends = _constants(parameters, ctx, width)
    workspace = new_workspace(scratch_ends, len(width))
    return functools.partial(chunks.decide_groups, width, *constants, workspace)


@functools.lru_cache(maxsize=256)
def _constants(
    parameters: Parameters, ctx: bytes, width: LaneWidth
) -> tuple[tuple[int, Table, Table, int], tuple[int, ...]]:
    """Return what a kernel takes before its workspace, and where the workspace's arrays end."""
    length, minus_one = parameters.verifiers_len, field128.constant_table(width, [-1])
    scratch_ends = chunks.scratch_ends(parameters.num_shares, length, len(width))
    return (length, minus_one, *joint_rand_seed_message(parameters, ctx)), scratch_ends
