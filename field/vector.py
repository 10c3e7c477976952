"""Residues of one field, in one row or a batch of rows.

A `Vector` is a value: nothing writes into its words once it is made, and operations return new
vectors. Kernels see bare arrays; callers need not know how many words an element has.
"""

import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided
from typing_extensions import override

from field._broadcast import align
from field._kernels import Mask, Words, kernels
from field.errors import FieldError, ResidueError, ShapeError
from field.fields import Field

Nested: TypeAlias = int | Sequence["Nested"]
Subscript: TypeAlias = (
    int | slice | EllipsisType | list[int] | npt.NDArray[np.integer] | npt.NDArray[np.bool_] | None
)


_WORD = np.dtype(np.uint64)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Vector:
    """Residues of one field, with any number of axes; the last runs along a row.

    Operations between vectors broadcast as numpy does. An `int` operand, which may be negative,
    stands for its residue; it should be public. Where shapes do not fit, operations raise
    `ShapeError`, and where fields differ `FieldError`.

    The constructor trusts its caller that every element is below the modulus: use `from_ints`,
    `from_array`, `field.decode` or `field.project` for anything else.

    Attributes:
        field: The field of all elements.
        words: A C-contiguous array of `uint64`, shape `shape` for Field64 and `(*shape, 2)` for
            Field128, low word first. Only the rows of a batch, a vector with two axes, may lie
            apart, each contiguous, as parts of longer rows.

    Raises:
        ShapeError: The array is not of this kind.
    """

    field: Field
    words: Words

    # Makes `array * vector` fail with a TypeError instead of an array of vectors.
    __array_ufunc__: ClassVar[None] = None

    def __post_init__(self) -> None:
        words, flags, word_shape = self.words, self.words.flags, self.field.word_shape
        axes = words.ndim - len(word_shape)
        if (
            words.dtype != _WORD
            or words.shape[axes:] != word_shape
            or not flags.aligned
            or not (flags.c_contiguous or (axes == 2 and _are_rows(words)))  # noqa: PLR2004  a batch
        ):
            raise ShapeError(
                f"{self.field} needs contiguous uint64 words with last axes "
                f"{word_shape}, got {words.dtype}{list(words.shape)}"
            )

    @classmethod
    def zeros(cls, field: Field, shape: int | tuple[int, ...]) -> "Vector":
        """Return a vector of zeros."""
        shape = (shape,) if isinstance(shape, int) else shape
        return cls(field, np.zeros(shape + field.word_shape, np.uint64))

    @classmethod
    def from_ints(cls, field: Field, numbers: Nested) -> "Vector":
        """Return a vector of public or small amounts of numbers, at Python's pace.

        Args:
            field: The field.
            numbers: An integer in [0, p), or sequences of such, nested to equal lengths.

        Raises:
            ResidueError: A number is not an integer in [0, p).
            ShapeError: The sequences differ in length.
        """
        shape, flat = _flatten(numbers)
        encoded = bytearray()
        for index, number in enumerate(flat):
            if not 0 <= number < field.modulus:
                raise ResidueError(f"number {index} of {len(flat)} is not in [0, p) of {field}")
            encoded += number.to_bytes(field.encoded_size, "little")
        words = np.frombuffer(encoded, "<u8").astype(np.uint64)
        return cls(field, words.reshape(shape + field.word_shape))

    @classmethod
    def from_array(cls, field: Field, numbers: npt.NDArray[np.integer]) -> "Vector":
        """Return a vector of 64-bit numbers, of the array's shape.

        Raises `ResidueError` if a number is negative, or not below the modulus.
        """
        if not np.issubdtype(numbers.dtype, np.integer):
            raise ResidueError(f"{field} holds integers, got an array of {numbers.dtype}")
        if numbers.size and (int(numbers.min()) < 0 or int(numbers.max()) >= field.modulus):
            raise ResidueError(f"the array has a number that is not in [0, p) of {field}")
        low = numbers.astype(np.uint64, order="C")
        if field.words == 1:
            return cls(field, low)
        words = np.zeros(numbers.shape + field.word_shape, np.uint64)
        words[..., 0] = low
        return cls(field, words)

    def packed(self) -> Words:
        """Return the words contiguous and writeable, as kernels need them; a copy if necessary."""
        return np.require(self.words, requirements=["C", "W"])

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes that hold elements, without the axis of an element's words."""
        return self.words.shape[: self.words.ndim - len(self.field.word_shape)]

    @property
    def ndim(self) -> int:
        """The number of axes that hold elements."""
        return self.words.ndim - len(self.field.word_shape)

    def to_ints(self) -> list[int]:
        """Return the residues of one row, each in [0, p)."""
        if self.ndim != 1:
            raise ShapeError(f"to_ints takes a vector with one axis, not shape {self.shape}")
        return self._flat_ints()

    def reshape(self, *shape: int) -> "Vector":
        """Return the same elements with other axes; one length may be -1."""
        try:
            words = np.ascontiguousarray(self.words)
            return Vector(self.field, words.reshape(shape + self.field.word_shape))
        except ValueError as error:
            raise ShapeError(f"cannot reshape {self.shape} to {shape}") from error

    def swapaxes(self, first: int, second: int) -> "Vector":
        """Return the elements with two axes exchanged."""
        first, second = self._axis(first), self._axis(second)
        return _from_elements(self.field, _elements(self).swapaxes(first, second))

    def broadcast_to(self, *shape: int) -> "Vector":
        """Return the elements repeated to a shape, by numpy's rules."""
        try:
            return _from_elements(self.field, np.broadcast_to(_elements(self), shape))
        except ValueError as error:
            raise ShapeError(f"cannot repeat {self.shape} to {shape}") from error

    def where(self, keep: Mask) -> "Vector":
        """Return the elements where `keep` is set and zero elsewhere.

        `keep` has booleans along the leading axes: one per row blanks whole rows.
        """
        if keep.shape != self.shape[: keep.ndim]:
            raise ShapeError(
                f"the shape {self.shape} must begin with that of the flags {keep.shape}"
            )
        trailing = (1,) * (self.words.ndim - keep.ndim)
        chosen = keep.astype(np.uint64).reshape(keep.shape + trailing)
        return Vector(self.field, self.words * chosen)

    def equals(self, other: "Vector | int") -> Mask:
        """Return where the elements equal those of `other`, in the common shape."""
        difference = (self - other).words
        words_axes = tuple(range(difference.ndim - len(self.field.word_shape), difference.ndim))
        return np.asarray(~difference.any(axis=words_axes), np.bool_)

    def sum(self, axis: int = -1) -> "Vector":
        """Return the sums along an axis, which is dropped; an empty sum is zero."""
        axis = self._axis(axis)
        before, after = self.shape[:axis], self.shape[axis + 1 :]
        total = Vector.zeros(self.field, before + after)
        outer, inner = math.prod(before), math.prod(after)
        words = _read_only(np.ascontiguousarray(self.words).reshape(-1))
        stride = inner * self.field.words
        kernels(self.field).add_rows(
            words, self.shape[axis], stride, _with_axes(total, outer, inner)
        )
        return total

    def plus_sum_of(self, rows: "Vector") -> "Vector":
        """Return the sum of this row and all rows of a batch, in one pass over the batch."""
        self._check_field(rows)
        if self.ndim != 1 or rows.words.shape[1:] != self.words.shape:
            raise ShapeError(f"cannot add the rows of {rows.shape} to {self.shape}")
        total = self.words.copy()
        words, stride = _flat_rows(rows.words)
        kernels(self.field).add_rows(words, len(rows), stride, total[None])
        return Vector(self.field, total)

    def dot(self, other: "Vector") -> "Vector":
        """Return the sums of products along the last axis, the others broadcast."""
        self._check_field(other)
        if not self.ndim or not other.ndim or self.shape[-1] != other.shape[-1]:
            raise ShapeError(f"cannot take the dot product of {self.shape} and {other.shape}")
        return _apply(kernels(self.field).dot, self, other, trailing=1)

    def __add__(self, other: "Vector | int") -> "Vector":
        return self._elementwise(kernels(self.field).add, other)

    def __radd__(self, other: int) -> "Vector":
        return self + other

    def __sub__(self, other: "Vector | int") -> "Vector":
        return self._elementwise(kernels(self.field).subtract, other)

    def __rsub__(self, other: int) -> "Vector":
        return self._residue(other) - self

    def __neg__(self) -> "Vector":
        return 0 - self

    def __mul__(self, other: "Vector | int") -> "Vector":
        return self._elementwise(kernels(self.field).multiply, other)

    def __rmul__(self, other: int) -> "Vector":
        return self * other

    def __pow__(self, exponent: int) -> "Vector":
        """Raise every element to the same public power, zero or more."""
        if exponent < 0:
            raise FieldError(f"the exponent must not be negative, got {exponent}")
        result = self._residue(1).broadcast_to(*self.shape)
        for digit in f"{exponent:b}" if exponent else "":
            result *= result
            if digit == "1":
                result *= self
        return result

    def __getitem__(self, subscript: Subscript | tuple[Subscript, ...]) -> "Vector":
        """Return chosen elements, by numpy's subscripts on the axes that hold elements."""
        subscripts = subscript if isinstance(subscript, tuple) else (subscript,)
        if not any(item is Ellipsis for item in subscripts):
            # Without it, integer subscripts on all axes would return a scalar, not an array.
            subscripts = (*subscripts, Ellipsis)
        return _from_elements(self.field, _elements(self)[subscripts])

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a vector without axes has no length")
        return self.shape[0]

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vector):
            return NotImplemented
        return self.field == other.field and np.array_equal(self.words, other.words)

    __hash__: ClassVar[None]  # type: ignore[assignment]  # equality by content, so no hash

    @override
    def __repr__(self) -> str:
        # Elements may be shares.
        return f"Vector({self.field}, shape={self.shape})"

    def _flat_ints(self) -> list[int]:
        if self.field.words == 1:
            return [int(word) for word in self.words.reshape(-1).tolist()]
        pairs = self.words.reshape(-1, 2)
        return [
            low | high << 64
            for low, high in zip(pairs[:, 0].tolist(), pairs[:, 1].tolist(), strict=True)
        ]

    def _axis(self, axis: int) -> int:
        if not -self.ndim <= axis < self.ndim:
            raise ShapeError(f"shape {self.shape} has no axis {axis}")
        return axis % self.ndim

    def _residue(self, number: int) -> "Vector":
        return Vector.from_ints(self.field, number % self.field.modulus)

    def _check_field(self, other: "Vector") -> None:
        if self.field is not other.field and self.field != other.field:
            raise FieldError(f"operands are of different fields: {self.field} and {other.field}")

    def _elementwise(
        self, kernel: Callable[[Words, Words, Words], None], other: "Vector | int"
    ) -> "Vector":
        if isinstance(other, int):
            other = self._residue(other)
        elif not isinstance(other, Vector):
            return NotImplemented
        self._check_field(other)
        return _apply(kernel, self, other, trailing=0)


def concat(vectors: Sequence[Vector], axis: int = -1) -> Vector:
    """Return vectors of one field joined along an axis."""
    field, axis = _common(vectors), vectors[0]._axis(axis)  # noqa: SLF001  this module's own class
    try:
        return _from_elements(field, np.concatenate([_elements(v) for v in vectors], axis=axis))
    except ValueError as error:
        shapes = [vector.shape for vector in vectors]
        raise ShapeError(f"cannot join shapes {shapes} along axis {axis}") from error


def stack(vectors: Sequence[Vector], axis: int = 0) -> Vector:
    """Return vectors of one field and shape side by side along a new axis."""
    field = _common(vectors)
    if not 0 <= axis <= vectors[0].ndim:
        raise ShapeError(f"the new axis must be 0 to {vectors[0].ndim}, got {axis}")
    try:
        return _from_elements(field, np.stack([_elements(v) for v in vectors], axis=axis))
    except ValueError as error:
        raise ShapeError(f"cannot stack {[vector.shape for vector in vectors]}") from error


def _common(vectors: Sequence[Vector]) -> Field:
    if not vectors:
        raise ShapeError("nothing to join")
    fields = {vector.field for vector in vectors}
    if len(fields) > 1:
        raise FieldError(f"vectors are of different fields: {sorted(map(str, fields))}")
    return fields.pop()


def _flatten(numbers: Nested) -> tuple[tuple[int, ...], list[int]]:
    if not isinstance(numbers, Sequence):
        try:
            return (), [operator.index(numbers)]
        except TypeError as error:
            raise ResidueError(f"a residue is an integer, got {type(numbers).__name__}") from error
    parts = [_flatten(part) for part in numbers]
    shapes = {shape for shape, _ in parts} or {()}
    if len(shapes) > 1:
        raise ShapeError(f"nested sequences differ in length: {sorted(shapes)}")
    return (len(parts), *shapes.pop()), [number for _, flat in parts for number in flat]


def _are_rows(words: Words) -> bool:
    """Return whether each row is contiguous, and the rows are in order and whole words apart."""
    stride = words.strides[0]
    return words[:1].flags.c_contiguous and stride >= 0 and stride % words.itemsize == 0


def _flat_rows(words: Words) -> tuple[Words, int]:
    """Return a batch's words from the first row's first to the last row's last, read-only.

    They include what lies between rows; also returned is the number of words from row to row.
    """
    length = math.prod(words.shape[1:])
    if words.flags.c_contiguous:
        return _read_only(words.reshape(-1)), length
    stride = words.strides[0] // words.itemsize
    shape = ((len(words) - 1) * stride + length,)
    return as_strided(words, shape, (words.itemsize,), writeable=False), stride


def _read_only(words: Words) -> Words:
    """Return a read-only view, because numba gives read-only and writeable arrays two types."""
    view = words.view()
    view.setflags(write=False)
    return view


def _with_axes(vector: Vector, *shape: int) -> Words:
    return vector.packed().reshape(shape + vector.field.word_shape)


def _elements(vector: Vector) -> npt.NDArray[np.generic]:
    """Return the elements as opaque items of an array of the vector's shape.

    No subscript splits such an item, and numpy copies items of 16 bytes several times as fast as
    pairs of words.
    """
    if vector.field.words == 1:
        return vector.words
    return vector.words.view(f"V{8 * vector.field.words}").reshape(vector.shape)


def _from_elements(field: Field, elements: npt.NDArray[np.generic]) -> Vector:
    # Repeated elements are a read-only view, but kernels are compiled only for writeable arrays.
    contiguous = np.require(elements, requirements=["C", "W"])
    words = contiguous.reshape(-1).view(np.uint64)
    return Vector(field, words.reshape(elements.shape + field.word_shape))


def _apply(
    kernel: Callable[[Words, Words, Words], None], left: Vector, right: Vector, trailing: int
) -> Vector:
    """Return a kernel's result for two operands, without their last `trailing` axes."""
    axes, tail = left.ndim - trailing, left.shape[left.ndim - trailing :]
    aligned = align(left.shape[:axes], right.shape[: right.ndim - trailing])
    if aligned.repeat:
        left, right = (operand.broadcast_to(*aligned.shape, *tail) for operand in (left, right))
    out = Vector(left.field, np.empty(aligned.shape + left.field.word_shape, np.uint64))
    kernel(
        _with_axes(left, *aligned.left, *tail),
        _with_axes(right, *aligned.right, *tail),
        _with_axes(out, *aligned.size),
    )
    return out
