"""Residues worth trying, and slow, obvious versions of the field's operations."""

import random
from collections.abc import Sequence

from field import FIELD64, FIELD128, Field, Vector

FIELDS = (FIELD64, FIELD128)


def edge_residues(field: Field) -> list[int]:
    """Return residues at which carries, borrows and folds go one way or the other."""
    p, words = field.modulus, 64 * field.words
    numbers = [0, 1, 2, 27, 28, 29, p - 1, p - 2, p - 28, p // 2, p // 2 + 1]
    for exponent in range(32, words + 1, 32):
        power = 1 << exponent
        numbers += [power - 1, power, power + 1, power - 28, p - power, 2**words - p - power]
    # Words of all ones, and the highest word that p allows.
    numbers += [2**words - 1 - (word << 64 * i) for i in range(field.words) for word in (1, 28, 29)]
    numbers += [p >> 32 << 32, (p >> 64 << 64) - 1, (1 << words) - p, (1 << words) - p - 1]
    return sorted({number % p for number in numbers})


def random_residues(field: Field, count: int, seed: int) -> list[int]:
    """Return uniform residues from a seeded generator."""
    generator = random.Random(seed)  # noqa: S311  test inputs
    return [generator.randrange(field.modulus) for _ in range(count)]


def evaluate(field: Field, coefficients: Sequence[int], point: int) -> int:
    """Return the value of a polynomial whose coefficients begin with the constant."""
    return sum(c * pow(point, k, field.modulus) for k, c in enumerate(coefficients)) % field.modulus


def values_at_roots(
    field: Field, coefficients: Sequence[int], size: int, count: int | None = None
) -> list[int]:
    """Return the first values of a polynomial at the powers of the root of unity of an order."""
    root = field.root_of_unity(size)
    return [
        evaluate(field, coefficients, pow(root, k, field.modulus))
        for k in range(size if count is None else count)
    ]


def rows_to_ints(rows: Vector) -> list[list[int]]:
    """Return the residues of a batch of rows."""
    return [rows[index].to_ints() for index in range(rows.shape[0])]


def to_int(element: Vector) -> int:
    """Return the residue of a vector with one element."""
    (residue,) = element.reshape(1).to_ints()
    return residue
