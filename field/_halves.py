"""Sums of many words without a carry: the low and the high halves are added up by themselves.

It takes 2^32 halves to overflow a word. Vector units add many at a time, so what counts is memory:
rows are taken several at a time, that the sums be read and written once for all of them.
"""

import numpy as np
import numpy.typing as npt

from field._jit import kernel

Words = npt.NDArray[np.uint64]

_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(2**32 - 1)
_ROWS_AT_ONCE = 4


@kernel
def add_halves(rows: Words, low: Words, high: Words) -> None:
    """Add the halves of the words in each column of `rows` to the first of `low` and `high`."""
    count = rows.shape[1]
    whole = rows.shape[0] - rows.shape[0] % _ROWS_AT_ONCE
    for k in range(0, whole, _ROWS_AT_ONCE):
        a, b, c, d = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        for j in range(count):
            low[j] += (
                (a[j] & _LOW_HALF) + (b[j] & _LOW_HALF) + (c[j] & _LOW_HALF) + (d[j] & _LOW_HALF)
            )
            high[j] += (
                (a[j] >> _HALF_WORD)
                + (b[j] >> _HALF_WORD)
                + (c[j] >> _HALF_WORD)
                + (d[j] >> _HALF_WORD)
            )
    for k in range(whole, rows.shape[0]):
        row = rows[k]
        for j in range(count):
            low[j] += row[j] & _LOW_HALF
            high[j] += row[j] >> _HALF_WORD
