"""Kernels on `uint64` arrays for p = 2^64 - 2^32 + 1.

All words in and out lie in [0, p). No branch and no index depends on an element: carries become
masks. In `accept_residues` positions depend only on which candidates are dropped.

`field._kernels.Kernels` says what the public functions do.
"""

import numpy as np
import numpy.typing as npt

from field._halves import COLUMNS_AT_ONCE, add_halves
from field.lanes import add_carry, allocating_kernel, inlined, kernel, multiply_wide, opaque

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_ZERO = np.uint64(0)
_P = np.uint64(2**64 - 2**32 + 1)
# 2^64 - p: adding it to a word that wrapped, or is p or more, subtracts p.
_FOLD = np.uint64(2**32 - 1)
_HALF_WORD = np.uint64(32)


@inlined
def _mask(flag: np.uint64) -> np.uint64:
    """Return all ones for 1 and zero for 0."""
    return opaque(_ZERO - flag)


@inlined
def _sum(a: np.uint64, b: np.uint64) -> np.uint64:
    total = a + b
    reduced = total + _FOLD
    # a + b >= p if and only if one of the two additions carried.
    over = np.uint64(total < a) | np.uint64(reduced < total)
    return total + (_FOLD & _mask(over))


@inlined
def _difference(a: np.uint64, b: np.uint64) -> np.uint64:
    return a - b - (_FOLD & _mask(np.uint64(a < b)))


@inlined
def _product(a: np.uint64, b: np.uint64) -> np.uint64:
    low, high = multiply_wide(a, b)
    return _reduced(low, high)


@inlined
def _reduced(low: np.uint64, high: np.uint64) -> np.uint64:
    """Return high * 2^64 + low modulo p."""
    # 2^64 = 2^32 - 1 and 2^96 = -1 (mod p), so
    # high * 2^64 + low = low - high_high + high_low * (2^32 - 1).
    top, bottom = high >> _HALF_WORD, high & _FOLD
    # A borrow leaves 2^64 too much; subtracting 2^64 mod p cannot borrow again: low < top < 2^32,
    # so the wrapped word is at least 2^64 - 2^32.
    word = low - top
    word -= _FOLD & _mask(np.uint64(low < top))
    addend = (bottom << _HALF_WORD) - bottom
    total = word + addend
    # A carry leaves 2^64 too little; the sum is then below 2^64 - 2^33, so this cannot carry again.
    total += _FOLD & _mask(np.uint64(total < addend))
    return total + (_FOLD & _mask(np.uint64(total >= _P)))


@kernel
def add(a: Words, b: Words, out: Words) -> None:
    """Set `out[i, j] = a[i, j] + b[i, j]`."""
    a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
    b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = _sum(a[i * a_row, j * a_column], b[i * b_row, j * b_column])


@kernel
def subtract(a: Words, b: Words, out: Words) -> None:
    """Set `out[i, j] = a[i, j] - b[i, j]`."""
    a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
    b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = _difference(a[i * a_row, j * a_column], b[i * b_row, j * b_column])


@kernel
def multiply(a: Words, b: Words, out: Words) -> None:
    """Set `out[i, j] = a[i, j] * b[i, j]`."""
    a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
    b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = _product(a[i * a_row, j * a_column], b[i * b_row, j * b_column])


@kernel
def dot(a: Words, b: Words, out: Words) -> None:
    """Set `out[i, j]` to the sum over k of `a[i, j, k] * b[i, j, k]`."""
    a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
    b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total = _ZERO
            for k in range(a.shape[2]):
                left = a[i * a_row, j * a_column, k]
                total = _sum(total, _product(left, b[i * b_row, j * b_column, k]))
            out[i, j] = total


@allocating_kernel
def add_rows(a: Words, num_rows: int, stride: int, out: Words) -> None:
    """Add to each row of `out` as many rows from `a`; see `field._kernels.Kernels`.

    The halves of the words are summed separately (see `field._halves`), and each sum is reduced
    once. Columns are taken in blocks whose sums stay in the fastest cache.
    """
    low = np.empty(COLUMNS_AT_ONCE, np.uint64)
    high = np.empty(COLUMNS_AT_ONCE, np.uint64)
    for i in range(out.shape[0]):
        for start in range(0, out.shape[1], COLUMNS_AT_ONCE):
            count = min(COLUMNS_AT_ONCE, out.shape[1] - start)
            for j in range(count):
                low[j] = out[i, start + j] & _FOLD
                high[j] = out[i, start + j] >> _HALF_WORD
            first = i * num_rows * stride + start
            add_halves(a, first, stride, num_rows, count, low, high)
            for j in range(count):
                word, carry = add_carry(low[j], high[j] << _HALF_WORD, _ZERO)
                out[i, start + j] = _reduced(word, (high[j] >> _HALF_WORD) + carry)


@kernel
def transform(a: Words, roots: Words, out: Words) -> None:
    """Set `out[i]` to the transform of `a[i]`, `roots` as `field.ntt` lays them out."""
    size = a.shape[1]
    for i in range(a.shape[0]):
        # Bit-reversed order: counting upwards from the highest bit.
        reversed_j = 0
        for j in range(size):
            out[i, reversed_j] = a[i, j]
            bit = size >> 1
            while reversed_j & bit:
                reversed_j ^= bit
                bit >>= 1
            reversed_j |= bit
        half = 1
        while half < size:
            for start in range(0, size, 2 * half):
                for j in range(half):
                    u = out[i, start + j]
                    v = _product(out[i, start + half + j], roots[half + j])
                    out[i, start + j] = _sum(u, v)
                    out[i, start + half + j] = _difference(u, v)
            half *= 2


@allocating_kernel
def lagrange_basis(points: Words, start: Words, roots: Words, out: Words) -> None:
    """Set `out[i, k]` to the k-th Lagrange basis polynomial at `points[i]`.

    It is 1/n times the sum over j of (t w^-k)^j, which is 1/n times the product of
    1 + (t w^-k)^h over h = n/2, ..., 2, 1. The factor for h depends on k modulo n/h only, so the
    product doubles in length with each factor, and no inverse is needed. `start` holds 1/n, `roots`
    the powers of w^-1.
    """
    size = out.shape[1]
    squares = np.empty(64, np.uint64)
    for i in range(out.shape[0]):
        square = points[i]
        count = 0
        while 1 << count < size:
            squares[count] = square
            square = _product(square, square)
            count += 1
        out[i, 0] = start[0]
        half = 1
        while half < size:
            count -= 1
            for k in range(half):
                u = out[i, k]
                v = _product(u, _product(squares[count], roots[half + k]))
                out[i, k] = _sum(u, v)
                out[i, half + k] = _difference(u, v)
            half *= 2


@kernel
def are_residues(a: Words, valid: Mask) -> None:
    """Set `valid[i]` if every element of `a[i]` is below the modulus."""
    for i in range(a.shape[0]):
        over = _ZERO
        for j in range(a.shape[1]):
            over |= np.uint64(a[i, j] >= _P)
        valid[i] = over == _ZERO


@kernel
def accept_residues(a: Words, out: Words, complete: Mask) -> None:
    """Fill `out[i]` with the first elements of `a[i]` below the modulus."""
    length = out.shape[1]
    for i in range(a.shape[0]):
        filled = 0
        for j in range(a.shape[1]):
            if filled == length:
                break
            # The next candidate overwrites one that was dropped.
            out[i, filled] = a[i, j]
            filled += int(a[i, j] < _P)
        complete[i] = filled == length
