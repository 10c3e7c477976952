"""Products and sums of two words on whole arrays, for fields that compute without a compiler.

Nothing branches on a word and no index depends on one.
"""

from typing import Any, TypeAlias

import numpy as np

Words: TypeAlias = Any
"""Arrays of `uint64`; one of several operands may be a single word."""

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


def product(a: Words, b: Words) -> tuple[Words, Words]:
    """Return the low and the high word of each product."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0
    # Neither sum reaches 2^64: (2^32 - 1)^2 + 2 * (2^32 - 1) does not.
    first = a0 * b1 + (middle & _LOW) + (a0 * b0 >> _HALF)
    return a * b, a1 * b1 + (middle >> _HALF) + (first >> _HALF)


def sum_with_carry(a: Words, b: Words, carry: Words) -> tuple[Words, Words]:
    """Return the low word of each a + b + carry, and the carry out."""
    partial = a + b
    total = partial + carry
    return total, ((partial < a) | (total < partial)).astype(np.uint64)


def difference_with_borrow(a: Words, b: Words, borrow: Words) -> tuple[Words, Words]:
    """Return the low word of each a - b - borrow, and the borrow out."""
    partial = a - b
    return partial - borrow, ((a < b) | (partial < borrow)).astype(np.uint64)
