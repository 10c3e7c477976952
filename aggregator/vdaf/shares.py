"""Public shares, input shares, verifier shares and messages in their wire form, a batch at a time.

In memory a batch of one kind of share is an array of bytes, one row a report; outside it is a list
of byte strings, any of which may have the wrong size. This is where one turns into the other.

Source:
    VDAF, "Message Serialization".
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.vdaf.xof import ByteRows
from field import Vector

BoolRows: TypeAlias = npt.NDArray[np.bool_]

ROWS_TOGETHER = 8
"""Kernels take this many reports side by side: no slice but the last should leave lanes empty."""


def to_rows(strings: Sequence[bytes], size: int) -> tuple[ByteRows, BoolRows]:
    """Return byte strings as one array, and which of them have the right size.

    Args:
        strings: One a report.
        size: The size that each should have.

    Returns:
        Shape `(rows, size)`, zero where a string has another size; and shape `(rows,)`.
    """
    is_right = np.ones(len(strings), dtype=np.bool_)
    if [string for string in strings if len(string) != size]:
        is_right[:] = [len(string) == size for string in strings]
        blank = bytes(size)
        strings = [string if len(string) == size else blank for string in strings]
    joined = np.frombuffer(b"".join(strings), dtype=np.uint8)
    return joined.reshape(len(strings), size), is_right


def to_grouped_rows(
    groups: Sequence[Sequence[bytes]], num_shares: int, size: int
) -> tuple[ByteRows, BoolRows]:
    """Return all aggregators' strings of each report as one array.

    Args:
        groups: For each report one string an aggregator.
        num_shares: How many aggregators there are.
        size: The size that each string should have.

    Returns:
        Shape `(rows, num_shares, size)`, zero where a string has another size; and shape `(rows,)`:
        where all strings have the right size.
    """
    rows, is_right = to_rows(list(itertools.chain.from_iterable(groups)), size)
    is_all_right: BoolRows = np.logical_and.reduce(is_right.reshape(-1, num_shares), axis=1)
    return rows.reshape(-1, num_shares, size), is_all_right


def to_strings(rows: ByteRows) -> list[bytes]:
    """Return the rows of an array as byte strings."""
    count, size = rows.shape
    if size == 0:
        return [b""] * count
    # Items of a type that says nothing but its size come out as bytes, all at once.
    strings: list[bytes] = np.ascontiguousarray(rows).view(f"V{size}").reshape(count).tolist()
    return strings


def equal_rows(left: ByteRows, right: ByteRows) -> BoolRows:
    """Return which rows are equal, in time that does not depend on where they differ."""
    difference = left ^ right
    if difference.shape[1] % 8 == 0:
        difference = difference.view(np.uint64)
    # Column by column: numpy reduces short rows three times as slowly.
    is_different = np.zeros(len(difference), np.bool_)
    for column in difference.T:
        is_different |= column != 0
    return ~is_different


def slices(rows: int, size: int, most: int) -> Iterator[slice]:
    """Yield slices that cover a batch in order.

    Args:
        rows: How many reports the batch has; a batch of none is one empty slice.
        size: Memory that one report needs, in bytes.
        most: Memory that one slice may need, in bytes; a slice has one report at least.
    """
    step = max(1, most // max(1, size))
    if step > ROWS_TOGETHER:
        step -= step % ROWS_TOGETHER
    for start in range(0, max(1, rows), step):
        yield slice(start, min(start + step, rows))


def nth(vectors: Vector, index: int, length: int) -> Vector:
    """Return the residues of the `index`-th proof, where each proof has `length` of them."""
    return vectors[:, index * length : (index + 1) * length]
