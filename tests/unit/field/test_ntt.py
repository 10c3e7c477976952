import pytest

from field import Field, FieldError, ShapeError, Vector, ntt
from tests.support.residues import (
    FIELDS,
    edge_residues,
    random_residues,
    rows_to_ints,
    values_at_roots,
)

pytestmark = pytest.mark.parametrize("field", FIELDS, ids=str)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 32])
def test_the_transform_is_evaluation_at_the_powers_of_the_root(field: Field, size: int) -> None:
    rows = [random_residues(field, size, seed) for seed in range(3)]
    rows.append((edge_residues(field) * 2)[:size])
    values = ntt(Vector.from_ints(field, rows))
    assert rows_to_ints(values) == [values_at_roots(field, row, size) for row in rows]


def test_lengths_that_do_not_fit_are_refused(field: Field) -> None:
    with pytest.raises(ShapeError, match="power of two, got 3"):
        ntt(Vector.zeros(field, 3))
    with pytest.raises(ShapeError, match="power of two, got 6"):
        ntt(Vector.zeros(field, (2, 6)))
    with pytest.raises(ShapeError, match="power of two, got 0"):
        ntt(Vector.zeros(field, (2, 0)))
    with pytest.raises(FieldError, match="needs an axis"):
        ntt(Vector.zeros(field, ()))
