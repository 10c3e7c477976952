import numpy as np
import pytest

from field import (
    FIELD64,
    FIELD128,
    Field,
    ResidueError,
    ShapeError,
    Vector,
    decode,
    decode_rows,
    encode,
    encode_rows,
    sample_rows,
)
from tests.support.residues import FIELDS, edge_residues, random_residues, rows_to_ints, to_int


def rows_of(
    field: Field, rows: list[list[int]]
) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]]":
    """Return rows of any integers that fit an element's bytes, encoded without a check."""
    size = field.encoded_size
    data = [b"".join(number.to_bytes(size, "little") for number in row) for row in rows]
    return np.frombuffer(b"".join(data), np.uint8).reshape(len(rows), -1)


def test_elements_are_little_endian() -> None:
    short = encode(Vector.from_ints(FIELD64, [1, 2**56]))
    assert short.hex(" ", 8) == "0100000000000000 0000000000000001"
    long = encode(Vector.from_ints(FIELD128, [2**64 + 2]))
    assert long.hex(" ", 8) == "0200000000000000 0100000000000000"


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_decoding_inverts_encoding(field: Field) -> None:
    numbers = edge_residues(field)
    vector = Vector.from_ints(field, numbers)
    data = encode(vector)
    assert data == rows_of(field, [numbers]).tobytes()
    assert decode(field, data) == vector
    rows = Vector.from_ints(field, [numbers, numbers[::-1]])
    again, valid = decode_rows(field, encode_rows(rows))
    assert again == rows
    assert valid.tolist() == [True, True]
    assert decode(field, b"") == Vector.zeros(field, 0)


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_an_element_not_below_the_modulus_is_refused(field: Field) -> None:
    p, top = field.modulus, 256**field.encoded_size - 1
    for number in (p, p + 1, (p + top) // 2, top - 1, top):
        with pytest.raises(ResidueError, match=f"not below the modulus of {field.name}") as caught:
            decode(field, rows_of(field, [[0, number, p - 1]]).tobytes())
        assert str(number) not in str(caught.value)
    assert decode(field, rows_of(field, [[p - 1]]).tobytes()).to_ints() == [p - 1]


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_a_bad_row_is_zero_and_the_others_are_decoded(field: Field) -> None:
    p = field.modulus
    data = rows_of(
        field, [[1, 2, p - 1], [3, p, 4], [5, 6, 7], [2 ** (8 * field.encoded_size) - 1] * 3]
    )
    vector, valid = decode_rows(field, data)
    assert valid.tolist() == [True, False, True, False]
    assert rows_to_ints(vector) == [[1, 2, p - 1], [0, 0, 0], [5, 6, 7], [0, 0, 0]]


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_a_length_that_is_not_a_multiple_is_refused(field: Field) -> None:
    with pytest.raises(ShapeError, match=f"{field.encoded_size}-byte"):
        decode(field, bytes(field.encoded_size + 1))
    with pytest.raises(ShapeError, match=f"{field.encoded_size}-byte"):
        decode_rows(field, np.zeros(field.encoded_size, np.uint8))
    with pytest.raises(ShapeError, match=f"{field.encoded_size}-byte"):
        sample_rows(field, np.zeros((2, field.encoded_size + 1), np.uint8), 1)
    with pytest.raises(ShapeError, match="one axis"):
        encode(Vector.zeros(field, (2, 2)))
    with pytest.raises(ShapeError, match="two axes"):
        encode_rows(Vector.zeros(field, 2))


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_decoding_does_not_keep_the_callers_memory(field: Field) -> None:
    data = bytearray(2 * field.encoded_size)
    rows = np.frombuffer(data, np.uint8).reshape(1, -1)
    vector, _ = decode_rows(field, rows)
    data[0] = 1
    assert vector == Vector.zeros(field, (1, 2))
    shifted = np.frombuffer(b"\0" + encode(Vector.from_ints(field, [5])), np.uint8)[1:]
    assert to_int(decode_rows(field, shifted.reshape(1, -1))[0]) == 5


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_sampling_takes_the_first_elements_below_the_modulus(field: Field) -> None:
    p, top = field.modulus, 256**field.encoded_size - 1
    stream = rows_of(
        field,
        [
            [10, 11, 12, 13, 14],
            [p, 21, top, 22, 23],
            [31, 32, p - 1, p, 34],
            [p, top, 41, p + 1, 42],
            [p, p, p, p, p],
        ],
    )
    vector, complete = sample_rows(field, stream, 3)
    assert complete.tolist() == [True, True, True, False, False]
    assert rows_to_ints(vector) == [
        [10, 11, 12],
        [21, 22, 23],
        [31, 32, p - 1],
        [0, 0, 0],
        [0, 0, 0],
    ]


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_a_longer_stream_completes_a_row_and_keeps_what_was_there(field: Field) -> None:
    p = field.modulus
    numbers = random_residues(field, 6, seed=2)
    candidates = [numbers[0], p, *numbers[1:3], p + 1, p, *numbers[3:]]
    stream = rows_of(field, [candidates])
    size = field.encoded_size
    for length, needed in ((1, 1), (2, 3), (3, 4), (4, 7), (6, 9)):
        _, complete = sample_rows(field, stream[:, : (needed - 1) * size], length)
        assert not complete[0]
        vector, complete = sample_rows(field, stream[:, : needed * size], length)
        assert complete[0]
        assert vector[0].to_ints() == numbers[:length]


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_an_empty_sample_needs_no_stream(field: Field) -> None:
    vector, complete = sample_rows(field, np.zeros((2, 0), np.uint8), 0)
    assert vector.shape == (2, 0)
    assert complete.all()
