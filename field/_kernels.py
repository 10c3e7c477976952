"""The compiled kernels of both fields, on arrays with the field's `word_shape`.

They are written once, over the elements of `field._elements64` and `field._elements128`. All
elements in and out lie in [0, p). No branch and no index depends on an element, but in
`accept_residues` positions depend on which candidates are dropped.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from field import _elements64, _elements128
from field._halves import COLUMNS_AT_ONCE, HALF_WORD, LOW_HALF, add_halves
from field._plain import PlainKernels
from field.fields import Field
from field.lanes import allocating_kernel, kernel, with_plain

Words: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_Binary: TypeAlias = Callable[[Words, Words, Words], None]

_MOST_SQUARES = 64

_ADD, _SUBTRACT, _MULTIPLY = range(3)

E = TypeVar("E")  # an element
S = TypeVar("S")  # a sum of products, not yet reduced


class Elements(Protocol[E, S]):
    """What a field's module says of its elements, for kernels: one word each, or a pair."""

    WORDS: int
    """How many words an element has."""

    def load(self, a: Words, index: tuple[int, ...]) -> E:
        """Return an element of an array."""

    def store(self, out: Words, index: tuple[int, ...], x: E) -> None:
        """Set an element of an array."""

    def plus(self, x: E, y: E) -> E:
        """Return x + y."""

    def minus(self, x: E, y: E) -> E:
        """Return x - y."""

    def times(self, x: E, y: E) -> E:
        """Return x * y."""

    def no_products(self) -> S:
        """Return an empty sum of products."""

    def with_product(self, total: S, x: E, y: E) -> S:
        """Return a sum of products with x * y added."""

    def sum_of_products(self, total: S) -> E:
        """Return the residue of a sum of products."""

    def sum_of_halves(self, low: E, high: E) -> E:
        """Return low + 2^32 * high, where both have words of any size."""

    def is_residue(self, x: E) -> np.uint64:
        """Return 1 if x is below p, otherwise 0."""


class Kernels:
    """The kernels of a field.

    An axis of length 1 in an operand is repeated to its length in `out`.
    """

    def __init__(self, elements: Elements[E, S]) -> None:
        plain = PlainKernels(elements)
        # Kernels that close over a module are cached; those that close over kernels are not.
        self.add = with_plain(_elementwise(elements, _ADD), plain.add)
        self.subtract = with_plain(_elementwise(elements, _SUBTRACT), plain.subtract)
        self.multiply = with_plain(_elementwise(elements, _MULTIPLY), plain.multiply)
        self.dot = with_plain(_dot(elements), plain.dot)
        self.add_rows = with_plain(_add_rows(elements), plain.add_rows)
        self.transform = with_plain(_transform(elements), plain.transform)
        self.lagrange_basis = with_plain(_lagrange_basis(elements), plain.lagrange_basis)
        self.are_residues = with_plain(_are_residues(elements), plain.are_residues)
        self.accept_residues = with_plain(_accept_residues(elements), plain.accept_residues)


def _elementwise(elements: Elements[E, S], operation: int) -> _Binary:
    @kernel
    def elementwise(a: Words, b: Words, out: Words) -> None:
        """Set `out[i, j]` to the result of the operation on `a[i, j]` and `b[i, j]`."""
        a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
        b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                x = elements.load(a, (i * a_row, j * a_column))
                y = elements.load(b, (i * b_row, j * b_column))
                # The operation is a constant, so nothing is left of the other two.
                if operation == _ADD:
                    elements.store(out, (i, j), elements.plus(x, y))
                elif operation == _SUBTRACT:
                    elements.store(out, (i, j), elements.minus(x, y))
                else:
                    elements.store(out, (i, j), elements.times(x, y))

    return elementwise


def _dot(elements: Elements[E, S]) -> _Binary:
    @kernel
    def dot(a: Words, b: Words, out: Words) -> None:
        """Set `out[i, j]` to the sum over k of `a[i, j, k] * b[i, j, k]`."""
        a_row, a_column = int(a.shape[0] > 1), int(a.shape[1] > 1)
        b_row, b_column = int(b.shape[0] > 1), int(b.shape[1] > 1)
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                total = elements.no_products()
                for k in range(a.shape[2]):
                    x = elements.load(a, (i * a_row, j * a_column, k))
                    y = elements.load(b, (i * b_row, j * b_column, k))
                    total = elements.with_product(total, x, y)
                elements.store(out, (i, j), elements.sum_of_products(total))

    return dot


def _add_rows(elements: Elements[E, S]) -> Callable[[Words, int, int, Words], None]:
    @allocating_kernel
    def add_rows(a: Words, num_rows: int, stride: int, out: Words) -> None:
        """Add to `out[i]` the rows i*num_rows to (i + 1)*num_rows - 1 of `a`, read-only words.

        Row k begins at `a[k * stride]`. The halves of the words are summed separately (see
        `field._halves`), and each sum is reduced once. Columns are taken in blocks whose sums stay
        in the fastest cache.
        """
        low = np.empty((COLUMNS_AT_ONCE // elements.WORDS, *out.shape[2:]), np.uint64)
        high = np.empty_like(low)
        lows, highs = low.reshape(-1), high.reshape(-1)
        for i in range(out.shape[0]):
            for start in range(0, out.shape[1], len(low)):
                part = out[i, start : start + len(low)]
                words = part.reshape(-1)
                count = len(words)
                for j in range(count):
                    lows[j], highs[j] = words[j] & LOW_HALF, words[j] >> HALF_WORD
                first = i * num_rows * stride + start * elements.WORDS
                add_halves(a, first, stride, num_rows, count, lows, highs)
                for j in range(len(part)):
                    x = elements.sum_of_halves(elements.load(low, (j,)), elements.load(high, (j,)))
                    elements.store(part, (j,), x)

    return add_rows


def _transform(elements: Elements[E, S]) -> _Binary:
    @kernel
    def transform(a: Words, roots: Words, out: Words) -> None:
        """Set `out[i]` to the transform of `a[i]`, with `roots` as `field.ntt` lays them out."""
        size = a.shape[1]
        for i in range(a.shape[0]):
            # Bit-reversed order: counting upwards from the highest bit.
            reversed_j = 0
            for j in range(size):
                elements.store(out, (i, reversed_j), elements.load(a, (i, j)))
                bit = size >> 1
                while reversed_j & bit:
                    reversed_j ^= bit
                    bit >>= 1
                reversed_j |= bit
            half = 1
            while half < size:
                for start in range(0, size, 2 * half):
                    for j in range(half):
                        u, y = (
                            elements.load(out, (i, start + j)),
                            elements.load(out, (i, start + half + j)),
                        )
                        v = elements.times(y, elements.load(roots, (half + j,)))
                        elements.store(out, (i, start + j), elements.plus(u, v))
                        elements.store(out, (i, start + half + j), elements.minus(u, v))
                half *= 2

    return transform


def _lagrange_basis(elements: Elements[E, S]) -> Callable[[Words, Words, Words, Words], None]:
    @allocating_kernel
    def lagrange_basis(points: Words, start: Words, roots: Words, out: Words) -> None:
        """Set `out[i, k]` to the k-th Lagrange basis polynomial at `points[i]`.

        It is 1/n times the sum over j of (t w^-k)^j, which is 1/n times the product of
        1 + (t w^-k)^h over h = n/2, ..., 2, 1. The factor for h depends on k modulo n/h only, so
        the product doubles in length with each factor, and no inverse is needed. `start` holds 1/n,
        `roots` the powers of w^-1.
        """
        size = out.shape[1]
        squares = np.empty((_MOST_SQUARES, *points.shape[1:]), np.uint64)
        for i in range(out.shape[0]):
            square = elements.load(points, (i,))
            count = 0
            while 1 << count < size:
                elements.store(squares, (count,), square)
                square = elements.times(square, square)
                count += 1
            elements.store(out, (i, 0), elements.load(start, (0,)))
            half = 1
            while half < size:
                count -= 1
                square = elements.load(squares, (count,))
                for k in range(half):
                    u = elements.load(out, (i, k))
                    v = elements.times(u, elements.times(square, elements.load(roots, (half + k,))))
                    elements.store(out, (i, k), elements.plus(u, v))
                    elements.store(out, (i, half + k), elements.minus(u, v))
                half *= 2

    return lagrange_basis


def _are_residues(elements: Elements[E, S]) -> Callable[[Words, Mask], None]:
    @kernel
    def are_residues(a: Words, valid: Mask) -> None:
        """Set `valid[i]` if every element of `a[i]` is below the modulus."""
        for i in range(a.shape[0]):
            over = np.uint64(0)
            for j in range(a.shape[1]):
                over |= np.uint64(1) ^ elements.is_residue(elements.load(a, (i, j)))
            valid[i] = over == np.uint64(0)

    return are_residues


def _accept_residues(elements: Elements[E, S]) -> Callable[[Words, Words, Mask], None]:
    @kernel
    def accept_residues(a: Words, out: Words, complete: Mask) -> None:
        """Fill `out[i]` with the first elements of `a[i]` below the modulus."""
        length = out.shape[1]
        for i in range(a.shape[0]):
            candidates, accepted, filled = a[i], out[i], 0
            for j in range(len(candidates)):
                if filled == length:
                    break
                # The next candidate overwrites one that was dropped.
                x = elements.load(candidates, (j,))
                elements.store(accepted, (filled,), x)
                filled += int(elements.is_residue(x))
            complete[i] = filled == length

    return accept_residues


_KERNELS64, _KERNELS128 = Kernels(_elements64), Kernels(_elements128)


def kernels(field: Field) -> Kernels:
    """Return the compiled kernels of a field."""
    return _KERNELS64 if field.words == 1 else _KERNELS128
