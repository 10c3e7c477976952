"""Polynomials given by their values at the powers of a root of unity (the Lagrange basis).

All functions work along the last axis, on any number of polynomials at once. The polynomial of n
values is the one of degree below n that takes them at w^0, ..., w^(n - 1), where w is the principal
root of unity of order n or, for `extend_values_to_power_of_2`, of the next power of two.

Source: VDAF, "Polynomial Representation" and "Lagrange Basis".
"""

import functools
import math

import numpy as np

from field._kernels import kernels
from field.errors import ShapeError
from field.fields import Field
from field.ntt import last_axis, roots, shifted_ntt, size_inverse
from field.vector import Vector, concat, stack


def poly_eval(values: Vector, points: Vector) -> Vector:
    """Return polynomials' values at one point per row.

    Correct at every point, roots of unity included; the caller decides whether to use such a point.

    Args:
        values: Shape `(*points.shape, ..., n)`, n a power of two: with points of shape `(rows,)`
            and values of shape `(rows, polys, n)`, all polynomials of a row share its point.
        points: Where to evaluate.

    Returns:
        Shape `values.shape[:-1]`.

    Raises:
        ShapeError: The leading axes of `values` are not those of `points`, or n is not a power of
            two.
    """
    size = last_axis(values)
    if values.shape[:-1][: points.ndim] != points.shape:
        raise ShapeError(f"shape {values.shape} must begin with that of the points {points.shape}")
    between = (1,) * (values.ndim - 1 - points.ndim)
    basis = lagrange_basis(points, size)
    return values.dot(basis.reshape(*points.shape, *between, size))


def lagrange_basis(points: Vector, size: int) -> Vector:
    """Return the values of all Lagrange basis polynomials at each point.

    The k-th one is 1 at w^k and 0 at the other powers of w, so the value of any polynomial at the
    point is their dot product with its values.

    Returns:
        Shape `(*points.shape, size)`.

    Raises:
        ShapeError: `size` is not a power of two.
    """
    field = points.field
    table = roots(field, size, inverse=True)
    out = np.empty((*points.shape, size, *field.word_shape), np.uint64)
    kernels(field).lagrange_basis(
        points.packed().reshape(-1, *field.word_shape),
        size_inverse(field, size).words.reshape(1, *field.word_shape),
        table.words,
        out.reshape(-1, size, *field.word_shape),
    )
    return Vector(field, out)


def double_evaluations(values: Vector) -> Vector:
    """Return 2n values of the polynomials of n values, at the powers of the root of order 2n.

    n is a power of two, or it is a `ShapeError`.
    """
    size = last_axis(values)
    pairs = stack([values, shifted_ntt(values)], axis=values.ndim)
    return pairs.reshape(*values.shape[:-1], 2 * size)


def extend_values_to_power_of_2(values: Vector) -> Vector:
    """Return n values of the polynomials of m values, where n is the least power of two >= m.

    Both are values at the powers of the root of order n; the first m stay as given. Raises
    `ShapeError` if there are no values.
    """
    length = last_axis(values)
    if not length:
        raise ShapeError("a polynomial needs at least one value")
    size = 1 << (length - 1).bit_length()
    if size == length:
        return values
    matrix = _extension(values.field, length, size)
    missing = values.reshape(*values.shape[:-1], 1, length).dot(matrix)
    return concat([values, missing])


def powers(points: Vector, count: int) -> Vector:
    """Return t, t^2, ..., t^count for each point t, along a new last axis.

    Raises `ShapeError` if `count` is not positive.
    """
    if count < 1:
        raise ShapeError(f"the number of powers must be positive, got {count}")
    result = points.reshape(*points.shape, 1)
    while (known := result.shape[-1]) < count:
        # The next powers are the known ones times the last of them.
        wanted = min(known, count - known)
        result = concat([result, result[..., :wanted] * result[..., known - 1 :]])
    return result


@functools.lru_cache(maxsize=32)
def _extension(field: Field, length: int, size: int) -> Vector:
    """Return the matrix that takes `length` values to the `size - length` that follow them.

    Row i holds the values of the Lagrange basis polynomials of the nodes x_0, ..., x_(length - 1)
    at the node y = x_(length + i). By the barycentric formula the j-th is

        M(y) / ((y - x_j) M'(x_j)),  where M(x) is the product of all (x - x_j).

    M is (x^size - 1) divided by R(x), the product of (x - y) over the few missing nodes y. So
    M'(x_j) = size x_j^(size - 1) / R(x_j), and M(y) = size y^(size - 1) / R'(y).
    """
    p = field.modulus
    root = field.root_of_unity(size)
    nodes = [pow(root, k, p) for k in range(size)]
    known, missing = nodes[:length], nodes[length:]
    at_known = [math.prod(x - y for y in missing) % p for x in known]
    rows = []
    for y in missing:
        slope = math.prod(y - other for other in missing if other != y) % p
        # x^(size - 1) = 1/x at every node, so size cancels and 1/x_j in the denominator is x_j.
        front = field.inverse(y * slope)
        rows.append(
            [
                front * x * above * field.inverse(y - x) % p
                for x, above in zip(known, at_known, strict=True)
            ]
        )
    return Vector.from_ints(field, rows)
