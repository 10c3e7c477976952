"""From bytes to residues in lanes: shares, and the randomness derived from them.

The first half of `kernels.chunks.query`, whose notation is used here.

Source:
    VDAF, "Verification" and "Auxiliary Functions" of Prio3.
"""

from aggregator.vdaf.kernels.arrays import (
    IRREGULAR,
    NONCE_SIZE,
    NONCE_WORDS,
    NOT_A_RESIDUE,
    SEED_SIZE,
    SEED_WORDS,
    Inputs,
    Outputs,
    store,
)
from aggregator.vdaf.kernels.chunks.arrays import Messages, Shape
from aggregator.vdaf.kernels.message import absorb_filled, fill_head, gather, set_words
from aggregator.vdaf.kernels.shares import Scratch, draw_query_rand, expand_shares
from aggregator.vdaf.kernels.sponge import RATE_WORDS
from aggregator.vdaf.kernels.xof import absorb_words, begin_open, end_open, squeeze_words
from field.lanes import (
    WORD_SIZE,
    Bytes,
    LaneWidth,
    copy_words,
    fetch_part,
    field128,
    kernel,
    rows_to_words,
    words_to_rows,
)

CHECKED_AT_ONCE = 32
"""Residues to load before they are checked, while they are still in the fastest cache."""


@kernel
def load_share(
    width: LaneWidth, shape: Shape, input_shares: Bytes, first: int, scratch: Scratch
) -> None:
    """Bring the leader's measurement share and proof share into lanes; check every residue."""
    size, share = input_shares.shape[1], scratch.share
    length = shape.meas_len + shape.proof_len
    for start in range(0, length, CHECKED_AT_ONCE):
        count = min(CHECKED_AT_ONCE, length - start)
        row, place = field128.WORDS * start, first * size + field128.WORDS * WORD_SIZE * start
        rows_to_words(width, share, row, input_shares, place, size, field128.WORDS * count)
        field128.flag_not_residues(width, scratch.flags, (share, row), count, NOT_A_RESIDUE)


@kernel
def expand_share(
    width: LaneWidth,
    shape: Shape,
    messages: Messages,
    input_shares: Bytes,
    first: int,
    scratch: Scratch,
) -> None:
    """Expand a helper's seed into its measurement share and proof share; check every residue."""
    meas, proof = field128.WORDS * shape.meas_len, field128.WORDS * shape.proof_len
    expand_shares(width, messages.shares, input_shares, first, meas, proof, scratch)
    length = shape.meas_len + shape.proof_len
    field128.flag_not_residues(width, scratch.flags, scratch.share, length, IRREGULAR)


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
    """Derive this aggregator's joint randomness part, the seed, and the joint randomness."""
    sponge, blank, seed_start = scratch.sponge, scratch.blank, messages.shares.seed_start
    _prepare_head(width, messages, inputs, first, scratch)
    _absorb_part(width, shape, messages, inputs, outputs, first, scratch)
    rows, row_size = outputs.verifier_shares, outputs.verifier_shares.shape[1]
    part_start = (first + 1) * row_size - SEED_SIZE
    words_to_rows(width, rows, part_start, row_size, sponge, 0, SEED_SIZE, scratch.block)

    # The public share is trusted for the other aggregators' parts, not for this one's.
    part_words = SEED_WORDS * shape.num_shares
    gather(width, blank, inputs.public_shares, first, part_words)
    copy_words(width, (blank, SEED_WORDS * shape.agg_id), sponge, SEED_WORDS)
    absorb_filled(width, sponge, messages.joint_rand_seed, messages.parts_start, blank, part_words)
    store(width, outputs.joint_rand_seeds, first, sponge, 0, scratch.block)

    copy_words(width, blank, sponge, SEED_WORDS)
    absorb_filled(width, sponge, messages.joint_rand, seed_start, blank, SEED_WORDS)
    words, length = scratch.joint_rand, shape.num_calls
    squeeze_words(width, sponge, words, 0, field128.WORDS * length)
    field128.flag_not_residues(width, scratch.flags, words, length, IRREGULAR)


@kernel
def _prepare_head(
    width: LaneWidth, messages: Messages, inputs: Inputs, first: int, scratch: Scratch
) -> None:
    """Bring the head of the part's message into lanes, with the blind and the nonce."""
    head, blank, size = scratch.head, scratch.blank, inputs.input_shares.shape[1]
    set_words(width, head, messages.joint_rand_part, messages.joint_rand_part.shape[0])
    blind = (first + 1) * size - SEED_SIZE
    rows_to_words(width, blank, 0, inputs.input_shares, blind, size, SEED_WORDS)
    fill_head(width, head, messages.shares.seed_start, blank, SEED_WORDS)
    gather(width, blank, inputs.nonces, first, NONCE_WORDS)
    fill_head(width, head, messages.joint_rand_part_size - NONCE_SIZE, blank, NONCE_WORDS)


@kernel
def _absorb_part(
    width: LaneWidth,
    shape: Shape,
    messages: Messages,
    inputs: Inputs,
    outputs: Outputs,
    first: int,
    scratch: Scratch,
) -> None:
    """Absorb the part's message: its head, then the measurement share.

    Meanwhile this fetches from memory what comes next: the rows to be written, and the input shares
    of the next reports.
    """
    size, words = messages.joint_rand_part_size, field128.WORDS * shape.meas_len
    whole, shift = size // WORD_SIZE, 8 * (size % WORD_SIZE)
    blocks = -(-words // RATE_WORDS)
    position = begin_open(width, scratch.sponge, scratch.head, whole, shift)
    for block in range(blocks):
        fetch_part(width, inputs.input_shares, first + len(width), block, blocks)
        fetch_part(width, outputs.verifier_shares, first, block, blocks)
        fetch_part(width, outputs.out_shares, first, block, blocks)
        start = RATE_WORDS * block
        count = min(RATE_WORDS, words - start)
        position = absorb_words(width, scratch.sponge, position, scratch.share, start, count, shift)
    end_open(width, scratch.sponge, position, messages.domain, shift)


@kernel
def derive_query_rand(
    width: LaneWidth,
    shape: Shape,
    messages: Messages,
    nonces: Bytes,
    first: int,
    scratch: Scratch,
) -> None:
    """Derive the test point, after a weight for each of the circuit's outputs if it has several."""
    length = shape.query_rand_len
    draw_query_rand(width, messages.shares, nonces, first, field128.WORDS * length, scratch)
    field128.flag_not_residues(width, scratch.flags, scratch.query_rand, length, IRREGULAR)
