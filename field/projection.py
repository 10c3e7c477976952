"""Signed integers to residues and back.

`project` is the ring homomorphism from the integers to the field, so it wraps noise of any size
and sign into a share. `lift` takes the representative nearest to zero, which inverts `project` only
for integers in (-p/2, p/2). A caller that lifts a sum must know that it lies in that interval.
"""

import operator
from collections.abc import Iterable, Sequence

from field.errors import FieldError
from field.fields import Field
from field.vector import Vector


def project(field: Field, integers: Iterable[int]) -> Vector:
    """Return a row with the residues modulo p of signed integers of any size.

    Raises `FieldError` if a number is not an integer.
    """
    try:
        residues = [operator.index(integer) % field.modulus for integer in integers]
    except TypeError as error:
        raise FieldError(f"only integers can be projected into {field}") from error
    return Vector.from_ints(field, residues)


def lift(vector: Vector) -> list[int]:
    """Return the centred representative, in (-p/2, p/2), of every element of one row.

    Raises `ShapeError` if the vector does not have exactly one axis.
    """
    return centre(vector.field, vector.to_ints())


def centre(field: Field, integers: Sequence[int]) -> list[int]:
    """Return for each integer the one in (-p/2, p/2) that is congruent to it modulo p."""
    half = field.modulus // 2
    return [(integer + half) % field.modulus - half for integer in integers]
