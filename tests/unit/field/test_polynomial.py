import pytest

from field import (
    Field,
    ShapeError,
    Vector,
    double_evaluations,
    extend_values_to_power_of_2,
    lagrange_basis,
    poly_eval,
    powers,
)
from tests.support.residues import FIELDS, evaluate, random_residues, rows_to_ints, values_at_roots

pytestmark = pytest.mark.parametrize("field", FIELDS, ids=str)


@pytest.mark.parametrize("size", [1, 2, 4, 16])
def test_each_row_is_evaluated_at_its_own_point(field: Field, size: int) -> None:
    rows, polys = 3, 2
    coefficients = [
        [random_residues(field, size, seed=10 * i + j) for j in range(polys)] for i in range(rows)
    ]
    points = random_residues(field, rows, seed=5)
    values = Vector.from_ints(
        field, [[values_at_roots(field, poly, size) for poly in row] for row in coefficients]
    )
    evaluated = poly_eval(values, Vector.from_ints(field, points))
    assert rows_to_ints(evaluated) == [
        [evaluate(field, poly, point) for poly in row]
        for row, point in zip(coefficients, points, strict=True)
    ]
    one_poly_a_row = poly_eval(values[:, 0], Vector.from_ints(field, points))
    assert one_poly_a_row == evaluated[:, 0]
    assert poly_eval(values[0, 0], Vector.from_ints(field, points[0])) == evaluated[0, 0]


def test_evaluation_is_correct_at_roots_of_unity_and_zero(field: Field) -> None:
    size = 8
    coefficients = random_residues(field, size, seed=6)
    values = Vector.from_ints(field, values_at_roots(field, coefficients, size))
    root = field.root_of_unity(size)
    points = [0, 1, field.modulus - 1, root, pow(root, 5, field.modulus), field.root_of_unity(16)]
    repeated = values.broadcast_to(len(points), size)
    evaluated = poly_eval(repeated, Vector.from_ints(field, points))
    assert evaluated.to_ints() == [evaluate(field, coefficients, point) for point in points]


def test_the_lagrange_basis_at_a_root_is_a_unit_vector(field: Field) -> None:
    root = field.root_of_unity(4)
    points = Vector.from_ints(field, [pow(root, k, field.modulus) for k in range(4)])
    identity = [[int(i == j) for j in range(4)] for i in range(4)]
    assert rows_to_ints(lagrange_basis(points, 4)) == identity


@pytest.mark.parametrize("size", [1, 2, 8])
def test_doubling_gives_the_values_at_the_root_of_twice_the_order(field: Field, size: int) -> None:
    coefficients = [random_residues(field, size, seed) for seed in (7, 8)]
    values = Vector.from_ints(field, [values_at_roots(field, row, size) for row in coefficients])
    assert rows_to_ints(double_evaluations(values)) == [
        values_at_roots(field, row, 2 * size) for row in coefficients
    ]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 9, 13, 31, 33])
def test_values_are_extended_to_a_power_of_two(field: Field, length: int) -> None:
    size = 1 << (length - 1).bit_length()
    coefficients = [random_residues(field, length, seed) for seed in (11, 12)]
    known = [values_at_roots(field, row, size, count=length) for row in coefficients]
    extended = extend_values_to_power_of_2(Vector.from_ints(field, known))
    assert rows_to_ints(extended) == [values_at_roots(field, row, size) for row in coefficients]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9])
def test_powers_start_with_the_point_itself(field: Field, count: int) -> None:
    points = [0, 1, *random_residues(field, 2, seed=13)]
    ours = powers(Vector.from_ints(field, points), count)
    assert rows_to_ints(ours) == [
        [pow(point, k, field.modulus) for k in range(1, count + 1)] for point in points
    ]


def test_shapes_that_do_not_fit_are_refused(field: Field) -> None:
    with pytest.raises(ShapeError, match="must begin with that of the points"):
        poly_eval(Vector.zeros(field, (3, 4)), Vector.zeros(field, 2))
    with pytest.raises(ShapeError, match="must begin with that of the points"):
        poly_eval(Vector.zeros(field, 4), Vector.zeros(field, 4))
    with pytest.raises(ShapeError, match="power of two, got 3"):
        poly_eval(Vector.zeros(field, (2, 3)), Vector.zeros(field, 2))
    with pytest.raises(ShapeError, match="power of two, got 5"):
        double_evaluations(Vector.zeros(field, 5))
    with pytest.raises(ShapeError, match="at least one value"):
        extend_values_to_power_of_2(Vector.zeros(field, (2, 0)))
    with pytest.raises(ShapeError, match="positive, got 0"):
        powers(Vector.zeros(field, 2), 0)
