"""The field of Curve25519 on lanes, against integers, at the bounds that limbs may reach."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field.lanes import Word, limbs51
from field.lanes.interpreter import Interpreter

MODULUS = 2**255 - 19
NEAR = 2**51 + 2**15
"""Every limb of an operand or a result is below it."""

Number = tuple[int, ...]
limb = st.one_of(st.integers(0, NEAR - 1), st.sampled_from([0, 1, 18, 19, 2**51 - 1, NEAR - 1]))
numbers = st.tuples(*[limb] * limbs51.COUNT)


def words(number: Sequence[int]) -> list[Word]:
    code = Interpreter(2, has_multiply_add=True)
    return [Word(code, np.array([each, 0], np.uint64)) for each in number]


def value(limbs: Sequence[Word]) -> int:
    """Return the number in the first lane, whose limbs have to be near ones."""
    found = [int(word.value[0]) for word in limbs]
    assert all(each < NEAR for each in found)
    return valued(found)


def valued(number: Sequence[int]) -> int:
    return sum(each << (limbs51.BITS * place) for place, each in enumerate(number))


OPERATIONS: dict[str, tuple[Callable[..., list[Word]], Callable[[int, int], int]]] = {
    "plus": (limbs51.plus, lambda x, y: x + y),
    "minus": (limbs51.minus, lambda x, y: x - y),
    "product": (limbs51.product, lambda x, y: x * y),
    "square": (lambda x, _: limbs51.square(x), lambda x, _: x * x),
    "plus_multiple": (
        lambda x, y: limbs51.plus_multiple(x, y, 121665),
        lambda x, y: x + 121665 * y,
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
@given(x=numbers, y=numbers)
def test_operations_are_those_of_integers_and_leave_near_limbs(
    name: str, x: Number, y: Number
) -> None:
    on_limbs, on_integers = OPERATIONS[name]
    expected = on_integers(valued(x), valued(y)) % MODULUS
    assert value(on_limbs(words(x), words(y))) % MODULUS == expected


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_largest_limbs_overflow_nothing(name: str) -> None:
    on_limbs, on_integers = OPERATIONS[name]
    x, y = [NEAR - 1] * 5, [NEAR - 1] * 5
    expected = on_integers(valued(x), valued(y)) % MODULUS
    assert value(on_limbs(words(x), words(y))) % MODULUS == expected


@given(x=numbers)
def test_an_encoding_is_of_the_one_number_below_the_modulus(x: Number) -> None:
    found = [int(word.value[0]) for word in limbs51.encoded(words(x))]
    assert sum(each << (64 * place) for place, each in enumerate(found)) == valued(x) % MODULUS


@pytest.mark.parametrize("number", [0, 18, MODULUS - 1, MODULUS, MODULUS + 17, MODULUS + 18])
def test_numbers_around_the_modulus_are_encoded(number: int) -> None:
    limbs = [number >> (51 * place) & (2**51 - 1) for place in range(5)]
    found = [int(word.value[0]) for word in limbs51.encoded(words(limbs))]
    assert sum(each << (64 * place) for place, each in enumerate(found)) == number % MODULUS


@given(number=st.integers(0, 2**256 - 1))
def test_the_highest_bit_of_an_encoding_does_not_count(number: int) -> None:
    encoded = [number >> (64 * place) & (2**64 - 1) for place in range(4)]
    assert value(limbs51.split(words(encoded))) == number % 2**255
