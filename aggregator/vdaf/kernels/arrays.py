"""What all fused kernels take and return, and the steps they share.

Source:
    VDAF, "Auxiliary Functions" of Prio3.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from field.lanes import WORD_SIZE, Bytes, LaneArray, LaneWidth, Table, inlined, words_to_rows

# Kernels freeze constants, so these are defined in a module of kernels; see `field.lanes.cache`.
SEED_SIZE = 32
NONCE_SIZE = 16

SEED_WORDS = SEED_SIZE // WORD_SIZE
NONCE_WORDS = NONCE_SIZE // WORD_SIZE

IRREGULAR = 1
"""Flag: an XOF stream held a non-residue, so it must be read differently."""

NOT_A_RESIDUE = 2
"""Flag: the leader's input share holds a non-residue."""

ROOT_OF_UNITY = 4
"""Flag: the test point is a power of alpha."""

UNDECODABLE = 1
"""Flag of a decision: an aggregator's verifier share holds a non-residue."""

INVALID = 2
"""Flag of a decision: the proof does not hold."""


class ShareMessages(NamedTuple):
    """XOF messages, with blanks, for the streams that every aggregator reads.

    Attributes:
        meas_share: Blank: the seed, at `seed_start`.
        proofs_share: Blank: the seed.
        query_rand: Blank: the nonce, at `nonce_start`.
        seed_start: The byte at which the seed begins in every message.
        nonce_start: The byte at which the nonce begins in `query_rand`.
    """

    meas_share: Table
    proofs_share: Table
    query_rand: Table
    seed_start: int
    nonce_start: int

    @override
    def __repr__(self) -> str:
        """Show nothing: a message holds the aggregators' key."""
        return "ShareMessages()"


class Inputs(NamedTuple):
    """One aggregator's shares, one row per report.

    The number of rows is a multiple of the number of lanes.

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
    """What verification computes, as bytes, one row per report; filled in a slice at a time.

    Attributes:
        verifier_shares: `verifier_len` residues, then the 32-byte joint randomness part, if any.
        out_shares: `output_len` residues, or empty rows if not wanted.
        joint_rand_seeds: 32 bytes, or empty rows without joint randomness.
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
    """Run a kernel that takes a multiple of the number of lanes on any number of reports.

    Args:
        run: The kernel: it takes rows of the inputs, contiguous and read-only, then of the
            outputs.
        lanes: The number of lanes.
        inputs: Arrays with one row per report.
        outputs: Contiguous arrays with one row per report, to be filled in.
    """
    rows = len(outputs[0])
    whole = rows - rows % lanes
    if whole == rows:
        run(*map(_read_only, inputs), *outputs)
    elif whole > 0:
        # The reports left over at the end are computed together with some before them.
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
    """Return a read-only contiguous array, so that numba sees one type and compiles once."""
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
