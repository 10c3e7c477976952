"""Broadcasting two operands for a kernel of rows and columns."""

import dataclasses
import math

import numpy as np

from field.errors import ShapeError

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Alignment:
    """Two operands as rows and columns.

    `size` is the rows and columns of the common shape; those of an operand are each as in `size` or
    1. With `repeat` the operands must first be repeated to the common shape.
    """

    shape: Shape
    size: tuple[int, int]
    left: tuple[int, int]
    right: tuple[int, int]
    repeat: bool


def align(left: Shape, right: Shape) -> Alignment:
    """Broadcast two shapes to rows and columns, by numpy's rules.

    A kernel repeats an operand that has one row, one column or both. So the common shape is cut
    into leading axes (rows) and trailing axes (columns) such that each operand has all axes of a
    part or none of them. If no cut works, the operands must be repeated in memory. Raises
    `ShapeError` if the shapes cannot be broadcast.
    """
    try:
        shape = np.broadcast_shapes(left, right)
    except ValueError as error:
        raise ShapeError(f"shapes {left} and {right} cannot be broadcast together") from error
    for cut in range(len(shape) + 1):
        left_parts, right_parts = _parts(left, shape, cut), _parts(right, shape, cut)
        if left_parts and right_parts:
            size = (math.prod(shape[:cut]), math.prod(shape[cut:]))
            return Alignment(shape, size, left_parts, right_parts, repeat=False)
    size = (1, math.prod(shape))
    return Alignment(shape, size, size, size, repeat=True)


def _parts(own: Shape, shape: Shape, cut: int) -> tuple[int, int] | None:
    own = (1,) * (len(shape) - len(own)) + own
    rows, columns = math.prod(own[:cut]), math.prod(own[cut:])
    fits_rows = rows == 1 or own[:cut] == shape[:cut]
    fits_columns = columns == 1 or own[cut:] == shape[cut:]
    return (rows, columns) if fits_rows and fits_columns else None
