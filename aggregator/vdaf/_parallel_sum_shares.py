"""From bytes to residues in lanes: shares loaded or expanded, and the randomness that they fix.

The first half of `aggregator.vdaf._parallel_sum`, whose notation is used here.

Source:
    VDAF, "Verification" and "Auxiliary Functions" of Prio3.
"""

from aggregator.vdaf._kernel_arrays import (
    IRREGULAR,
    NONCE_SIZE,
    NOT_A_RESIDUE,
    SEED_SIZE,
    Inputs,
    Outputs,
    copy_nonces,
    store,
)
from aggregator.vdaf._lane_xof import (
    absorb_open,
    absorb_template,
    squeeze_words,
)
from aggregator.vdaf._parallel_sum_arrays import Messages, Scratch, Shape
from field._jit import LaneWidth, kernel
from field.lanes import (
    Bytes,
    LaneArray,
    copy_rows,
    rows_to_words,
    words_to_rows,
)
from field.lanes128 import (
    WORDS,
    flag_not_residues,
)


@kernel
def proof_len(shape: Shape) -> int:
    """Return the residues of a proof: a seed a wire, and the gadget polynomial's 2p - 1 values."""
    return 2 * shape.chunk_length + (2 << shape.log_p) - 1


@kernel
def load_share(
    width: LaneWidth, shape: Shape, input_shares: Bytes, first: int, scratch: Scratch
) -> None:
    """Bring the leader's shares of a measurement and its proof into lanes; check every residue."""
    size = input_shares.shape[1]
    length = shape.meas_len + proof_len(shape)
    rows_to_words(width, scratch.share, 0, input_shares, first * size, size, WORDS * length)
    flag_not_residues(width, scratch.flags, 0, scratch.share, 0, length, NOT_A_RESIDUE)


@kernel
def expand_share(
    width: LaneWidth,
    shape: Shape,
    messages: Messages,
    input_shares: Bytes,
    first: int,
    scratch: Scratch,
) -> None:
    """Expand a helper's seed into its shares of a measurement and of its proof."""
    size = input_shares.shape[1]
    proof = WORDS * shape.meas_len
    for message, row, length in (
        (messages.meas_share, 0, shape.meas_len),
        (messages.proofs_share, proof, proof_len(shape)),
    ):
        copy_rows(
            width,
            message,
            messages.seed_start,
            message.shape[1],
            input_shares,
            first * size,
            size,
            SEED_SIZE,
        )
        expand(width, message, scratch.share, row, length, scratch)


@kernel
def expand(
    width: LaneWidth, message: Bytes, out: LaneArray, row: int, length: int, scratch: Scratch
) -> None:
    """Draw `length` residues from the stream of a message."""
    absorb_template(width, scratch.sponge, message)
    squeeze_words(width, scratch.sponge, out, row, WORDS * length)
    flag_not_residues(width, scratch.flags, 0, out, row, length, IRREGULAR)


@kernel
def derive_joint_rand(
    width: LaneWidth,
    shape: Shape,
    messages: Messages,
    inputs: Inputs,
    outputs: Outputs,
    first: int,
    scratch: Scratch,
) -> None:
    """Derive this aggregator's part of the joint randomness, the seed, and the randomness."""
    part, seed = messages.joint_rand_part, messages.joint_rand_seed
    stride, part_size = inputs.input_shares.shape[1], part.shape[1]
    blind = (first + 1) * stride - SEED_SIZE
    copy_rows(
        width,
        part,
        messages.seed_start,
        part_size,
        inputs.input_shares,
        blind,
        stride,
        SEED_SIZE,
    )
    copy_nonces(width, part, messages.joint_rand_part_size - NONCE_SIZE, inputs.nonces, first)
    rows_to_words(width, scratch.head, 0, part, 0, part_size, part_size // 8)
    absorb_open(
        width,
        scratch.sponge,
        scratch.head,
        messages.joint_rand_part_size,
        scratch.share,
        WORDS * shape.meas_len,
        messages.domain,
    )
    rows, row_size = outputs.verifier_shares, outputs.verifier_shares.shape[1]
    part_start = (first + 1) * row_size - SEED_SIZE
    words_to_rows(width, rows, part_start, row_size, scratch.sponge, 0, SEED_SIZE, scratch.block)

    # The client's word is taken for the other aggregators' parts, not for this one's.
    size, seed_size = inputs.public_shares.shape[1], seed.shape[1]
    start = messages.parts_start
    copy_rows(width, seed, start, seed_size, inputs.public_shares, first * size, size, size)
    own = start + SEED_SIZE * shape.agg_id
    copy_rows(width, seed, own, seed_size, rows, part_start, row_size, SEED_SIZE)
    absorb_template(width, scratch.sponge, seed)
    store(width, outputs.joint_rand_seeds, first, scratch.sponge, 0, scratch.block)

    rand = messages.joint_rand
    copy_rows(
        width,
        rand,
        messages.seed_start,
        rand.shape[1],
        outputs.joint_rand_seeds,
        first * SEED_SIZE,
        SEED_SIZE,
        SEED_SIZE,
    )
    expand(width, rand, scratch.joint_rand, 0, shape.num_calls, scratch)


@kernel
def derive_query_rand(
    width: LaneWidth,
    shape: Shape,
    messages: Messages,
    nonces: Bytes,
    first: int,
    scratch: Scratch,
) -> None:
    """Derive the test point, and before it what reduces the circuit's two outputs if it has two."""
    copy_nonces(width, messages.query_rand, messages.nonce_start, nonces, first)
    length = 3 if shape.has_check else 1
    expand(width, messages.query_rand, scratch.query_rand, 0, length, scratch)
