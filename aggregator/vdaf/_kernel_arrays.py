"""What all fused kernels take and return, and the steps that they share.

Source:
    VDAF, "Auxiliary Functions" of Prio3.
"""

from typing import NamedTuple

from field._jit import LaneWidth, kernel
from field.lanes import Bytes, LaneArray, copy_rows, words_to_rows

SEED_SIZE = 32
NONCE_SIZE = 16

IRREGULAR = 1
"""Flag: some number may be no residue; if an XOF drew it, the stream is read differently."""

NOT_A_RESIDUE = 2
"""Flag: the leader's input share holds a number that is no residue."""

ROOT_OF_UNITY = 4
"""Flag: the test point is a power of alpha."""


class Inputs(NamedTuple):
    """One aggregator's shares, one row a report; a multiple of the number of lanes.

    Attributes:
        nonces: `uint8[rows, 16]`.
        public_shares: `uint8[rows, 32 * num_shares]`.
        input_shares: `uint8[rows, input_share_size]`.
    """

    nonces: Bytes
    public_shares: Bytes
    input_shares: Bytes


class Outputs(NamedTuple):
    """What a kernel fills in, one row a report, as bytes.

    Attributes:
        verifiers: `verifier_len` residues.
        out_shares: `output_len` residues.
        joint_rand_parts: 32 bytes, none without joint randomness.
        joint_rand_seeds: 32 bytes, none without joint randomness.
        flags: One word of flags.
    """

    verifiers: Bytes
    out_shares: Bytes
    joint_rand_parts: Bytes
    joint_rand_seeds: Bytes
    flags: Bytes


@kernel
def store(
    width: LaneWidth, rows: Bytes, first: int, words: LaneArray, row: int, block: Bytes
) -> None:
    """Write whole rows of an output."""
    size = rows.shape[1]
    words_to_rows(width, rows, first * size, size, words, row, size, block)


@kernel
def copy_seeds(width: LaneWidth, message: Bytes, column: int, seeds: Bytes, first: int) -> None:
    """Write rows of seeds, from row `first` on, into a column of a message."""
    copy_rows(
        width, message, column, message.shape[1], seeds, first * SEED_SIZE, SEED_SIZE, SEED_SIZE
    )


@kernel
def copy_nonces(width: LaneWidth, message: Bytes, column: int, nonces: Bytes, first: int) -> None:
    """Write rows of nonces, from row `first` on, into a column of a message."""
    copy_rows(
        width, message, column, message.shape[1], nonces, first * NONCE_SIZE, NONCE_SIZE, NONCE_SIZE
    )
