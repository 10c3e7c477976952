"""Public shares, input shares, verifier shares and messages in their wire form, a batch at a time.

In memory a batch of one kind of share is an array of bytes, one row a report; outside it is a list
of byte strings, any of which may have the wrong size. This is where one turns into the other.

Source:
    VDAF, "Message Serialization".
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.vdaf.xof import ByteRows
from field import Vector

BoolRows: TypeAlias = npt.NDArray[np.bool_]


def to_rows(strings: Sequence[bytes], size: int) -> tuple[ByteRows, BoolRows]:
    """Return byte strings as one array, and which of them have the right size.

    Args:
        strings: One a report.
        size: The size that each should have.

    Returns:
        Shape `(rows, size)`, zero where a string has another size; and shape `(rows,)`.
    """
    sizes = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
    is_right = sizes == size
    if not is_right.all():
        blank = bytes(size)
        strings = [
            string if right else blank for string, right in zip(strings, is_right, strict=True)
        ]
    joined = np.frombuffer(b"".join(strings), dtype=np.uint8)
    return joined.reshape(len(strings), size), is_right


def to_strings(rows: ByteRows) -> list[bytes]:
    """Return the rows of an array as byte strings."""
    size, joined = rows.shape[1], rows.tobytes()
    return [joined[index * size : (index + 1) * size] for index in range(len(rows))]


def equal_rows(left: ByteRows, right: ByteRows) -> BoolRows:
    """Return which rows are equal, in time that does not depend on where they differ."""
    is_different: BoolRows = np.bitwise_or.reduce(left ^ right, axis=1, initial=0) != 0
    return ~is_different


def slices(rows: int, size: int, most: int) -> Iterator[slice]:
    """Yield slices that cover a batch in order.

    Args:
        rows: How many reports the batch has; a batch of none is one empty slice.
        size: Memory that one report needs, in bytes.
        most: Memory that one slice may need, in bytes; a slice has one report at least.
    """
    step = max(1, most // max(1, size))
    for start in range(0, max(1, rows), step):
        yield slice(start, min(start + step, rows))


def nth(vectors: Vector, index: int, length: int) -> Vector:
    """Return the residues of the `index`-th proof, where each proof has `length` of them."""
    return vectors[:, index * length : (index + 1) * length]
