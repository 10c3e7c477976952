import numpy as np
import pytest

from field import (
    FIELD64,
    FIELD128,
    Field,
    FieldError,
    ResidueError,
    ShapeError,
    Vector,
    concat,
    encode_rows,
    stack,
)
from tests.support.residues import FIELDS, edge_residues, random_residues, rows_to_ints, to_int

pytestmark = pytest.mark.parametrize("field", FIELDS, ids=str)


def counting(field: Field, *shape: int) -> Vector:
    """Return 0, 1, 2, ... plus the largest residue, so that high words are used too."""
    size = int(np.prod(shape))
    numbers = [(field.modulus - 1 - k) if k % 2 else k for k in range(size)]
    return Vector.from_ints(field, numbers).reshape(*shape)


def as_array(vector: Vector) -> "np.ndarray[tuple[int, ...], np.dtype[np.object_]]":
    """Return the residues as an array of Python integers, for numpy as the oracle of shapes."""
    flat = np.empty(int(np.prod(vector.shape)), object)
    flat[:] = vector.reshape(-1).to_ints()
    return flat.reshape(vector.shape)


def test_integers_go_in_and_come_out(field: Field) -> None:
    numbers = edge_residues(field)
    vector = Vector.from_ints(field, numbers)
    assert vector.shape == (len(numbers),)
    assert len(vector) == len(numbers)
    assert vector.to_ints() == numbers
    assert rows_to_ints(Vector.from_ints(field, [numbers, numbers])) == [numbers, numbers]
    assert to_int(Vector.from_ints(field, 5)) == 5
    assert Vector.from_ints(field, []).to_ints() == []


def test_a_number_that_is_not_a_residue_is_refused(field: Field) -> None:
    for number in (-1, field.modulus, 2**200):
        with pytest.raises(ResidueError, match=f"number 1 of 2 is not in .* of {field.name}"):
            Vector.from_ints(field, [0, number])
    with pytest.raises(ResidueError, match="integer, got float"):
        Vector.from_ints(field, [1.5])  # type: ignore[list-item]  # the point of the test


def test_ragged_rows_are_refused(field: Field) -> None:
    with pytest.raises(ShapeError, match="differ in length"):
        Vector.from_ints(field, [[1, 2], [3]])


def test_arrays_of_machine_integers_go_in(field: Field) -> None:
    numbers = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    assert as_array(Vector.from_array(field, numbers)).tolist() == numbers.tolist()
    largest = np.array([2**64 - 2**32], np.uint64)
    assert Vector.from_array(field, largest).to_ints() == [2**64 - 2**32]
    assert Vector.from_array(field, numbers[:, :0]).shape == (2, 0, 4)
    with pytest.raises(ResidueError, match="not in"):
        Vector.from_array(field, np.array([3, -1]))
    with pytest.raises(ResidueError, match="float64"):
        Vector.from_array(field, np.array([0.5]))


def test_an_array_of_the_wrong_kind_is_refused(field: Field) -> None:
    for words in (
        np.zeros((4, *field.word_shape), np.int64),
        np.zeros((8, *field.word_shape), np.uint64)[::2],
        np.zeros((4, 3), np.uint64)[:, :3].T,
    ):
        with pytest.raises(ShapeError, match="contiguous uint64"):
            Vector(field, words)  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize("length", [1, 3, 4])
def test_rows_of_a_batch_may_be_parts_of_longer_rows(field: Field, length: int) -> None:
    whole = counting(field, 5, 7)
    apart = Vector(field, whole.words[:, 2 : 2 + length])
    together = whole[:, 2 : 2 + length]
    assert np.shares_memory(apart.words, whole.words)
    assert apart == together
    assert rows_to_ints(apart) == rows_to_ints(together)
    assert apart.sum(axis=0) == together.sum(axis=0)
    assert apart.sum(axis=1) == together.sum(axis=1)
    assert apart[1:3] == together[1:3]
    assert apart * apart - 3 == together * together - 3
    assert apart.where(np.arange(5) != 2) == together.where(np.arange(5) != 2)
    assert apart.packed().flags.c_contiguous
    assert apart.reshape(length, 5) == together.reshape(length, 5)
    assert apart.reshape(-1) == together.reshape(-1)
    row = counting(field, length)
    assert row.plus_sum_of(apart) == row.plus_sum_of(together)
    assert encode_rows(apart).tobytes() == encode_rows(together).tobytes()


def test_rows_that_run_backwards_or_lie_between_words_are_refused(field: Field) -> None:
    words = np.zeros((4, 3, *field.word_shape), np.uint64)
    between = np.zeros(words.nbytes + 1, np.uint8)[1:].view(np.uint64).reshape(words.shape)
    for wrong in (words[::-1], words[:, ::2], between[:, :2], between):
        with pytest.raises(ShapeError, match="contiguous uint64"):
            Vector(field, wrong)


def test_asking_for_integers_of_the_wrong_shape_is_refused(field: Field) -> None:
    vector = counting(field, 2, 3)
    with pytest.raises(ShapeError, match="one axis"):
        vector.to_ints()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((6,), (6,)),
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((3, 4), (3, 1)),
        ((3, 1), (1, 4)),
        ((3, 4), ()),
        ((2, 3, 4), (2, 1, 1)),
        ((2, 3, 4), (3, 4)),
        ((2, 3, 4), (2, 1, 4)),
        ((2, 1, 4), (1, 3, 1)),
        ((1, 3, 4), (2, 3, 1)),
        ((0, 4), (4,)),
        ((3, 0), (3, 1)),
    ],
)
def test_operands_broadcast_as_numpy_does(
    field: Field, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    a, b = counting(field, *left), counting(field, *right) + 3
    x, y, p = as_array(a), as_array(b), field.modulus
    for ours, theirs in ((a + b, x + y), (a - b, x - y), (b - a, y - x), (a * b, x * y)):
        expected = np.asarray(theirs, object) % p
        assert ours.shape == expected.shape
        assert as_array(ours).tolist() == expected.tolist()


def test_integers_stand_for_their_residues(field: Field) -> None:
    vector = counting(field, 5)
    numbers, p = vector.to_ints(), field.modulus
    assert (vector + 3).to_ints() == (3 + vector).to_ints() == [(n + 3) % p for n in numbers]
    assert (vector - (p + 2)).to_ints() == [(n - 2) % p for n in numbers]
    assert (-4 - vector).to_ints() == [(-4 - n) % p for n in numbers]
    assert (vector * -1).to_ints() == (-1 * vector).to_ints() == (-vector).to_ints()


def test_shapes_that_do_not_fit_are_refused(field: Field) -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(2,\) cannot be broadcast"):
        _ = counting(field, 2, 3) + counting(field, 2)
    with pytest.raises(ShapeError, match="dot product"):
        counting(field, 2, 3).dot(counting(field, 2))
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        counting(field, 2, 3).dot(counting(field, 4, 3))
    with pytest.raises(ShapeError, match="cannot reshape"):
        counting(field, 2, 3).reshape(4)
    with pytest.raises(ShapeError, match="cannot repeat"):
        counting(field, 2, 3).broadcast_to(2, 4)
    with pytest.raises(ShapeError, match="no axis 2"):
        counting(field, 2, 3).sum(2)
    with pytest.raises(ShapeError, match="cannot join"):
        concat([counting(field, 2, 3), counting(field, 3, 3)])
    with pytest.raises(ShapeError, match="cannot stack"):
        stack([counting(field, 2, 3), counting(field, 3, 3)])
    with pytest.raises(ShapeError, match="new axis"):
        stack([counting(field, 2)], axis=2)
    with pytest.raises(ShapeError, match="nothing to join"):
        concat([])


def test_the_two_fields_do_not_mix(field: Field) -> None:
    other = FIELD64 if field is FIELD128 else FIELD128
    a, b = counting(field, 2), counting(other, 2)
    with pytest.raises(FieldError, match="different fields"):
        _ = a + b
    with pytest.raises(FieldError, match="different fields"):
        a.dot(b)
    with pytest.raises(FieldError, match="different fields"):
        concat([a, b])
    assert a != b


def test_operands_of_other_types_are_refused(field: Field) -> None:
    vector = counting(field, 2)
    with pytest.raises(TypeError):
        _ = vector + "3"  # type: ignore[operator]  # the point of the test
    with pytest.raises(TypeError):
        _ = np.ones(2) * vector  # type: ignore[operator]  # the point of the test
    assert vector != [0, field.modulus - 2]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_sums_along_an_axis(field: Field, axis: int) -> None:
    vector = counting(field, 2, 3, 4)
    expected = as_array(vector).sum(axis=axis) % field.modulus
    assert as_array(vector.sum(axis)).tolist() == expected.tolist()
    assert vector[:, :0].sum(1) == Vector.zeros(field, (2, 4))


def test_dot_products_of_largest_elements(field: Field) -> None:
    numbers = [field.modulus - 1] * 1000 + edge_residues(field)
    vector = Vector.from_ints(field, numbers)
    assert to_int(vector.dot(vector)) == sum(n * n for n in numbers) % field.modulus
    assert to_int(vector[:0].dot(vector[:0])) == 0


@pytest.mark.parametrize(
    ("left", "right"),
    [((5,), (5,)), ((2, 5), (5,)), ((2, 3, 5), (2, 1, 5)), ((2, 1, 5), (1, 3, 5))],
)
def test_dot_products_broadcast_all_but_the_last_axis(
    field: Field, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    a, b = counting(field, *left), counting(field, *right)
    expected = np.asarray((as_array(a) * as_array(b)).sum(axis=-1) % field.modulus, object)
    ours = a.dot(b)
    assert ours.shape == expected.shape
    assert as_array(ours).tolist() == expected.tolist()


@pytest.mark.slow
def test_powers_of_elements(field: Field) -> None:
    numbers = edge_residues(field)
    vector, p = Vector.from_ints(field, numbers), field.modulus
    for exponent in (0, 1, 2, 5, 64, p - 2):
        assert (vector**exponent).to_ints() == [pow(n, exponent, p) for n in numbers]
    with pytest.raises(FieldError, match="negative, got -1"):
        _ = vector**-1


def test_subscripts_choose_elements_and_never_split_one(field: Field) -> None:
    vector = counting(field, 4, 3, 2)
    array = as_array(vector)
    mask = np.array([True, False, True, True])
    for subscript in (
        1,
        slice(1, 3),
        (slice(None), 2),
        (..., 1),
        (..., 0, slice(None, None, -1)),
        (slice(None), None, 1),
        mask,
        [2, 0],
        np.array([3, 3]),
        (3, 2, 1),
        (mask, slice(0, 2)),
    ):
        expected = np.asarray(array[subscript], object)
        ours = vector[subscript]
        assert ours.shape == expected.shape
        assert as_array(ours).tolist() == expected.tolist()
    with pytest.raises(IndexError):
        _ = vector[0, 0, 0, 0]


def test_axes_are_moved_and_joined(field: Field) -> None:
    vector = counting(field, 2, 3, 4)
    array = as_array(vector)
    assert as_array(vector.swapaxes(1, -1)).tolist() == array.swapaxes(1, 2).tolist()
    assert as_array(vector.reshape(6, -1)).tolist() == array.reshape(6, 4).tolist()
    assert concat([vector, vector[..., :1]]).shape == (2, 3, 5)
    assert concat([vector[:1], vector[1:]], axis=0) == vector
    assert stack([vector[:, 0], vector[:, 1], vector[:, 2]], axis=1) == vector
    assert stack([vector[..., k] for k in range(4)], axis=2) == vector


def test_rows_are_blanked(field: Field) -> None:
    vector = counting(field, 3, 2) + 1
    blanked = vector.where(np.array([True, False, True]))
    assert blanked[1] == Vector.zeros(field, 2)
    assert blanked[[0, 2]] == vector[[0, 2]]
    with pytest.raises(ShapeError, match=r"that of the flags \(2,\)"):
        vector.where(np.array([True, False]))


def test_equality_is_of_field_shape_and_elements(field: Field) -> None:
    vector = counting(field, 2, 3)
    assert vector == counting(field, 2, 3)
    assert vector != vector.reshape(3, 2)
    assert vector != vector + Vector.from_ints(field, [0, 0, 1])
    with pytest.raises(TypeError, match="unhashable"):
        hash(vector)


def test_elements_are_compared_one_by_one(field: Field) -> None:
    vector = Vector.from_ints(field, [[0, 1], [field.modulus - 1, 0]])
    assert vector.equals(0).tolist() == [[True, False], [False, True]]
    assert vector.equals(-1).tolist() == [[False, False], [True, False]]
    assert vector.equals(vector[0]).tolist() == [[True, True], [False, False]]
    assert vector[0, 0].equals(0).shape == ()


def test_a_vector_without_axes_has_no_length(field: Field) -> None:
    with pytest.raises(TypeError, match="no length"):
        len(Vector.zeros(field, ()))


def test_repr_shows_field_and_shape_and_no_element(field: Field) -> None:
    secret = random_residues(field, 6, seed=1)
    text = repr(Vector.from_ints(field, secret).reshape(2, 3))
    assert text == f"Vector({field.name}, shape=(2, 3))"
