"""Kernels on `uint64[..., 2]` arrays, low word first, for p = 2^128 - 28 * 2^64 + 1.

All elements in and out lie in [0, p). No branch and no index depends on an element: carries become
masks. In `accept_residues` the positions depend on which candidates are dropped, and nothing else.

Elements are never in Montgomery form: 2^128 = 28 * 2^64 - 1 (mod p) makes a plain reduction as
cheap as Montgomery's, and there is nothing to convert.

`field.vector.Kernels` says what the public functions do.
"""

import numpy as np
import numpy.typing as npt

from field._jit import kernel, multiply_wide

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_C = np.uint64(28)
_P_HIGH = np.uint64(2**64 - 28)
# 2^128 - p = 28 * 2^64 - 1 in two words: adding it to a number that wrapped, or is p or more, takes
# p away.
_FOLD_LOW = np.uint64(2**64 - 1)
_FOLD_HIGH = np.uint64(27)


@kernel
def _reduce(low: np.uint64, high: np.uint64, carry: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Take p away once from carry * 2^128 + high * 2^64 + low if that is p or more.

    The number must be below 2p, and `carry` 0 or 1.
    """
    folded_low = low + _FOLD_LOW
    folded_high = high + _FOLD_HIGH + np.uint64(folded_low < low)
    # The high word cannot wrap to or beyond its old value: it grows by 28 at most.
    over = _ZERO - (carry | np.uint64(folded_high < high))
    return low ^ ((low ^ folded_low) & over), high ^ ((high ^ folded_high) & over)


@kernel
def _sum(a0: np.uint64, a1: np.uint64, b0: np.uint64, b1: np.uint64) -> tuple[np.uint64, np.uint64]:
    low = a0 + b0
    carry = np.uint64(low < a0)
    high = a1 + b1
    over = np.uint64(high < a1)
    high += carry
    over |= np.uint64(high < carry)
    return _reduce(low, high, over)


@kernel
def _difference(
    a0: np.uint64, a1: np.uint64, b0: np.uint64, b1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    low = a0 - b0
    borrow = np.uint64(a0 < b0)
    partial = a1 - b1
    under = np.uint64(a1 < b1) | np.uint64(partial < borrow)
    high = partial - borrow
    # A borrow is 2^128 too much: take 2^128 - p away, which cannot borrow again.
    mask = _ZERO - under
    reduced = low - (_FOLD_LOW & mask)
    borrow = np.uint64(low < (_FOLD_LOW & mask))
    return reduced, high - (_FOLD_HIGH & mask) - borrow


@kernel
def _wide_product(
    a0: np.uint64, a1: np.uint64, b0: np.uint64, b1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    low, z1 = multiply_wide(a0, b0)
    m0, m1 = multiply_wide(a0, b1)
    n0, n1 = multiply_wide(a1, b0)
    h0, h1 = multiply_wide(a1, b1)
    z1 += m0
    carry = np.uint64(z1 < m0)
    z1 += n0
    carry += np.uint64(z1 < n0)
    h0 += m1
    h1 += np.uint64(h0 < m1)
    h0 += n1
    h1 += np.uint64(h0 < n1)
    h0 += carry
    h1 += np.uint64(h0 < carry)
    return low, z1, h0, h1


@kernel
def _fold(
    z0: np.uint64, z1: np.uint64, h0: np.uint64, h1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Reduce H * 2^128 + z1 * 2^64 + z0, where H = h1 * 2^64 + h0, modulo p."""
    # H 2^128 = 28 H 2^64 - H. The part of 28 H 2^64 from 2^128 upwards is G 2^128 with
    # G = g1 2^64 + g0 = floor(28 H / 2^64) < 28 * 2^64, and folds to 28 G 2^64 - G. Of that,
    # t1 2^128 with t1 = floor(28 G / 2^64) < 784 is left, and folds to 28 t1 2^64 - t1.
    u0, carry = multiply_wide(h0, _C)
    g0, g1 = multiply_wide(h1, _C)
    g0 += carry
    g1 += np.uint64(g0 < carry)
    t0, t1 = multiply_wide(g0, _C)
    t1 += g1 * _C
    # The number is z + (u0 + t0 + 28 t1) 2^64 - (H + G + t1). It is above -2^128 - 2^70; add
    # 2p = 2^129 - 56 * 2^64 + 2 to make it positive, and count multiples of 2^128 in `top`.
    small = t1 * _C
    d0 = h0 + g0
    d1 = np.uint64(d0 < g0)
    d0 += t1
    d1 += np.uint64(d0 < t1)
    d1 += g1
    middle = h1 + d1
    under = np.uint64(middle < d1)
    top = np.uint64(2) - under
    low = z0 - d0
    borrow = np.uint64(z0 < d0)
    high = z1 - middle
    top -= np.uint64(z1 < middle)
    top -= np.uint64(high < borrow)
    high -= borrow
    high += u0
    top += np.uint64(high < u0)
    high += t0
    top += np.uint64(high < t0)
    high += small
    top += np.uint64(high < small)
    # Add 2p - 2^129 = 2 - 56 * 2^64.
    low += np.uint64(2)
    carry = np.uint64(low < np.uint64(2))
    high += carry
    top += np.uint64(high < carry)
    top -= np.uint64(high < np.uint64(56))
    high -= np.uint64(56)
    # Now top < 8; fold it. The number stays positive since 28 * 2^64 top >= top, and below 2p.
    borrow = np.uint64(low < top)
    low -= top
    over = np.uint64(high < borrow)
    high -= borrow
    addend = top * _C
    high += addend
    carry = np.uint64(high < addend)
    return _reduce(low, high, carry - over)


@kernel
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
            # Five words hold the sum of whole products of fewer than 2^64 terms; one reduction.
            c0, c1, c2, c3, c4 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
            for k in range(a.shape[2]):
                x, y = a[i * a_row, j * a_column, k], b[i * b_row, j * b_column, k]
                z0, z1, z2, z3 = _wide_product(x[0], x[1], y[0], y[1])
                c0 += z0
                carry = np.uint64(c0 < z0)
                # A product is below 2^256 - 2^128, so z3 can take the carry that z2 passes on, but
                # z1 and z2 cannot: they are all ones for some factors.
                z1 += carry
                z2 += np.uint64(z1 < carry)
                z3 += np.uint64(z2 < np.uint64(z1 < carry))
                c1 += z1
                carry = np.uint64(c1 < z1)
                z2 += carry
                z3 += np.uint64(z2 < carry)
                c2 += z2
                carry = np.uint64(c2 < z2)
                z3 += carry
                c3 += z3
                c4 += np.uint64(c3 < z3)
            h0, h1 = _fold(c2, c3, c4, _ZERO)
            out[i, j, 0], out[i, j, 1] = _fold(c0, c1, h0, h1)


@kernel
def sum_middle(a: Words, out: Words) -> None:
    """Set `out[i, j]` to the sum over k of `a[i, k, j]`."""
    for i in range(a.shape[0]):
        for j in range(a.shape[2]):
            out[i, j, 0], out[i, j, 1] = _ZERO, _ZERO
        for k in range(a.shape[1]):
            for j in range(a.shape[2]):
                x, y = out[i, j], a[i, k, j]
                out[i, j, 0], out[i, j, 1] = _sum(x[0], x[1], y[0], y[1])


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


@kernel
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


@kernel
def _is_residue(low: np.uint64, high: np.uint64) -> np.uint64:
    # p is the smallest number with its high word and low word 1.
    return np.uint64(high < _P_HIGH) | (np.uint64(high == _P_HIGH) & np.uint64(low < _ONE))


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
            # A candidate that is dropped is overwritten by the next one.
            out[i, filled, 0], out[i, filled, 1] = a[i, j, 0], a[i, j, 1]
            filled += int(_is_residue(a[i, j, 0], a[i, j, 1]))
        complete[i] = filled == length
