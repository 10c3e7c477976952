"""Sums over a batch, added in halves of words: at the largest residues, in any shape."""

import numpy as np
import pytest

from field import FIELD64, FIELD128, Field, FieldError, ShapeError, Vector
from tests.support.residues import rows_to_ints


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
@pytest.mark.parametrize(
    ("rows", "length"), [(0, 3), (1, 1), (3, 255), (1000, 257), (7, 700), (1000, 1), (333, 7)]
)
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


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
@pytest.mark.parametrize("length", [1, 3])
def test_short_rows_are_added_with_and_without_words_between_them(
    field: Field, length: int
) -> None:
    rng = np.random.default_rng(length)
    longer = Vector.from_array(field, rng.integers(0, 2**63, (100, length + 2)))
    apart = Vector(field, longer.words[:, :length])
    row = Vector.from_ints(field, [field.modulus - 1] * length)
    expected = [
        (sum(column) - 1) % field.modulus for column in zip(*rows_to_ints(apart), strict=True)
    ]
    assert row.plus_sum_of(apart).to_ints() == expected
    assert row.plus_sum_of(longer[:, :length]).to_ints() == expected


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
def test_a_batch_is_added_to_a_row_in_one_pass(field: Field) -> None:
    largest = Vector.from_ints(field, [[field.modulus - 1] * 2100] * 3)
    row = Vector.from_ints(field, [field.modulus - 1, *range(2099)])
    expected = [(number - 3) % field.modulus for number in row.to_ints()]
    before = row.to_ints()
    assert row.plus_sum_of(largest).to_ints() == expected
    assert row.plus_sum_of(largest[:0]) == row
    assert row.to_ints() == before


def test_rows_of_another_length_or_field_are_not_added() -> None:
    row = Vector.zeros(FIELD64, 3)
    with pytest.raises(ShapeError, match=r"cannot add the rows of \(2, 4\) to \(3,\)"):
        row.plus_sum_of(Vector.zeros(FIELD64, (2, 4)))
    with pytest.raises(ShapeError, match="cannot add"):
        Vector.zeros(FIELD64, (1, 3)).plus_sum_of(Vector.zeros(FIELD64, (2, 1, 3)))
    with pytest.raises(FieldError, match="different fields"):
        row.plus_sum_of(Vector.zeros(FIELD128, (2, 3)))
