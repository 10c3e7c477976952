"""No branch and no address of the field's kernels depends on an element.

Kernels run here on elements that have nothing in common, and must execute the same instructions at
the same addresses: see the README beside this file.
"""

from collections.abc import Callable

import numpy as np
import pytest

from field import FIELD64, FIELD128, Field, Vector, decode_rows, encode_rows, lagrange_basis, ntt
from field._kernels import kernels
from tests.constant_time.instruction_trace import Call, captured, differences

pytestmark = pytest.mark.usefixtures("_traced")

OPERATIONS: dict[str, Callable[[Vector], object]] = {
    "add": lambda a: a + a[::-1],
    "subtract": lambda a: a - a[::-1],
    "multiply": lambda a: a * a[::-1],
    "dot": lambda a: a.dot(a[::-1]),
    "add_rows": lambda a: a.sum(axis=0),
    "transform": ntt,
    "lagrange_basis": lambda a: lagrange_basis(a[0], 8),
    "are_residues": lambda a: decode_rows(a.field, encode_rows(a)),
}
"""An operation that calls each kernel."""


def elements(field: Field, seed: int) -> Vector:
    """Return random elements of all sizes, in four rows of eight."""
    rng = np.random.default_rng(seed)
    numbers = [int.from_bytes(rng.bytes(1 + index % 16), "little") for index in range(32)]
    return Vector.from_ints(field, [number % field.modulus for number in numbers]).reshape(4, 8)


def repeated(field: Field, numbers: list[int]) -> Vector:
    """Return the same few elements over and over."""
    return Vector.from_ints(field, (numbers * 32)[:32]).reshape(4, 8)


def call_of(field: Field, name: str, vector: Vector) -> Call:
    """Return the call of a kernel in an operation on a vector."""
    calls = captured([(kernels(field), name)], lambda: OPERATIONS[name](vector))
    return calls[0]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=lambda field: field.name)
def test_a_kernel_has_the_same_trace_for_all_elements(field: Field, name: str) -> None:
    largest = field.modulus - 1
    others = {
        "random": elements(field, 2),
        "zeros": repeated(field, [0]),
        "largest": repeated(field, [largest]),
        # Seven elements, so that they fall in different places of each row of eight.
        "mixed": repeated(field, [0, largest, 1, largest - 1, 2**63, 2**32, 2**32 - 1]),
    }
    calls = {key: call_of(field, name, vector) for key, vector in others.items()}
    assert differences(call_of(field, name, elements(field, 1)), calls) == []


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=lambda field: field.name)
def test_checking_for_residues_has_the_same_trace_for_all_numbers(field: Field) -> None:
    def call(data: bytes) -> Call:
        rows = np.frombuffer(data, np.uint8).reshape(4, 8 * field.encoded_size)
        (call,) = captured([(kernels(field), "are_residues")], lambda: decode_rows(field, rows))
        return call

    size = 32 * field.encoded_size
    modulus = field.modulus.to_bytes(field.encoded_size, "little")
    good = bytes(size)
    others = {
        "all": b"\xff" * size,
        "the first": modulus + good[len(modulus) :],
        "the last": good[len(modulus) :] + modulus,
    }
    assert differences(call(good), {key: call(data) for key, data in others.items()}) == []
