"""Vectors to bytes and back, and uniform residues from a stream of bytes.

Elements are little-endian and of fixed size. Both fields fill their encoded size: the mask in the
draft's rejection sampling, the next power of two minus one, keeps every bit of an element.

Source: VDAF, "Finite Fields" and "Extendable Output Functions (XOFs)".
"""

import numpy as np
import numpy.typing as npt

from field._kernels import Mask, kernels
from field.errors import ResidueError, ShapeError
from field.fields import Field
from field.vector import Vector

Bytes = npt.NDArray[np.uint8]


def encode(vector: Vector) -> bytes:
    """Return the bytes of one row, or raise `ShapeError`."""
    if vector.ndim != 1:
        raise ShapeError(f"encode takes a vector with one axis, not shape {vector.shape}")
    return vector.words.astype("<u8", copy=False).tobytes()


def encode_rows(vector: Vector) -> Bytes:
    """Return the bytes of a batch of rows, shape `[rows, n * encoded_size]`.

    The result may share the vector's memory: read it, do not write into it. Raises `ShapeError` if
    the vector does not have exactly two axes.
    """
    if vector.ndim != 2:  # noqa: PLR2004  rows and columns
        raise ShapeError(f"encode_rows takes a vector with two axes, not shape {vector.shape}")
    rows, length = vector.shape
    little = np.ascontiguousarray(vector.words).astype("<u8", copy=False)
    return little.reshape(-1).view(np.uint8).reshape(rows, length * vector.field.encoded_size)


def decode(field: Field, data: bytes) -> Vector:
    """Return the row that these bytes encode.

    Raises `ShapeError` if the length is not a multiple of the encoded size; `ResidueError` if an
    element is not below the modulus.
    """
    vector, valid = decode_rows(field, np.frombuffer(data, np.uint8).reshape(1, len(data)))
    if not valid[0]:
        raise ResidueError(f"an encoded element is not below the modulus of {field}")
    return vector.reshape(-1)


def decode_rows(field: Field, data: Bytes) -> tuple[Vector, Mask]:
    """Return the batch of rows that these bytes encode.

    Args:
        field: The field.
        data: Shape `[rows, n * encoded_size]`.

    Returns:
        `rows` rows of n elements, and which of them are valid: a row with an element that is not
        below the modulus is invalid and all zero.

    Raises:
        ShapeError: There are not two axes, or a row's length is not a multiple of the encoded size.
    """
    if data.ndim != 2 or data.shape[1] % field.encoded_size:  # noqa: PLR2004  rows and bytes
        raise ShapeError(
            f"{field} decodes rows of {field.encoded_size}-byte elements, got {data.shape}"
        )
    rows, length = data.shape[0], data.shape[1] // field.encoded_size
    words = _words(data).reshape((rows, length, *field.word_shape))
    valid = np.empty(rows, np.bool_)
    kernels(field).are_residues(words, valid)
    words[~valid] = 0
    return Vector(field, words), valid


def sample_rows(field: Field, stream: Bytes, length: int) -> tuple[Vector, Mask]:
    """Return uniform residues from uniform bytes, by rejection.

    Each row takes the elements of its stream in order and drops those that are not below the
    modulus. One element in 2^32 is dropped for Field64, one in 2^59 for Field128. So a caller
    first gives `length` elements per row and, for the rare row that comes back incomplete, calls
    again with a longer stream of that row, which begins with the same bytes.

    Args:
        field: The field.
        stream: Shape `[rows, k * encoded_size]`, the beginning of each row's stream.
        length: How many residues each row needs.

    Returns:
        `rows` rows of `length` residues, and which of them are complete: a row whose stream held
        too few elements is all zero. If the bytes are independent and uniform, a complete row holds
        independent residues, each uniform on [0, p).

    Raises:
        ShapeError: There are not two axes, or a row's length is not a multiple of the encoded size.

    Source: VDAF, "Extendable Output Functions (XOFs)".
    """
    if stream.ndim != 2 or stream.shape[1] % field.encoded_size:  # noqa: PLR2004  rows and bytes
        raise ShapeError(
            f"{field} samples from rows of {field.encoded_size}-byte elements, got {stream.shape}"
        )
    rows, candidates = stream.shape[0], stream.shape[1] // field.encoded_size
    words = _words(stream).reshape((rows, candidates, *field.word_shape))
    chosen = np.zeros((rows, length, *field.word_shape), np.uint64)
    complete = np.empty(rows, np.bool_)
    kernels(field).accept_residues(words, chosen, complete)
    chosen[~complete] = 0
    return Vector(field, chosen), complete


def _words(data: Bytes) -> npt.NDArray[np.uint64]:
    # Always a copy: the vector must own its words, and the bytes may be read-only or unaligned.
    return np.ascontiguousarray(data).reshape(-1).view("<u8").astype(np.uint64)
