"""Integers from 0 to any maximum, as zeros and ones that cannot add up to more.

An integer is written with `bits = max.bit_length()` digits, 0 or 1. The weights are 1, 2, 4, ...
except for the last, which makes all weights add up to the maximum:

    last = max - (2^(bits - 1) - 1)

The other digits reach every integer up to 2^(bits - 1) - 1, and with the last digit set every
integer from `last` up to max. `last` is at most 2^(bits - 1), so there is no gap, and no choice of
digits exceeds max: checking the digits checks the range. Some integers can be written in two ways;
the last digit is set only where it must be.

Source:
    VDAF, "Prio3Sum".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from field import Field, Vector


def encode_range_checked(field: Field, values: npt.NDArray[np.uint64], largest: int) -> Vector:
    """Return the digits of integers, as `digits_of` does, in a field.

    Args:
        field: The field.
        values: Shape `(...)`, each from 0 to `largest`.
        largest: The maximum, below 2^64.

    Returns:
        Shape `(..., bits)`, each element 0 or 1.
    """
    from field import Vector

    return Vector.from_array(field, digits_of(values, largest))


def digits_of(values: npt.NDArray[np.uint64], largest: int) -> npt.NDArray[np.uint64]:
    """Return the digits of integers from 0 to `largest`: `(...)` to `(..., bits)`."""
    import numpy as np

    bits = largest.bit_length()
    reach = 2 ** (bits - 1) - 1
    # No branch on a measurement: the last digit is computed and multiplied in.
    last = (values > np.uint64(reach)).astype(np.uint64)
    rest = values - last * np.uint64(largest - reach)
    shifts = np.arange(bits - 1, dtype=np.uint64)
    digits = np.empty((*values.shape, bits), dtype=np.uint64)
    digits[..., :-1] = (rest[..., None] >> shifts) & np.uint64(1)
    digits[..., -1] = last
    return digits


def decode_range_checked(encoded: Vector, largest: int) -> Vector:
    """Return the integers that digits, or shares of digits, stand for: a linear function.

    Args:
        encoded: Shape `(..., bits)`.
        largest: The maximum.

    Returns:
        Shape `(...)`.
    """
    from field import Vector

    return encoded.dot(Vector.from_ints(encoded.field, weights(largest)))


def weights(largest: int) -> tuple[int, ...]:
    """Return the weights of the digits of an integer from 0 to `largest`."""
    bits = largest.bit_length()
    return (*(2**place for place in range(bits - 1)), largest - (2 ** (bits - 1) - 1))
