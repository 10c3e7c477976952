"""The steps of kernels, on words that no product of two residues may reach."""

import random
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from field import FIELD128, _elements128, lanes

WORDS = [0, 1, 27, 28, 2**32, 2**63, 2**64 // 28, 2**64 // 28 + 1, 2**64 - 28, 2**64 - 1]


@lanes.kernel
def multiply_wide(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    return lanes.multiply_wide(a, b)


@lanes.kernel
def add_carry(a: np.uint64, b: np.uint64, carry: np.uint64) -> tuple[np.uint64, np.uint64]:
    return lanes.add_carry(a, b, carry)


@lanes.kernel
def subtract_borrow(a: np.uint64, b: np.uint64, borrow: np.uint64) -> tuple[np.uint64, np.uint64]:
    return lanes.subtract_borrow(a, b, borrow)


@lanes.kernel
def opaque(word: np.uint64) -> np.uint64:
    return lanes.opaque(word)


Step = Callable[..., tuple[np.uint64, np.uint64]]


@pytest.mark.parametrize("step", [multiply_wide, lanes.multiply_wide], ids=["compiled", "python"])
def test_a_wide_product_is_exact(step: Step) -> None:
    for a, b in product(WORDS, repeat=2):
        low, high = step(np.uint64(a), np.uint64(b))
        assert int(low) + (int(high) << 64) == a * b


@pytest.mark.parametrize("step", [add_carry, lanes.add_carry], ids=["compiled", "python"])
def test_a_sum_with_its_carry_is_exact(step: Step) -> None:
    for a, b, carry in product(WORDS, WORDS, [0, 1]):
        low, high = step(np.uint64(a), np.uint64(b), np.uint64(carry))
        assert int(low) + (int(high) << 64) == a + b + carry


@pytest.mark.parametrize(
    "step", [subtract_borrow, lanes.subtract_borrow], ids=["compiled", "python"]
)
def test_a_difference_with_its_borrow_is_exact(step: Step) -> None:
    for a, b, borrow in product(WORDS, WORDS, [0, 1]):
        low, under = step(np.uint64(a), np.uint64(b), np.uint64(borrow))
        assert int(low) - (int(under) << 64) == a - b - borrow


@pytest.mark.parametrize("step", [opaque, lanes.opaque], ids=["compiled", "python"])
def test_an_opaque_word_is_unchanged(step: Callable[[np.uint64], np.uint64]) -> None:
    assert [int(step(np.uint64(word))) for word in WORDS] == WORDS


@lanes.kernel
def fold(z0: np.uint64, z1: np.uint64, z2: np.uint64, z3: np.uint64) -> tuple[np.uint64, np.uint64]:
    return _elements128._fold(z0, z1, z2, z3)


@pytest.mark.slow
def test_any_four_words_fold_to_their_residue_compiled_and_on_arrays() -> None:
    generator = random.Random(7)  # noqa: S311  test inputs
    near = [w + generator.randint(0, 3) - generator.randint(0, 3) for w in WORDS for _ in range(9)]
    chosen = [tuple(generator.choice(near) % 2**64 for _ in range(4)) for _ in range(20_000)]
    quadruples = [*product([0, 1, 28, 2**64 // 28, 2**64 - 28, 2**64 - 1], repeat=4), *chosen]
    columns = np.array(quadruples, np.uint64).T
    lows, highs = _elements128._fold(*columns)
    for words, array_low, array_high in zip(quadruples, lows, highs, strict=True):
        low, high = fold(*(np.uint64(word) for word in words))
        number = sum(word << 64 * k for k, word in enumerate(words))
        assert int(low) + (int(high) << 64) == number % FIELD128.modulus
        assert (array_low, array_high) == (low, high)
