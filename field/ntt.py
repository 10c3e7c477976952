"""The number-theoretic transform and its inverse, along the last axis.

Source: VDAF, "NTT-Friendly Fields" and "Lagrange Basis".
"""

import functools

import numpy as np

from field._kernels import Words, kernels
from field.errors import ShapeError
from field.fields import Field
from field.vector import Vector


def ntt(coefficients: Vector) -> Vector:
    """Return the values of polynomials at the powers of a root of unity.

    Args:
        coefficients: n of them along the last axis, from the constant upwards; n is a power of two.

    Returns:
        Along the last axis the values at w^0, w^1, ..., w^(n - 1), where w is the principal root of
        unity of order n.

    Raises:
        ShapeError: n is not a power of two.
    """
    return _transform(coefficients, roots(coefficients.field, last_axis(coefficients)))


def shifted_ntt(values: Vector) -> Vector:
    """Return values at the odd powers of the root of order 2n, given those at the even powers.

    Interpolates and evaluates again on the coset: the coefficient of x^i is scaled by s^i, where s
    is the principal root of order 2n.

    Args:
        values: n values along the last axis, as `ntt` returns them; n is a power of two.

    Raises:
        ShapeError: n is not a power of two.
    """
    field, size = values.field, last_axis(values)
    scaled = _transform(values, roots(field, size, inverse=True))
    return _transform(scaled * _shift(field, size), roots(field, size))


@functools.lru_cache(maxsize=128)
def roots(field: Field, size: int, *, inverse: bool = False) -> Vector:
    """Return the roots of unity that a transform of `size` values needs, `size` of them.

    With w_m the principal root of order m, or its inverse, entries m/2 to m - 1 hold the powers 0
    to m/2 - 1 of w_m, for every m = 2, 4, ..., size: each stage of a transform reads consecutive
    entries. Entry 0 is not used. Raises `ShapeError` if `size` is not a power of two.
    """
    if size < 1 or size & (size - 1):
        raise ShapeError(f"the transform needs a length that is a power of two, got {size}")
    root = field.root_of_unity(size)
    half = _powers(field, field.inverse(root) if inverse else root, max(size // 2, 1))
    table, order = [0] * size, size
    while order > 1:
        # The powers of w_m are every (size / m)-th power of w_size.
        table[order // 2 : order] = half[:: size // order]
        order //= 2
    return Vector.from_ints(field, table)


def size_inverse(field: Field, size: int) -> Vector:
    """Return 1 / size as a vector without axes."""
    return Vector.from_ints(field, field.inverse(size))


def last_axis(vector: Vector) -> int:
    """Return the length of a vector's last axis, or raise `ShapeError`."""
    if not vector.ndim:
        raise ShapeError("a polynomial needs an axis of coefficients")
    return vector.shape[-1]


@functools.lru_cache(maxsize=128)
def _shift(field: Field, size: int) -> Vector:
    """Return s^i / size for i = 0 to size - 1, with s the principal root of order 2 * size."""
    scale = field.inverse(size)
    powers = _powers(field, field.root_of_unity(2 * size), size)
    return Vector.from_ints(field, [power * scale % field.modulus for power in powers])


def _powers(field: Field, base: int, count: int) -> list[int]:
    powers = [1]
    while len(powers) < count:
        powers.append(powers[-1] * base % field.modulus)
    return powers


def _transform(values: Vector, table: Vector) -> Vector:
    field, size = values.field, values.shape[-1]
    out: Words = np.empty(values.words.shape, np.uint64)
    rows = (-1, size, *field.word_shape)
    kernels(field).transform(values.packed().reshape(rows), table.words, out.reshape(rows))
    return Vector(field, out)
