"""XofTurboShake128 for a batch: one seed and one binder per report, and equally long outputs.

Source:
    VDAF, "Extendable Output Functions (XOFs)".
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.errors import ParameterError
from aggregator.vdaf.kernels.keccak import turboshake128
from aggregator.vdaf.seeds import SEED_SIZE
from field import Field, Vector, sample_rows

ByteRows: TypeAlias = npt.NDArray[np.uint8]
"""Shape `(rows, size)`: one byte string per report, all of one size."""

VERSION = 18
"""The wire version of VDAF in every domain separation tag; drafts 18 to 20 share it."""

ALGORITHM_CLASS_VDAF = 0
TURBOSHAKE_DOMAIN = 0x01

MAX_DST_SIZE = 2**16 - 1

SPARE_WORDS = 8
"""How many more words are drawn if a stream holds a word that is not a residue."""

USAGE_MEAS_SHARE = 1
USAGE_PROOF_SHARE = 2
USAGE_JOINT_RANDOMNESS = 3
USAGE_PROVE_RANDOMNESS = 4
USAGE_QUERY_RANDOMNESS = 5
USAGE_JOINT_RAND_SEED = 6
USAGE_JOINT_RAND_PART = 7


def domain_separation_tag(algorithm_id: int, usage: int, ctx: bytes) -> bytes:
    """Return the tag that keeps one use of the XOF apart from all others.

    Raises:
        ParameterError: `ctx` is longer than the tag's length prefix can say.

    Source:
        VDAF, "The Domain Separation Tag and Binder String".
    """
    prefix = bytes([VERSION, ALGORITHM_CLASS_VDAF])
    dst = prefix + algorithm_id.to_bytes(4, "big") + usage.to_bytes(2, "big") + ctx
    if len(dst) > MAX_DST_SIZE:
        most = MAX_DST_SIZE - len(dst) + len(ctx)
        raise ParameterError(f"ctx must have at most {most} bytes, not {len(ctx)}")
    return dst


def derive_seeds(
    rows: int, seeds: ByteRows | bytes, dst: bytes, *binder: ByteRows | bytes
) -> ByteRows:
    """Return the first `SEED_SIZE` bytes of each report's stream.

    Args:
        rows: How many reports.
        seeds: `SEED_SIZE` bytes per report, or the same bytes for all.
        dst: The domain separation tag.
        binder: The parts of the binder string, each one per report or the same for all.
    """
    return turboshake128(_messages(rows, seeds, dst, binder), TURBOSHAKE_DOMAIN, SEED_SIZE)


def expand_into_vectors(
    field: Field,
    length: int,
    rows: int,
    seeds: ByteRows | bytes,
    dst: bytes,
    *binder: ByteRows | bytes,
) -> Vector:
    """Return `length` uniform residues for each report.

    Args:
        field: The field.
        length: How many residues per report.
        rows: How many reports.
        seeds: As for `derive_seeds`.
        dst: The domain separation tag.
        binder: As for `derive_seeds`.

    Returns:
        Shape `(rows, length)`.
    """
    messages = _messages(rows, seeds, dst, binder)
    num_words = length
    while True:
        stream = turboshake128(messages, TURBOSHAKE_DOMAIN, num_words * field.encoded_size)
        vectors, is_complete = sample_rows(field, stream, length)
        if is_complete.all():
            return vectors
        # A word at or above p was skipped, so a row lacks its last residues. That is one word in
        # 2^32 or 2^59: drawing the whole batch again, a little longer, costs nothing on average.
        # The time reveals that some stream holds such a word; the residues kept are independent of
        # that.
        num_words += SPARE_WORDS


def _messages(
    rows: int, seeds: ByteRows | bytes, dst: bytes, binder: tuple[ByteRows | bytes, ...]
) -> ByteRows:
    """Return what the sponge absorbs for each report: tag and seed with their sizes, binder."""
    head = len(dst).to_bytes(2, "little") + dst + bytes([SEED_SIZE])
    parts = (head, seeds, *binder)
    sizes = [len(part) if isinstance(part, bytes) else part.shape[1] for part in parts]
    messages = np.empty((rows, sum(sizes)), dtype=np.uint8)
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        messages[:, start : start + size] = (
            np.frombuffer(part, dtype=np.uint8) if isinstance(part, bytes) else part
        )
        start += size
    return messages
