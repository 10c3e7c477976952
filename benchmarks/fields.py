"""Arithmetic of both fields beside Python's integers."""

import dataclasses

import numpy as np

from aggregator.entropy import SystemEntropy
from benchmarks.timing import Work, median_seconds
from field import Field, Vector, decode_rows, ntt, sample_rows

_PYTHON_LENGTH = 2_000
NTT_SIZE = 256


@dataclasses.dataclass(frozen=True, slots=True)
class FieldTimes:
    """Nanoseconds of processor time per element.

    Attributes:
        operation: The operation.
        ours: With our kernels.
        python: With Python's integers.
    """

    operation: str
    ours: float
    python: float

    @property
    def ratio(self) -> float:
        """How many times as long Python's integers take."""
        return self.python / self.ours


def time_field(field: Field, length: int, rounds: int) -> list[FieldTimes]:
    """Time arithmetic on long vectors.

    Args:
        field: The field.
        length: Elements per round, rounded down to a multiple of the transform's 256.
        rounds: Rounds; the medians count.
    """
    length = max(1, length // NTT_SIZE) * NTT_SIZE
    a, b = _random(field, length), _random(field, length)
    p, root = field.modulus, field.root_of_unity(NTT_SIZE)
    few = min(length, _PYTHON_LENGTH)
    x, y = a[:few].to_ints(), b[:few].to_ints()
    rows, row = a.reshape(-1, NTT_SIZE), a[:NTT_SIZE].to_ints()
    encoded = a.words.view(np.uint8).reshape(1, -1)
    strings = encoded[0, : few * field.encoded_size].tobytes()
    operations: dict[str, tuple[Work, Work, int]] = {
        "add": (lambda: a + b, lambda: [(u + v) % p for u, v in zip(x, y, strict=True)], few),
        "multiply": (lambda: a * b, lambda: [u * v % p for u, v in zip(x, y, strict=True)], few),
        "inner product": (
            lambda: a.dot(b),
            lambda: sum(u * v for u, v in zip(x, y, strict=True)) % p,
            few,
        ),
        f"transform of {NTT_SIZE}": (lambda: ntt(rows), lambda: _transform(row, root, p), NTT_SIZE),
        "decode": (
            lambda: decode_rows(field, encoded),
            lambda: _decoded(strings, field.encoded_size, p),
            few,
        ),
    }
    works = {}
    for name, (ours, python, _) in operations.items():
        works[name], works["python " + name] = ours, python
    seconds = median_seconds(works, rounds)
    return [
        FieldTimes(
            name, 1e9 * seconds[name] / length, 1e9 * seconds["python " + name] / python_length
        )
        for name, (_, _, python_length) in operations.items()
    ]


def _random(field: Field, length: int) -> Vector:
    size = (length + 8) * field.encoded_size
    stream = np.frombuffer(SystemEntropy().bytes(size), np.uint8).reshape(1, size)
    return sample_rows(field, stream, length)[0].reshape(-1)


def _transform(values: list[int], root: int, p: int) -> list[int]:
    """Return the values of a polynomial at the powers of a root, in plain Python."""
    if len(values) == 1:
        return values
    even = _transform(values[::2], root * root % p, p)
    odd = _transform(values[1::2], root * root % p, p)
    power, high, low = 1, [], []
    for u, v in zip(even, odd, strict=True):
        low.append((u + power * v) % p)
        high.append((u - power * v) % p)
        power = power * root % p
    return low + high


def _decoded(data: bytes, size: int, p: int) -> list[int]:
    numbers = [
        int.from_bytes(data[start : start + size], "little") for start in range(0, len(data), size)
    ]
    return [number for number in numbers if number < p]
