"""Sums over a batch, whose words are added in halves: at the largest residues, in any shape."""

import numpy as np
import pytest

from field import FIELD64, FIELD128, Field, Vector


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
@pytest.mark.parametrize(("rows", "length"), [(0, 3), (1, 1), (3, 255), (1000, 257), (7, 700)])
def test_sums_over_reports_are_exact_at_the_largest_residues(
    field: Field, rows: int, length: int
) -> None:
    largest = Vector.from_ints(field, [[field.modulus - 1] * length] * rows or [[0] * length])
    batch = largest[:rows]
    assert batch.sum(axis=0).to_ints() == [-rows % field.modulus] * length


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
def test_sums_along_any_axis_are_those_of_integers(field: Field) -> None:
    rng = np.random.default_rng(5)
    numbers = [[int.from_bytes(rng.bytes(16), "little") % field.modulus for _ in range(300)]]
    numbers += [[field.modulus - 1 - number for number in numbers[0]], [2**32 - 1] * 300]
    batch = Vector.from_ints(field, numbers)
    columns = [sum(column) % field.modulus for column in zip(*numbers, strict=True)]
    assert batch.sum(axis=0).to_ints() == columns
    assert batch.sum(axis=1).to_ints() == [sum(row) % field.modulus for row in numbers]
