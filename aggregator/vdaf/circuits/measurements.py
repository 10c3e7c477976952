"""Checks measurements from a caller and turns them into machine integers.

A valid batch is checked as a whole; only a faulty one is searched, to say which measurement is
wrong.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from aggregator.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Measurement: TypeAlias = int | Sequence[int]


class MeasurementError(ParameterError):
    """A measurement that its type does not allow.

    The message names its place in the batch, the limit and what was given. It is raised only at the
    client, which knows the measurement already.

    Attributes:
        index: Its place in the batch, from 0.
        problem: What is wrong with it.
    """

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"measurement {index}: {problem}")
        self.index = index
        self.problem = problem

    def moved_by(self, start: int) -> MeasurementError:
        """Return the same error for a batch in which `start` measurements come first."""
        return MeasurementError(self.index + start, self.problem)


def integers(measurements: Sequence[Measurement], largest: int) -> npt.NDArray[np.uint64]:
    """Return a batch of integer measurements.

    Args:
        measurements: Anything that Python accepts as an index counts as an integer.
        largest: The largest value allowed, below 2^64; the smallest is 0.

    Returns:
        Shape `(num_measurements,)`.

    Raises:
        MeasurementError: One is not an integer from 0 to `largest`.
    """
    import numpy as np

    array = _array(measurements)
    if _is_in_order(array, (len(measurements),), largest):
        return array.astype(np.uint64)
    checked = [_integer(index, "it", value, largest) for index, value in enumerate(measurements)]
    return np.array(checked, dtype=np.uint64)


def vectors(
    measurements: Sequence[Measurement], length: int, largest: int
) -> npt.NDArray[np.uint64]:
    """Return a batch of measurements of `length` integers each.

    Args:
        measurements: Sequences of anything that Python accepts as an index.
        length: How many integers each has.
        largest: The largest value of one, below 2^64; the smallest is 0.

    Returns:
        Shape `(num_measurements, length)`.

    Raises:
        MeasurementError: One is not a sequence of `length` integers from 0 to `largest`.
    """
    import numpy as np

    array = _array(measurements)
    if _is_in_order(array, (len(measurements), length), largest):
        return array.astype(np.uint64)
    checked = [
        [
            _integer(index, f"entry {entry}", value, largest)
            for entry, value in enumerate(_sequence(index, measurement, length))
        ]
        for index, measurement in enumerate(measurements)
    ]
    return np.array(checked, dtype=np.uint64).reshape(len(measurements), length)


def sums(vectors: npt.NDArray[np.uint64], name: str, largest: int) -> npt.NDArray[np.uint64]:
    """Return the sum of each checked vector.

    Args:
        vectors: Shape `(num_measurements, length)`, each entry at most `largest`.
        name: What the type calls the sum, for the message.
        largest: The largest sum allowed, below 2^64.

    Returns:
        Shape `(num_measurements,)`.

    Raises:
        MeasurementError: A vector adds up to more than `largest`.
    """
    import numpy as np

    # Sum the high and the low halves of the words apart, so that nothing can wrap: a vector has
    # fewer than 2^32 entries.
    half = np.uint64(32)
    low = (vectors & np.uint64(2**32 - 1)).sum(axis=1, dtype=np.uint64)
    high = (vectors >> half).sum(axis=1, dtype=np.uint64) + (low >> half)
    low &= np.uint64(2**32 - 1)
    is_too_large = (high > np.uint64(largest >> 32)) | (
        (high == np.uint64(largest >> 32)) & (low > np.uint64(largest & 2**32 - 1))
    )
    for index in np.flatnonzero(is_too_large).tolist():
        given = (int(high[index]) << 32) + int(low[index])
        raise MeasurementError(index, f"its {name} must be at most {largest}, not {given}")
    total: npt.NDArray[np.uint64] = (high << half) | low
    return total


def _array(measurements: Sequence[Measurement]) -> npt.NDArray[np.generic]:
    """Return the measurements as an array of whatever kind they are."""
    import numpy as np

    try:
        return np.asarray(measurements)
    except (ValueError, TypeError, OverflowError):
        # Lists of different lengths, or things that are not numbers.
        return np.empty(0, dtype=object)


def _is_in_order(array: npt.NDArray[np.generic], shape: tuple[int, ...], largest: int) -> bool:
    """Return whether an array holds integers of the right shape and range."""
    if array.shape != shape or array.dtype.kind not in "biu" or array.size == 0:
        return False
    return int(array.min()) >= 0 and int(array.max()) <= largest


def _sequence(index: int, measurement: object, length: int) -> Sequence[object]:
    """Return a vector measurement as a sequence of the right length."""
    import numpy as np

    if isinstance(measurement, str | bytes) or not isinstance(measurement, Sequence | np.ndarray):
        raise MeasurementError(
            index, f"it must be a list of {length} integers, not {measurement!r}"
        )
    if len(measurement) != length:
        raise MeasurementError(index, f"it must have {length} entries, not {len(measurement)}")
    return measurement  # type: ignore[return-value]  # an array indexes and counts like a sequence


def _integer(index: int, subject: str, value: object, largest: int) -> int:
    """Return one integer of a measurement."""
    try:
        integer = operator.index(value)  # type: ignore[arg-type]  # the call is the check
    except TypeError:
        raise MeasurementError(
            index, f"{subject} must be an integer from 0 to {largest}, not {value!r}"
        ) from None
    if not 0 <= integer <= largest:
        raise MeasurementError(index, f"{subject} must be from 0 to {largest}, not {integer}")
    return integer
