"""The memory of kernels: lane arrays, constants, rows of bytes, and workspaces.

`field.lanes` says what a lane is.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

LaneArray: TypeAlias = npt.NDArray[np.uint64]
"""`uint64[count, lanes]`, contiguous: one row a word, one column a report."""

Table: TypeAlias = npt.NDArray[np.uint64]
"""`uint64[count]`: constants, the same for every report."""

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Rows of bytes, contiguous, one a report."""

CACHE_LINE_SIZE = 64

WORD_SIZE = 8
"""Bytes of a word."""

MAX_LANES = 8
"""The most lanes of any processor."""


def new_lane_array(count: int, lanes: int) -> LaneArray:
    """Return a lane array of anything; a vector of eight lanes lies in one cache line."""
    spare = CACHE_LINE_SIZE // WORD_SIZE
    words = np.empty(count * lanes + spare, np.uint64)
    address: int = words.__array_interface__["data"][0]
    start = -(address // WORD_SIZE) % spare
    return words[start : start + count * lanes].reshape(count, lanes)


class Workspace(NamedTuple):
    """Memory for a kernel, which cuts it into lane arrays by itself.

    To make and pass on so many arrays in Python takes longer than to verify a small batch.

    Attributes:
        memory: Room for all lane arrays, one after the other from where a cache line begins, and
            for as many rows more as there are lanes.
        ends: The row at which each of them ends.
    """

    memory: npt.NDArray[np.uint64]
    ends: tuple[int, ...]

    @override
    def __repr__(self) -> str:
        """Show nothing: what kernels left is secret."""
        return "Workspace()"


def row_ends(names: Iterable[str], counts: Mapping[str, int], lanes: int) -> tuple[int, ...]:
    """Return where lane arrays of these names end, which have so many rows and `lanes` rows more.

    Where words are copied to rows of bytes, some beyond the last are read, though never used; and
    where they are gathered from rows, some beyond the last become zero.
    """
    return tuple(itertools.accumulate(counts[name] + lanes for name in names))


def new_workspace(ends: tuple[int, ...], lanes: int) -> Workspace:
    """Return memory for lane arrays that end at these rows."""
    spare = CACHE_LINE_SIZE // WORD_SIZE
    return Workspace(np.empty((ends[-1] + lanes) * lanes + spare, np.uint64), ends)
