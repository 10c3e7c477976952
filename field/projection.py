"""Signed integers to residues and back.

`project` is the ring homomorphism from the integers to the field, so it wraps noise of any size
and any sign into a share. `lift` takes the representative nearest to zero: the inverse of
`project` for integers in (-p/2, p/2), and only for those. Whoever lifts a sum has to know that it
cannot have left that interval.
"""

import operator
from collections.abc import Iterable, Sequence

from field.errors import FieldError
from field.fields import Field
from field.vector import Vector


def project(field: Field, integers: Iterable[int]) -> Vector:
    """Return the residues modulo p of signed integers of any size, one row.

    Raises:
        FieldError: A number is no integer.
    """
    try:
        residues = [operator.index(integer) % field.modulus for integer in integers]
    except TypeError as error:
        raise FieldError(f"only integers project into {field}") from error
    return Vector.from_ints(field, residues)


def lift(vector: Vector) -> list[int]:
    """Return the centred representative, in (-p/2, p/2), of every element of one row.

    Raises:
        ShapeError: The vector does not have exactly one axis.
    """
    return centre(vector.field, vector.to_ints())


def centre(field: Field, integers: Sequence[int]) -> list[int]:
    """Return for each integer the one congruent to it modulo p in (-p/2, p/2)."""
    half = field.modulus // 2
    return [(integer + half) % field.modulus - half for integer in integers]
