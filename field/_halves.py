"""Sums of many words without carries: low and high halves are summed separately.

It takes 2^32 halves to overflow a word. Vector units add many at a time, so memory is the limit:
several rows are added at once, so that the sums are read and written once for all of them.
"""

import numpy as np
import numpy.typing as npt

from field.lanes import kernel

Words = npt.NDArray[np.uint64]

HALF_WORD = np.uint64(32)
LOW_HALF = np.uint64(2**32 - 1)
_ROWS_AT_ONCE = 4

COLUMNS_AT_ONCE = 2048
"""The most columns whose sums stay in the fastest cache."""

_SHORT = 32
"""Words that a row should have to be worth starting a loop over its columns."""


@kernel
def add_halves(
    rows: Words, first: int, stride: int, num_rows: int, count: int, low: Words, high: Words
) -> None:
    """Add the halves of the words in `count` columns of some rows to `low` and `high`.

    Row k begins at `rows[first + k * stride]`. `low` and `high` have `COLUMNS_AT_ONCE` words, those
    from `count` on scratch.
    """
    # Short rows with nothing between them are added as fewer, longer ones.
    together = max(1, _SHORT // count) if stride == count else 1
    wide, turns = together * count, num_rows // together
    low[count:wide] = 0
    high[count:wide] = 0
    _add(rows, first, stride * together, turns, low[:wide], high[:wide])
    rest = turns * together
    _add(rows, first + rest * stride, stride, num_rows - rest, low[:count], high[:count])
    for j in range(count, wide):
        low[j % count] += low[j]
        high[j % count] += high[j]


@kernel
def _add(rows: Words, first: int, stride: int, num_rows: int, low: Words, high: Words) -> None:
    """Add the halves of the words of some rows, each as long as `low`."""
    count = low.shape[0]
    whole = num_rows - num_rows % _ROWS_AT_ONCE
    for k in range(0, whole, _ROWS_AT_ONCE):
        start = first + k * stride
        a = rows[start : start + count]
        b = rows[start + stride : start + stride + count]
        c = rows[start + 2 * stride : start + 2 * stride + count]
        d = rows[start + 3 * stride : start + 3 * stride + count]
        for j in range(count):
            low[j] += (a[j] & LOW_HALF) + (b[j] & LOW_HALF) + (c[j] & LOW_HALF) + (d[j] & LOW_HALF)
            high[j] += (
                (a[j] >> HALF_WORD)
                + (b[j] >> HALF_WORD)
                + (c[j] >> HALF_WORD)
                + (d[j] >> HALF_WORD)
            )
    for k in range(whole, num_rows):
        row = rows[first + k * stride : first + k * stride + count]
        for j in range(count):
            low[j] += row[j] & LOW_HALF
            high[j] += row[j] >> HALF_WORD
