import pytest

from field import Field, FieldError, ResidueError, ShapeError, Vector, centre, lift, project
from tests.support.residues import FIELDS

pytestmark = pytest.mark.parametrize("field", FIELDS, ids=str)


def test_signed_integers_project_to_residues(field: Field) -> None:
    p = field.modulus
    assert project(field, [0, 1, -1, p, -p, p + 5, -(10**60)]).to_ints() == [
        0,
        1,
        p - 1,
        0,
        0,
        5,
        -(10**60) % p,
    ]
    assert project(field, []).shape == (0,)


def test_lifting_is_centred(field: Field) -> None:
    p = field.modulus
    residues = [0, 1, p - 1, p // 2, p // 2 + 1]
    assert lift(Vector.from_ints(field, residues)) == [0, 1, -1, p // 2, -(p // 2)]


def test_the_ends_of_the_interval_survive_and_larger_integers_wrap(field: Field) -> None:
    half = field.modulus // 2
    inside = [-half, -half + 1, half - 1, half]
    assert lift(project(field, inside)) == inside
    assert lift(project(field, [half + 1, -half - 1])) == [-half, half]
    assert centre(field, [half + 1, -half - 1, 10 * field.modulus - 3]) == [-half, half, -3]


def test_noise_added_in_the_field_is_noise_added_to_the_sum(field: Field) -> None:
    counts, noise = [100, 0, 7], [-30, -5, 12]
    noised = Vector.from_ints(field, counts) + project(field, noise)
    assert lift(noised) == [70, -5, 19]


def test_non_integers_and_vectors_that_are_not_rows_are_refused(field: Field) -> None:
    with pytest.raises(FieldError, match=f"only integers can be projected into {field.name}"):
        project(field, [1.0])  # type: ignore[list-item]  # the point of the test
    with pytest.raises(ShapeError, match="one axis"):
        lift(Vector.zeros(field, (2, 2)))
    with pytest.raises(ResidueError):
        Vector.from_ints(field, [-1])
