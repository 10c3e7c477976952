"""What the kernels of a parallel sum work on: sizes, constants, messages, scratch space.

The notation is that of `kernels.chunks.query`.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from aggregator.vdaf.kernels.arrays import SEED_WORDS, ShareMessages
from aggregator.vdaf.kernels.shares import ScratchOf
from aggregator.vdaf.kernels.xof import SPONGE_ROWS
from field.lanes import Table, field128

# Places in the table of constants.
TO_MONTGOMERY = 0 * field128.RESIDUE
"""R^2, plain: multiplying by it brings a plain residue into Montgomery form."""
ONE = 1 * field128.RESIDUE
"""1 in Montgomery form."""
HALF = 2 * field128.RESIDUE
"""1/2 in Montgomery form."""
INVERSE_P = 3 * field128.RESIDUE
"""1/p in Montgomery form."""
INVERSE_BETA = 4 * field128.RESIDUE
"""1/beta in Montgomery form."""
MINUS_SHARE_OF_ONE = 5 * field128.RESIDUE
"""-1/s, plain."""

# Rows of the scratch space `Scratch.registers`.
TEST_POINT = 0 * field128.RESIDUE
ODD_POINT = 1 * field128.RESIDUE
TEST_POWER = 2 * field128.RESIDUE
A = 3 * field128.RESIDUE
B = 4 * field128.RESIDUE
WEIGHTED = 5 * field128.RESIDUE
SUMS = 8 * field128.RESIDUE
DIGITS_SUM = 11 * field128.RESIDUE
COMBINED = 12 * field128.RESIDUE
REGISTER_ROWS = COMBINED + field128.COLUMNS
"""`WEIGHTED` and `SUMS` have fifteen rows each, as sums of products need."""


# Columns of `Tables.blocks`.
BLOCK_FIRST = 0
"""The first digit."""
BLOCK_ENTRIES = 1
BLOCK_DIGITS = 2
"""Digits per entry; 0 if an entry is its only digit."""
BLOCK_SMALL_WEIGHT = 3
"""The first of `Tables.small_weights`, for `decode_digits`; -1 if a weight is too large for it."""
BLOCK_WEIGHT = 4
"""The first of `Tables.weights`."""
BLOCK_COLUMNS = 5

# Columns of `Tables.terms`.
TERM_FIRST = 0
"""The first digit."""
TERM_COUNT = 1
TERM_STEP = 2
TERM_WEIGHT = 3
"""The first of `Tables.weights`; -1 if all are 1."""
TERM_COLUMNS = 4

Places: TypeAlias = npt.NDArray[np.int64]
"""Places in other arrays: `int64[rows]` or `int64[rows, columns]`."""


class Shape(NamedTuple):
    """The sizes that one kernel works with; `kernels.chunks.plan` derives them from a Prio3.

    Attributes:
        num_shares: The number of aggregators.
        agg_id: The aggregator; 0 is the leader.
        meas_len: Digits of a measurement.
        chunk_length: Digits per call.
        num_calls: Calls of the gadget.
        log_p: The base-2 logarithm of p.
        proof_len: Residues of a proof: a seed per wire, and the gadget polynomial's 2p - 1 values.
        output_len: Residues of an out share.
        is_prefix: Whether the out share is the beginning of the measurement share.
        num_blocks: Rows of `Tables.blocks`.
        num_checks: The circuit's linear checks.
        query_rand_len: A weight for each output, if there are checks; then the test point.
        has_digits_sum: Whether the only linear check begins with the sum of all digits.
    """

    num_shares: int
    agg_id: int
    meas_len: int
    chunk_length: int
    num_calls: int
    log_p: int
    proof_len: int
    output_len: int
    is_prefix: bool
    num_blocks: int
    num_checks: int
    query_rand_len: int
    has_digits_sum: bool


class Tables(NamedTuple):
    """Constants in the limbs of the kernel's lanes.

    Attributes:
        constants: The constants named above.
        roots: Powers of 1/alpha in Montgomery form, in the order of `lagrange_bases`.
        last_difference: beta^(i+1) in Montgomery form, for i from 0 to p - 2.
        one: 1 in Montgomery form, encoded.
        blocks: See `BLOCK_FIRST` and the columns after it.
        small_weights: Weights of blocks, one word each.
        weights: Weights of blocks, then of terms, in Montgomery form.
        check_constants: The constants of the linear checks, divided by s, plain.
        check_terms: Where in `terms` those of each check begin, and where the last end.
        terms: See `TERM_FIRST` and the columns after it.
    """

    constants: Table
    roots: Table
    last_difference: Table
    one: Table
    blocks: Places
    small_weights: Table
    weights: Table
    check_constants: Table
    check_terms: Places
    terms: Places


class Messages(NamedTuple):
    """XOF messages with blanks; the seed begins at the same byte in all of them.

    Attributes:
        shares: Those of the streams that every aggregator reads.
        joint_rand: Blank: the seed.
        joint_rand_seed: Blank: the parts, at `parts_start`.
        joint_rand_part: The head only. Blank: the blind as the seed, and the nonce at the end.
        joint_rand_part_size: The head's size in bytes, without the zeros that fill up a word.
        parts_start: The byte at which the parts begin in `joint_rand_seed`.
        domain: The first byte of the padding.
    """

    shares: ShareMessages
    joint_rand: Table
    joint_rand_seed: Table
    joint_rand_part: Table
    joint_rand_part_size: int
    parts_start: int
    domain: int

    @override
    def __repr__(self) -> str:
        """Show nothing: a message holds the aggregators' key."""
        return "Messages()"


def scratch_rows(shape: Shape, head_len: int) -> ScratchOf[int]:
    """Return how many rows each lane array has; a message's head has `head_len` words."""
    p = 1 << shape.log_p
    verifier_len = 2 * shape.chunk_length + 2
    return ScratchOf(
        sponge=SPONGE_ROWS,
        head=head_len + 1,
        blank=SEED_WORDS * shape.num_shares + 1,
        share=field128.WORDS * (shape.meas_len + shape.proof_len),
        query_rand=field128.WORDS * shape.query_rand_len,
        joint_rand=field128.WORDS * shape.num_calls,
        joint_rand_limbs=field128.RESIDUE * shape.num_calls,
        powers=field128.RESIDUE * 2 * (shape.log_p + 1),
        basis=field128.RESIDUE * p,
        odd_basis=field128.RESIDUE * p,
        wire_factors=field128.RESIDUE * shape.num_calls,
        odd_start=field128.COLUMNS,
        registers=REGISTER_ROWS,
        result=field128.WORDS * max(verifier_len, shape.output_len),
        flags=1,
        block=0,
    )
