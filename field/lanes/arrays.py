"""The memory of kernels: lane arrays, constants and rows of bytes.

`field.lanes.words` says what a lane is.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

LaneArray: TypeAlias = npt.NDArray[np.uint64]
"""`uint64[count, lanes]`, contiguous: one row per word, one column per report."""

Table: TypeAlias = npt.NDArray[np.uint64]
"""`uint64[count]`: constants, the same for every report."""

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Rows of bytes, contiguous, one per report."""

CACHE_LINE_SIZE = 64

WORD_SIZE = 8
"""Bytes in a word."""

MAX_LANES = 8
"""The most lanes that any processor has."""


def new_lane_array(count: int, lanes: int) -> LaneArray:
    """Return an uninitialised lane array, in which eight lanes share one cache line."""
    spare = CACHE_LINE_SIZE // WORD_SIZE
    words = np.empty(count * lanes + spare, np.uint64)
    address: int = words.__array_interface__["data"][0]
    start = -(address // WORD_SIZE) % spare
    return words[start : start + count * lanes].reshape(count, lanes)
