"""What all fused kernels take and return, and the steps that they share.

Source:
    VDAF, "Auxiliary Functions" of Prio3.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from field.lanes import (
    WORD_SIZE,
    Bytes,
    LaneArray,
    LaneWidth,
    Table,
    inlined,
    words_to_rows,
)

# Kernels freeze constants, so these are from no module without kernels; see `field.lanes.cache`.
SEED_SIZE = 32
NONCE_SIZE = 16

SEED_WORDS = SEED_SIZE // WORD_SIZE
NONCE_WORDS = NONCE_SIZE // WORD_SIZE

IRREGULAR = 1
"""Flag: an XOF drew a number that is no residue, so its stream is read differently."""

NOT_A_RESIDUE = 2
"""Flag: the leader's input share holds a number that is no residue."""

ROOT_OF_UNITY = 4
"""Flag: the test point is a power of alpha."""


UNDECODABLE = 1
"""Flag of a decision: an aggregator's verifier share holds a number that is no residue."""

INVALID = 2
"""Flag of a decision: the proof does not hold."""


class ShareMessages(NamedTuple):
    """Messages of the XOF with blanks, of the streams that every aggregator reads.

    Attributes:
        meas_share: Blank: the seed, at `seed_start`.
        proofs_share: Blank: the seed.
        query_rand: Blank: the nonce, at `nonce_start`.
        seed_start: In all messages.
        nonce_start: In `query_rand`.
    """

    meas_share: Table
    proofs_share: Table
    query_rand: Table
    seed_start: int
    nonce_start: int

    @override
    def __repr__(self) -> str:
        """Show nothing: the aggregators' key is in a message."""
        return "ShareMessages()"


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

    @override
    def __repr__(self) -> str:
        """Show nothing: shares are secret."""
        return "Inputs()"


class Outputs(NamedTuple):
    """What verification computes, one row a report, as bytes; filled in a slice at a time.

    Attributes:
        verifier_shares: `verifier_len` residues, and the part of the joint randomness: 32 bytes,
            none without joint randomness.
        out_shares: `output_len` residues, or none where they are not wanted.
        joint_rand_seeds: 32 bytes, none without joint randomness.
        flags: One word of flags.
    """

    verifier_shares: Bytes
    out_shares: Bytes
    joint_rand_seeds: Bytes
    flags: Bytes

    @override
    def __repr__(self) -> str:
        """Show nothing: shares are secret."""
        return "Outputs()"

    def rows(self, part: slice) -> "Outputs":
        """Return the arrays of some of the reports."""
        return Outputs._make([array[part] for array in self])


def in_groups(
    run: Callable[..., None], lanes: int, inputs: Sequence[Bytes], outputs: Sequence[Bytes]
) -> None:
    """Let a kernel that takes a multiple of as many reports as there are lanes take any number.

    Args:
        run: The kernel: its arguments are rows of the inputs, contiguous and read-only, and then
            of the outputs.
        lanes: The number of lanes.
        inputs: Arrays of as many rows as there are reports.
        outputs: Arrays of as many rows, contiguous, to be filled in.
    """
    rows = len(outputs[0])
    whole = rows - rows % lanes
    if whole == rows:
        run(*map(_read_only, inputs), *outputs)
    elif whole > 0:
        # The reports that are left over at the end are taken together with some before them.
        for part in (slice(0, whole), slice(rows - lanes, rows)):
            run(*(_read_only(array[part]) for array in inputs), *(array[part] for array in outputs))
    else:
        # Fewer reports than lanes: the last is repeated.
        chosen = np.minimum(np.arange(lanes), rows - 1)
        found = [np.empty((lanes, array.shape[1]), np.uint8) for array in outputs]
        run(*(_read_only(array[chosen]) for array in inputs), *found)
        for array, filled in zip(outputs, found, strict=True):
            array[:] = filled[:rows]


def _read_only(array: Bytes) -> Bytes:
    """Return an array of one type for numba, to which read-only ones are others than writable."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.flags.writeable:
        array = array.view()
        array.setflags(write=False)
    return array


@inlined
def store(
    width: LaneWidth, rows: Bytes, first: int, words: LaneArray, row: int, block: LaneArray
) -> None:
    """Write whole rows of an output."""
    size = rows.shape[1]
    words_to_rows(width, rows, first * size, size, words, row, size, block)
