"""Elements of p = 2^128 - 28 * 2^64 + 1 in kernels: each is two words, low word first, in [0, p).

No branch and no index depends on an element: carries become masks.

Elements are never in Montgomery form: because 2^128 = 28 * 2^64 - 1 (mod p), a plain reduction is
as cheap as Montgomery's and needs no conversion.

`field._kernels.Elements` says what the public functions do.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from field.lanes import add_carry, inlined, multiply_wide, opaque, subtract_borrow

Words = npt.NDArray[np.uint64]

Pair: TypeAlias = tuple[np.uint64, np.uint64]

WideSum: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]

WORDS = 2

_ZERO = np.uint64(0)
_C = np.uint64(28)
_HALF_WORD = np.uint64(32)
_P_LOW = np.uint64(1)
_P_HIGH = np.uint64(2**64 - 28)
# 2^128 - p = 28 * 2^64 - 1 in two words: adding it to a number that wrapped, or is p or more,
# subtracts p.
_FOLD_LOW = np.uint64(2**64 - 1)
_FOLD_HIGH = np.uint64(27)


@inlined
def load(a: Words, index: tuple[int, ...]) -> Pair:
    return a[(*index, 0)], a[(*index, 1)]


@inlined
def store(out: Words, index: tuple[int, ...], x: Pair) -> None:
    out[(*index, 0)], out[(*index, 1)] = x


@inlined
def plus(x: Pair, y: Pair) -> Pair:
    low, carry = add_carry(x[0], y[0], _ZERO)
    high, carry = add_carry(x[1], y[1], carry)
    return _reduce(low, high, carry)


@inlined
def minus(x: Pair, y: Pair) -> Pair:
    low, borrow = subtract_borrow(x[0], y[0], _ZERO)
    high, borrow = subtract_borrow(x[1], y[1], borrow)
    # A borrow leaves 2^128 too much: subtract 2^128 - p, which cannot borrow again.
    under = _mask(borrow)
    low, borrow = subtract_borrow(low, _FOLD_LOW & under, _ZERO)
    high, _ = subtract_borrow(high, _FOLD_HIGH & under, borrow)
    return low, high


@inlined
def times(x: Pair, y: Pair) -> Pair:
    z0, z1, z2, z3 = _wide_product(x, y)
    return _fold(z0, z1, z2, z3)


@inlined
def no_products() -> WideSum:
    return _ZERO, _ZERO, _ZERO, _ZERO, _ZERO


@inlined
def with_product(total: WideSum, x: Pair, y: Pair) -> WideSum:
    # Five words hold a sum of fewer than 2^64 whole products, which is reduced once.
    c0, c1, c2, c3, c4 = total
    z0, z1, z2, z3 = _wide_product(x, y)
    c0, carry = add_carry(c0, z0, _ZERO)
    c1, carry = add_carry(c1, z1, carry)
    c2, carry = add_carry(c2, z2, carry)
    c3, carry = add_carry(c3, z3, carry)
    return c0, c1, c2, c3, c4 + carry


@inlined
def sum_of_products(total: WideSum) -> Pair:
    c0, c1, c2, c3, c4 = total
    h0, h1 = _fold(c2, c3, c4, _ZERO)
    return _fold(c0, c1, h0, h1)


@inlined
def sum_of_halves(low: Pair, high: Pair) -> Pair:
    z0, carry = add_carry(low[0], high[0] << _HALF_WORD, _ZERO)
    z1, z2 = add_carry(low[1], high[0] >> _HALF_WORD, carry)
    z1, carry = add_carry(z1, high[1] << _HALF_WORD, _ZERO)
    z2 += (high[1] >> _HALF_WORD) + carry
    return _fold(z0, z1, z2, _ZERO)


@inlined
def is_residue(x: Pair) -> np.uint64:
    # p is the second smallest number with its high word.
    low, high = x
    return np.uint64(high < _P_HIGH) | (np.uint64(high == _P_HIGH) & np.uint64(low < _P_LOW))


@inlined
def _mask(flag: np.uint64) -> np.uint64:
    """Return all ones for 1 and zero for 0."""
    return opaque(_ZERO - flag)


@inlined
def _reduce(low: np.uint64, high: np.uint64, carry: np.uint64) -> Pair:
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
def _wide_product(x: Pair, y: Pair) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four words of the product."""
    z0, m1 = multiply_wide(x[0], y[0])
    n1, n2 = multiply_wide(x[0], y[1])
    z1, carry = add_carry(m1, n1, _ZERO)
    z2, z3 = multiply_wide(x[1], y[1])
    z2, carry = add_carry(z2, n2, carry)
    z3 += carry
    n1, n2 = multiply_wide(x[1], y[0])
    z1, carry = add_carry(z1, n1, _ZERO)
    z2, carry = add_carry(z2, n2, carry)
    return z0, z1, z2, z3 + carry


@inlined
def _fold(z0: np.uint64, z1: np.uint64, z2: np.uint64, z3: np.uint64) -> Pair:
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
