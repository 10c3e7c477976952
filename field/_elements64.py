"""Elements of p = 2^64 - 2^32 + 1 in kernels: each is one word in [0, p).

No branch and no index depends on an element: carries become masks.

`field._kernels.Elements` says what the public functions do.
"""

import numpy as np
import numpy.typing as npt

from field.lanes import add_carry, inlined, multiply_wide, opaque

Words = npt.NDArray[np.uint64]

WORDS = 1

_ZERO = np.uint64(0)
_P = np.uint64(2**64 - 2**32 + 1)
# 2^64 - p: adding it to a word that wrapped, or is p or more, subtracts p.
_FOLD = np.uint64(2**32 - 1)
_HALF_WORD = np.uint64(32)


@inlined
def load(a: Words, index: tuple[int, ...]) -> np.uint64:
    word: np.uint64 = a[index]
    return word


@inlined
def store(out: Words, index: tuple[int, ...], x: np.uint64) -> None:
    out[index] = x


@inlined
def plus(x: np.uint64, y: np.uint64) -> np.uint64:
    total = x + y
    reduced = total + _FOLD
    # x + y >= p if and only if one of the two additions carried.
    over = np.uint64(total < x) | np.uint64(reduced < total)
    return total + (_FOLD & _mask(over))


@inlined
def minus(x: np.uint64, y: np.uint64) -> np.uint64:
    return x - y - (_FOLD & _mask(np.uint64(x < y)))


@inlined
def times(x: np.uint64, y: np.uint64) -> np.uint64:
    low, high = multiply_wide(x, y)
    return _reduced(low, high)


@inlined
def no_products() -> np.uint64:
    return _ZERO


@inlined
def with_product(total: np.uint64, x: np.uint64, y: np.uint64) -> np.uint64:
    return plus(total, times(x, y))


@inlined
def sum_of_products(total: np.uint64) -> np.uint64:
    return total


@inlined
def sum_of_halves(low: np.uint64, high: np.uint64) -> np.uint64:
    word, carry = add_carry(low, high << _HALF_WORD, _ZERO)
    return _reduced(word, (high >> _HALF_WORD) + carry)


@inlined
def is_residue(x: np.uint64) -> np.uint64:
    return np.uint64(x < _P)


@inlined
def _mask(flag: np.uint64) -> np.uint64:
    """Return all ones for 1 and zero for 0."""
    return opaque(_ZERO - flag)


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
