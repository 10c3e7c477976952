"""The kernels of `field._kernels` once more, on whole arrays: they need no compiler.

They take what the compiled ones take and return the same words, ten to a hundred times as slowly.
They stand in while kernels are being compiled. What an element is, the two have in common.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

Words: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_AT_ONCE = 1 << 13
"""Elements that are computed at once: their intermediate words stay in a fast cache."""

_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(2**32 - 1)
_ALL = (...,)


class PlainKernels:
    """The kernels of one field; each is documented where it is compiled."""

    def __init__(self, elements: Any) -> None:  # noqa: ANN401  `field._kernels.Elements`, of arrays
        self._elements = elements

    def add(self, a: Words, b: Words, out: Words) -> None:
        for x, y, part in _parts(a, b, out):
            self._store(part, self._elements.plus(self._load(x), self._load(y)))

    def subtract(self, a: Words, b: Words, out: Words) -> None:
        for x, y, part in _parts(a, b, out):
            self._store(part, self._elements.minus(self._load(x), self._load(y)))

    def multiply(self, a: Words, b: Words, out: Words) -> None:
        for x, y, part in _parts(a, b, out):
            self._store(part, self._elements.times(self._load(x), self._load(y)))

    def dot(self, a: Words, b: Words, out: Words) -> None:
        word_shape = out.shape[2:]
        for x, y, part in _parts(a, b, out, depth=a.shape[2]):
            shape = np.broadcast_shapes(x.shape, y.shape)
            products = np.empty((*part.shape[:2], *shape[2:]), np.uint64)
            self._store(products, self._elements.times(self._load(x), self._load(y)))
            self._store(part, self._sum(products.reshape(*part.shape[:2], -1, *word_shape)))

    def add_rows(self, a: Words, num_rows: int, stride: int, out: Words) -> None:
        if not out.size:
            return
        word = a.itemsize
        width = out[0].size
        rows = as_strided(
            a,
            (len(out), num_rows, width),
            (num_rows * stride * word, stride * word, word),
            writeable=False,
        )
        both = [
            part.sum(axis=1, dtype=np.uint64) for part in (rows & _LOW_HALF, rows >> _HALF_WORD)
        ]
        words = out.reshape(len(out), width)
        low, high = (words & _LOW_HALF) + both[0], (words >> _HALF_WORD) + both[1]
        total = self._elements.sum_of_halves(
            self._load(low.reshape(out.shape)), self._load(high.reshape(out.shape))
        )
        self._store(out, total)

    def transform(self, a: Words, roots: Words, out: Words) -> None:
        size = a.shape[1]
        out[...] = a[:, _bit_reversed(size)]
        half = 1
        while half < size:
            blocks = out.reshape(len(out) * size // (2 * half), 2, half, *out.shape[2:])
            products = np.empty_like(blocks[:, 1])
            self.multiply(blocks[:, 1], roots[None, half : 2 * half], products)
            u = blocks[:, 0].copy()
            self.add(u, products, blocks[:, 0])
            self.subtract(u, products, blocks[:, 1])
            half *= 2

    def lagrange_basis(self, points: Words, start: Words, roots: Words, out: Words) -> None:
        size = out.shape[1]
        squares = [points[:, None]]
        while 1 << len(squares) < size:
            square = np.empty_like(squares[-1])
            self.multiply(squares[-1], squares[-1], square)
            squares.append(square)
        out[:, 0] = start[0]
        half, count = 1, size.bit_length() - 1
        while half < size:
            v = np.empty_like(out[:, :half])
            count -= 1
            self.multiply(squares[count], roots[None, half : 2 * half], v)
            u = out[:, :half].copy()
            self.multiply(u, v, v)
            self.add(u, v, out[:, :half])
            self.subtract(u, v, out[:, half : 2 * half])
            half *= 2

    def are_residues(self, a: Words, valid: Mask) -> None:
        valid[:] = self._elements.is_residue(self._load(a)).all(axis=1)

    def accept_residues(self, a: Words, out: Words, complete: Mask) -> None:
        length = out.shape[1]
        is_residue = self._elements.is_residue(self._load(a)).astype(np.bool_)
        # In nearly every row no candidate is dropped.
        first = a[:, :length]
        out[:, : first.shape[1]] = first
        complete[:] = a.shape[1] >= length
        for row in np.flatnonzero(~is_residue.all(axis=1)):
            accepted = a[row, is_residue[row]][:length]
            out[row, : len(accepted)] = accepted
            complete[row] = len(accepted) == length

    def _load(self, words: Words) -> Any:  # noqa: ANN401  a word, or several
        return self._elements.load(words, _ALL)

    def _store(self, out: Words, elements: object) -> None:
        self._elements.store(out, _ALL, elements)

    def _sum(self, words: Words) -> Any:  # noqa: ANN401  a word, or several
        """Return the sums along axis 2; fewer than 2^32 elements each."""
        low, high = (words & _LOW_HALF).sum(axis=2), (words >> _HALF_WORD).sum(axis=2)
        return self._elements.sum_of_halves(self._load(low), self._load(high))


def _parts(a: Words, b: Words, out: Words, depth: int = 1) -> Iterator[tuple[Words, Words, Words]]:
    """Yield operands and results of `_AT_ONCE` elements or so; an axis of length 1 is repeated."""
    rows, columns = out.shape[:2]
    across = max(1, min(columns, _AT_ONCE // max(1, depth)))
    down = max(1, _AT_ONCE // (across * max(1, depth)))
    for i in range(0, rows, down):
        for j in range(0, columns, across):
            part = slice(i, i + down), slice(j, j + across)
            x, y = (_cut(operand, *part) for operand in (a, b))
            yield x, y, out[part]


def _cut(operand: Words, rows: slice, columns: slice) -> Words:
    return operand[
        rows if operand.shape[0] > 1 else slice(None),
        columns if operand.shape[1] > 1 else slice(None),
    ]


def _bit_reversed(size: int) -> npt.NDArray[np.intp]:
    """Return for each position the one whose binary digits are those in reverse."""
    order = np.zeros(1, np.intp)
    while len(order) < size:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order
