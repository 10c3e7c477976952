"""The compiled kernels of a field, behind one interface."""

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from field import _kernels64, _kernels128
from field.fields import Field

Words: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Kernels(Protocol):
    """The compiled kernels of a field, on arrays with the field's `word_shape`.

    An axis of length 1 in an operand is repeated to its length in `out`.
    """

    def add(self, a: Words, b: Words, out: Words) -> None:
        """Set `out[i, j] = a[i, j] + b[i, j]`."""

    def subtract(self, a: Words, b: Words, out: Words) -> None:
        """Set `out[i, j] = a[i, j] - b[i, j]`."""

    def multiply(self, a: Words, b: Words, out: Words) -> None:
        """Set `out[i, j] = a[i, j] * b[i, j]`."""

    def dot(self, a: Words, b: Words, out: Words) -> None:
        """Set `out[i, j]` to the sum over k of `a[i, j, k] * b[i, j, k]`."""

    def add_rows(self, a: Words, num_rows: int, stride: int, out: Words) -> None:
        """Add to `out[i]` the rows i*num_rows to (i + 1)*num_rows - 1 of `a`, read-only words.

        Row k begins at `a[k * stride]`.
        """

    def transform(self, a: Words, roots: Words, out: Words) -> None:
        """Set `out[i]` to the transform of `a[i]`, with `roots` as `field.ntt` lays them out."""

    def lagrange_basis(self, points: Words, start: Words, roots: Words, out: Words) -> None:
        """Set `out[i, k]` to the k-th Lagrange basis polynomial at `points[i]`."""

    def are_residues(self, a: Words, valid: Mask) -> None:
        """Set `valid[i]` if every element of `a[i]` is below the modulus."""

    def accept_residues(self, a: Words, out: Words, complete: Mask) -> None:
        """Fill `out[i]` with the first elements of `a[i]` below the modulus."""


def kernels(field: Field) -> Kernels:
    """Return the compiled kernels of a field."""
    return _kernels64 if field.words == 1 else _kernels128
