"""Public shares, input shares, verifier shares and messages in their wire form, a batch at a time.

A batch of shares is an array of bytes, one row per report, or a sequence of byte strings as they
come from a peer, any of which may have the wrong size. Here the second form becomes the first, and
the first the second if strings are asked for.

Source:
    VDAF, "Message Serialization".
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.errors import ParameterError
from aggregator.vdaf.xof import ByteRows
from field import Vector

BoolRows: TypeAlias = npt.NDArray[np.bool_]

Batch: TypeAlias = Sequence[bytes] | ByteRows
"""One byte string per report: the rows of a `uint8` array, or strings of any size."""

WORKING_MEMORY = 2**24
"""About how many bytes the intermediate values of one slice of a batch may take."""

ROWS_TOGETHER = 8
"""Kernels take this many reports side by side: no slice but the last should leave lanes empty."""


def check_batch(name: str, batch: Batch, rows: int, size: int) -> None:
    """Refuse a batch of another number of reports; strings may have any size.

    Raises:
        ParameterError: There are more or fewer reports, or an array's rows have another size.
    """
    if len(batch) != rows:
        raise ParameterError(f"there must be one {name} per report, {rows}, not {len(batch)}")
    if isinstance(batch, np.ndarray) and (batch.dtype != np.uint8 or batch.shape != (rows, size)):
        raise ParameterError(
            f"an array of {name}s must be uint8{[rows, size]}, not {batch.dtype}{list(batch.shape)}"
        )


def to_rows(batch: Batch, size: int) -> tuple[ByteRows, list[int]]:
    """Return a batch as an array, and which of its strings have the wrong size.

    Args:
        batch: One string per report, or an array of rows of the right size.
        size: The right size.

    Returns:
        Shape `(rows, size)`, zero where a string has the wrong size; and the indices of those.
    """
    if isinstance(batch, np.ndarray):
        return batch, []
    wrong: list[int] = []
    # Only asking whether there is one takes half as long.
    if [string for string in batch if len(string) != size]:
        wrong = [index for index, string in enumerate(batch) if len(string) != size]
        blank = bytes(size)
        batch = [string if len(string) == size else blank for string in batch]
    joined = np.frombuffer(b"".join(batch), dtype=np.uint8)
    return joined.reshape(len(batch), size), wrong


def checked_rows(name: str, batch: Batch, rows: int, size: int) -> ByteRows:
    """Return a batch as an array; all its strings must have the right size.

    Raises:
        ParameterError: There are more or fewer strings than reports, or one has the wrong size.
    """
    check_batch(name, batch, rows, size)
    found, wrong = to_rows(batch, size)
    for index in wrong:
        raise ParameterError(f"{name} {index} must have {size} bytes, not {len(batch[index])}")
    return found


def to_strings(rows: ByteRows) -> list[bytes]:
    """Return the rows of an array as byte strings."""
    count, size = rows.shape
    if size == 0:
        return [b""] * count
    # Items of a type that has only a size come out as bytes, all at once.
    strings: list[bytes] = np.ascontiguousarray(rows).view(f"V{size}").reshape(count).tolist()
    return strings


def different_rows(left: ByteRows, right: ByteRows) -> list[int]:
    """Return which rows, of whole words, differ, in time independent of where they do."""
    if not left.size:
        return []
    left_words, right_words = (np.ascontiguousarray(rows).view(np.uint64) for rows in (left, right))
    is_different = left_words != right_words
    # Nearly always nothing differs, and one comparison of all words says so.
    if not np.count_nonzero(is_different):
        return []
    different: list[int] = np.flatnonzero(np.count_nonzero(is_different, axis=1)).tolist()
    return different


def slices(rows: int, size: int, most: int) -> Iterator[slice]:
    """Yield slices that cover a batch in order.

    Args:
        rows: How many reports the batch has; an empty batch is one empty slice.
        size: Bytes of memory that one report needs.
        most: Bytes of memory that a slice may need; a slice has at least one report.
    """
    step = max(1, most // max(1, size))
    if step > ROWS_TOGETHER:
        step -= step % ROWS_TOGETHER
    for start in range(0, max(1, rows), step):
        yield slice(start, min(start + step, rows))


def nth(vectors: Vector, index: int, length: int) -> Vector:
    """Return the residues of the `index`-th proof; each proof has `length` of them."""
    return vectors[:, index * length : (index + 1) * length]
