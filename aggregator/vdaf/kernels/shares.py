"""What kernels of both families begin with: scratch space, shares and query randomness.

The notation is that of `kernels.chunks.query`.

Source:
    VDAF, "Auxiliary Functions" of Prio3.
"""

from typing import Generic, NamedTuple, TypeAlias, TypeVar

from aggregator.vdaf.kernels.arrays import NONCE_WORDS, SEED_WORDS, ShareMessages
from aggregator.vdaf.kernels.message import absorb_rows
from aggregator.vdaf.kernels.xof import squeeze_words
from field.lanes import Bytes, Code, LaneArray, LaneWidth, Place, kernel, operation

T = TypeVar("T")


class ScratchOf(NamedTuple, Generic[T]):
    """Scratch space for one group of reports: lane arrays, or how many rows they have.

    In a family without joint randomness, the arrays for it have no rows.

    Attributes:
        sponge: See `kernels.xof`.
        blank: What fills a message's blank.
        share: Measurement share and proof share, encoded.
        query_rand: Query randomness, encoded.
        powers: t^(2^i), then (t/beta)^(2^i).
        basis: L_k(t), in Montgomery form if the family's constants are.
        odd_basis: The half basis at t/beta, in the same form.
        registers: Residues that the family names.
        result: The verifier share, then the out share, encoded.
        flags: One row.
        head: The head of a message.
        joint_rand: Joint randomness, encoded.
        joint_rand_limbs: r_k in Montgomery form.
        wire_factors: L_k(t) * r_k^j, for the current j.
        odd_start: The sum that every odd wire starts with.
        block: Bytes on their way to a row, in the spare rows at the end of every lane array.
    """

    sponge: T
    blank: T
    share: T
    query_rand: T
    powers: T
    basis: T
    odd_basis: T
    registers: T
    result: T
    flags: T
    head: T
    joint_rand: T
    joint_rand_limbs: T
    wire_factors: T
    odd_start: T
    block: T


Scratch: TypeAlias = ScratchOf[LaneArray]


@operation
def clear(code: Code, word: Place) -> None:
    """Set a word to 0."""
    word.store(code.constant(0))


@kernel
def expand_shares(
    width: LaneWidth,
    messages: ShareMessages,
    input_shares: Bytes,
    first: int,
    meas_words: int,
    proof_words: int,
    scratch: Scratch,
) -> None:
    """Expand a helper's seed into its measurement share and proof share, not yet checked."""
    for message, row, count in (
        (messages.meas_share, 0, meas_words),
        (messages.proofs_share, meas_words, proof_words),
    ):
        absorb_rows(
            width,
            scratch.sponge,
            message,
            messages.seed_start,
            scratch.blank,
            input_shares,
            first,
            SEED_WORDS,
        )
        squeeze_words(width, scratch.sponge, scratch.share, row, count)


@kernel
def draw_query_rand(
    width: LaneWidth,
    messages: ShareMessages,
    nonces: Bytes,
    first: int,
    words: int,
    scratch: Scratch,
) -> None:
    """Draw the query randomness, not yet checked."""
    absorb_rows(
        width,
        scratch.sponge,
        messages.query_rand,
        messages.nonce_start,
        scratch.blank,
        nonces,
        first,
        NONCE_WORDS,
    )
    squeeze_words(width, scratch.sponge, scratch.query_rand, 0, words)
