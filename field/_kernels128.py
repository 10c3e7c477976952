"""Kernels on `uint64[..., 2]` arrays, low word first, for p = 2^128 - 28 * 2^64 + 1.

All elements in and out lie in [0, p). No branch and no index depends on an element: carries become
masks. In `accept_residues` positions depend only on which candidates are dropped.

Elements are never in Montgomery form: because 2^128 = 28 * 2^64 - 1 (mod p), a plain reduction is
as cheap as Montgomery's and needs no conversion.

`field._kernels.Kernels` says what the public functions do.
"""

import numpy as np
import numpy.typing as npt

from field._halves import COLUMNS_AT_ONCE, add_halves
from field.lanes import (
    add_carry,
    allocating_kernel,
    inlined,
    kernel,
    multiply_wide,
    opaque,
    subtract_borrow,
)

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_C = np.uint64(28)
_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(2**32 - 1)
_P_LOW = np.uint64(1)
_P_HIGH = np.uint64(2**64 - 28)
# 2^128 - p = 28 * 2^64 - 1 in two words: adding it to a number that wrapped, or is p or more,
# subtracts p.
_FOLD_LOW = np.uint64(2**64 - 1)
_FOLD_HIGH = np.uint64(27)


@inlined
def _mask(flag: np.uint64) -> np.uint64:
    """Return all ones for 1 and zero for 0."""
    return opaque(_ZERO - flag)


@inlined
def _reduce(low: np.uint64, high: np.uint64, carry: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Subtract p once from carry * 2^128 + high * 2^64 + low if that is p or more.

    The number must be below 2p, and `carry` 0 or 1.
    """
    # It is p or more if and only if adding 2^128 - p carries.
    _, c = add_carry(low, _FOLD_LOW, _ZERO)
    _, c = add_carry(high, _FOLD_HIGH, c)
    over = _mask(carry | c)
    low, c = add_carry(low, _FOLD_LOW & over, _ZERO)
    high, _ = add_carry(high, _FOLD_HIGH & over, c)
    return low, high


@inlined
def _sum(a0: np.uint64, a1: np.uint64, b0: np.uint64, b1: np.uint64) -> tuple[np.uint64, np.uint64]:
    low, carry = add_carry(a0, b0, _ZERO)
    high, carry = add_carry(a1, b1, carry)
    return _reduce(low, high, carry)


@inlined
def _difference(
    a0: np.uint64, a1: np.uint64, b0: np.uint64, b1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    low, borrow = subtract_borrow(a0, b0, _ZERO)
    high, borrow = subtract_borrow(a1, b1, borrow)
    # A borrow leaves 2^128 too much: subtract 2^128 - p, which cannot borrow again.
    under = _mask(borrow)
    low, borrow = subtract_borrow(low, _FOLD_LOW & under, _ZERO)
    high, _ = subtract_borrow(high, _FOLD_HIGH & under, borrow)
    return low, high


@inlined
def _wide_product(
    a0: np.uint64, a1: np.uint64, b0: np.uint64, b1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four words of the product."""
    z0, m1 = multiply_wide(a0, b0)
    n1, n2 = multiply_wide(a0, b1)
    z1, carry = add_carry(m1, n1, _ZERO)
    z2, z3 = multiply_wide(a1, b1)
    z2, carry = add_carry(z2, n2, carry)
    z3 += carry
    n1, n2 = multiply_wide(a1, b0)
    z1, carry = add_carry(z1, n1, _ZERO)
    z2, carry = add_carry(z2, n2, carry)
    return z0, z1, z2, z3 + carry


@inlined
def _fold(
    z0: np.uint64, z1: np.uint64, z2: np.uint64, z3: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Reduce a number of four words modulo p. With B = 2^64, B^2 = 28 B - 1 (mod p).

    1. z3 B^3 = 28 z3 B^2 - z3 B. So the number is z0 + (z1 - z3) B + e B^2, e = z2 + 28 z3.
    2. e B^2 = 28 e B - e. With e = e0 + e1 B and 28 e = q0 + q1 B, the number is
       (z0 - e0) + (z1 - z3 - e1 + q0) B + q1 B^2, and q1 <= 811.
    3. That is above -p: if e1 > 0, then q1 >= 28 and it is positive; else 28 z3 < B and it is
       above -B^2 / 27. So p is added, and the carries and q1 make up `top`, from 0 to 814.
    4. top B^2 = 28 top B - top, which leaves a number from 0 to 2p.
    """
    e0, e1 = multiply_wide(z3, _C)
    e0, carry = add_carry(e0, z2, _ZERO)
    e1 += carry
    q0, q1 = multiply_wide(e0, _C)
    top = q1 + e1 * _C

    low, borrow = subtract_borrow(z0, e0, _ZERO)
    high, borrow = subtract_borrow(z1, z3, borrow)
    top, _ = subtract_borrow(top, _ZERO, borrow)
    high, borrow = subtract_borrow(high, e1, _ZERO)
    top, _ = subtract_borrow(top, _ZERO, borrow)
    high, carry = add_carry(high, q0, _ZERO)
    top, _ = add_carry(top, _ZERO, carry)
    low, carry = add_carry(low, _P_LOW, _ZERO)
    high, carry = add_carry(high, _P_HIGH, carry)
    top, _ = add_carry(top, _ZERO, carry)

    low, borrow = subtract_borrow(low, top, _ZERO)
    high, borrow = subtract_borrow(high, _ZERO, borrow)
    high, carry = add_carry(high, top * _C, _ZERO)
    return _reduce(low, high, carry - borrow)


@inlined
def _product(
    a0: np.uint64, a1: np.uint64, b0: np.uint64, b1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    z0, z1, h0, h1 = _wide_product(a0, a1, b0, b1)
    return _fold(z0, z1, h0, h1)


@kernel
def add(a: Words, b: Words, out: Words) -> None:
    """Set `out[i, j] = a[i, j] + b[i, j]`."""
    a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
    b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            x, y = a[i * a_row, j * a_column], b[i * b_row, j * b_column]
            out[i, j, 0], out[i, j, 1] = _sum(x[0], x[1], y[0], y[1])


@kernel
def subtract(a: Words, b: Words, out: Words) -> None:
    """Set `out[i, j] = a[i, j] - b[i, j]`."""
    a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
    b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            x, y = a[i * a_row, j * a_column], b[i * b_row, j * b_column]
            out[i, j, 0], out[i, j, 1] = _difference(x[0], x[1], y[0], y[1])


@kernel
def multiply(a: Words, b: Words, out: Words) -> None:
    """Set `out[i, j] = a[i, j] * b[i, j]`."""
    a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
    b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            x, y = a[i * a_row, j * a_column], b[i * b_row, j * b_column]
            out[i, j, 0], out[i, j, 1] = _product(x[0], x[1], y[0], y[1])


@kernel
def dot(a: Words, b: Words, out: Words) -> None:
    """Set `out[i, j]` to the sum over k of `a[i, j, k] * b[i, j, k]`."""
    a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
    b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            # Five words hold a sum of fewer than 2^64 whole products, which is reduced once.
            c0, c1, c2, c3, c4 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
            for k in range(a.shape[2]):
                x, y = a[i * a_row, j * a_column, k], b[i * b_row, j * b_column, k]
                z0, z1, z2, z3 = _wide_product(x[0], x[1], y[0], y[1])
                c0, carry = add_carry(c0, z0, _ZERO)
                c1, carry = add_carry(c1, z1, carry)
                c2, carry = add_carry(c2, z2, carry)
                c3, carry = add_carry(c3, z3, carry)
                c4 += carry
            h0, h1 = _fold(c2, c3, c4, _ZERO)
            out[i, j, 0], out[i, j, 1] = _fold(c0, c1, h0, h1)


@allocating_kernel
def add_rows(a: Words, num_rows: int, stride: int, out: Words) -> None:
    """Add to each row of `out` as many rows from `a`; see `field._kernels.Kernels`.

    The halves of the words are summed separately (see `field._halves`), and each sum is reduced
    once. Columns are taken in blocks whose sums stay in the fastest cache.
    """
    length = 2 * out.shape[1]
    low = np.empty(COLUMNS_AT_ONCE, np.uint64)
    high = np.empty(COLUMNS_AT_ONCE, np.uint64)
    for i in range(out.shape[0]):
        for start in range(0, length, COLUMNS_AT_ONCE):
            count = min(COLUMNS_AT_ONCE, length - start)
            for j in range(count):
                word = out[i, (start + j) // 2, (start + j) % 2]
                low[j], high[j] = word & _LOW_HALF, word >> _HALF_WORD
            first = i * num_rows * stride + start
            add_halves(a, first, stride, num_rows, count, low, high)
            for j in range(0, count, 2):
                z0, carry = add_carry(low[j], high[j] << _HALF_WORD, _ZERO)
                z1, z2 = add_carry(low[j + 1], high[j] >> _HALF_WORD, carry)
                z1, carry = add_carry(z1, high[j + 1] << _HALF_WORD, _ZERO)
                z2 += (high[j + 1] >> _HALF_WORD) + carry
                element = out[i, (start + j) // 2]
                element[0], element[1] = _fold(z0, z1, z2, _ZERO)


@kernel
def transform(a: Words, roots: Words, out: Words) -> None:
    """Set `out[i]` to the transform of `a[i]`, `roots` as `field.ntt` lays them out."""
    size = a.shape[1]
    for i in range(a.shape[0]):
        # Bit-reversed order: counting upwards from the highest bit.
        reversed_j = 0
        for j in range(size):
            out[i, reversed_j, 0], out[i, reversed_j, 1] = a[i, j, 0], a[i, j, 1]
            bit = size >> 1
            while reversed_j & bit:
                reversed_j ^= bit
                bit >>= 1
            reversed_j |= bit
        half = 1
        while half < size:
            for start in range(0, size, 2 * half):
                for j in range(half):
                    x, y, w = out[i, start + j], out[i, start + half + j], roots[half + j]
                    u0, u1 = x[0], x[1]
                    v0, v1 = _product(y[0], y[1], w[0], w[1])
                    x[0], x[1] = _sum(u0, u1, v0, v1)
                    y[0], y[1] = _difference(u0, u1, v0, v1)
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
    squares = np.empty((64, 2), np.uint64)
    for i in range(out.shape[0]):
        s0, s1 = points[i, 0], points[i, 1]
        count = 0
        while 1 << count < size:
            squares[count, 0], squares[count, 1] = s0, s1
            s0, s1 = _product(s0, s1, s0, s1)
            count += 1
        out[i, 0, 0], out[i, 0, 1] = start[0, 0], start[0, 1]
        half = 1
        while half < size:
            count -= 1
            s0, s1 = squares[count, 0], squares[count, 1]
            for k in range(half):
                u0, u1 = out[i, k, 0], out[i, k, 1]
                v0, v1 = _product(s0, s1, roots[half + k, 0], roots[half + k, 1])
                v0, v1 = _product(u0, u1, v0, v1)
                out[i, k, 0], out[i, k, 1] = _sum(u0, u1, v0, v1)
                out[i, half + k, 0], out[i, half + k, 1] = _difference(u0, u1, v0, v1)
            half *= 2


@inlined
def _is_residue(low: np.uint64, high: np.uint64) -> np.uint64:
    # p is the second smallest number with its high word.
    return np.uint64(high < _P_HIGH) | (np.uint64(high == _P_HIGH) & np.uint64(low < _P_LOW))


@kernel
def are_residues(a: Words, valid: Mask) -> None:
    """Set `valid[i]` if every element of `a[i]` is below the modulus."""
    for i in range(a.shape[0]):
        below = _ONE
        for j in range(a.shape[1]):
            below &= _is_residue(a[i, j, 0], a[i, j, 1])
        valid[i] = below == _ONE


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
            out[i, filled, 0], out[i, filled, 1] = a[i, j, 0], a[i, j, 1]
            filled += int(_is_residue(a[i, j, 0], a[i, j, 1]))
        complete[i] = filled == length
