"""The kernels against Python's integers, and what must hold for all inputs."""

import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from field import (
    FIELD64,
    FIELD128,
    Field,
    FieldError,
    Vector,
    decode,
    double_evaluations,
    encode,
    extend_values_to_power_of_2,
    lift,
    ntt,
    poly_eval,
    project,
    sample_rows,
)
from tests.support.residues import (
    FIELDS,
    edge_residues,
    evaluate,
    random_residues,
    rows_to_ints,
    to_int,
)

relaxed = settings(deadline=None, max_examples=60)  # the first example compiles kernels

fields = st.sampled_from(FIELDS)


@st.composite
def words_near_carries(draw: st.DrawFn, field: Field) -> int:
    """Return residues whose words are often 0, small, or nearly all ones."""
    number = 0
    for _ in range(field.words):
        small = draw(st.integers(0, 64))
        word = draw(st.sampled_from([small, 2**64 - 1 - small, 2**32 - small, 2**32 + small, None]))
        if word is None:
            word = draw(st.integers(0, 2**64 - 1))
        number = number << 64 | word % 2**64
    return number % field.modulus


def residues(field: Field) -> st.SearchStrategy[int]:
    return words_near_carries(field) | st.integers(0, field.modulus - 1)


def rows(field: Field, min_size: int = 1, max_size: int = 40) -> st.SearchStrategy[list[int]]:
    return st.lists(residues(field), min_size=min_size, max_size=max_size)


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_arithmetic_on_all_pairs_of_edge_residues_is_the_integers(field: Field) -> None:
    p = field.modulus
    pairs = list(product(edge_residues(field), repeat=2))
    left = Vector.from_ints(field, [a for a, _ in pairs])
    right = Vector.from_ints(field, [b for _, b in pairs])
    assert (left + right).to_ints() == [(a + b) % p for a, b in pairs]
    assert (left - right).to_ints() == [(a - b) % p for a, b in pairs]
    assert (left * right).to_ints() == [a * b % p for a, b in pairs]
    single_products = left.reshape(-1, 1).dot(right.reshape(-1, 1))
    assert single_products.to_ints() == [a * b % p for a, b in pairs]


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_products_with_any_pattern_of_words_are_the_integers(field: Field) -> None:
    # The reduction works on the words of the product, so products are chosen, and not factors:
    # a random left factor, and the right one that makes the product nearly what is wanted.
    generator = random.Random(6)  # noqa: S311  test inputs
    p = field.modulus
    pairs = []
    for _ in range(3000):
        wanted = 0
        for _ in range(2 * field.words):
            near = generator.choice([0, 2**64, 2**63, 2**64 // 28, 2**32])
            word = generator.choice([near + generator.randint(-40, 40), generator.getrandbits(64)])
            wanted = wanted << 64 | word % 2**64
        left = generator.randrange(p - p // 2**20, p)
        pairs.append((left, min(wanted // left, p - 1)))
    a = Vector.from_ints(field, [left for left, _ in pairs])
    b = Vector.from_ints(field, [right for _, right in pairs])
    assert (a * b).to_ints() == [left * right % p for left, right in pairs]


@relaxed
@given(st.data(), fields)
def test_arithmetic_is_the_integers_modulo_p(data: st.DataObject, field: Field) -> None:
    pairs = data.draw(st.lists(st.tuples(residues(field), residues(field)), min_size=1))
    p = field.modulus
    a = Vector.from_ints(field, [x for x, _ in pairs])
    b = Vector.from_ints(field, [y for _, y in pairs])
    assert (a + b).to_ints() == [(x + y) % p for x, y in pairs]
    assert (a - b).to_ints() == [(x - y) % p for x, y in pairs]
    assert (-a).to_ints() == [-x % p for x, _ in pairs]
    assert (a * b).to_ints() == [x * y % p for x, y in pairs]
    assert to_int(a.sum()) == sum(x for x, _ in pairs) % p
    assert to_int(a.dot(b)) == sum(x * y for x, y in pairs) % p


@relaxed
@given(st.data(), fields)
def test_decoding_is_the_inverse_of_encoding(data: st.DataObject, field: Field) -> None:
    numbers = data.draw(rows(field, min_size=0))
    vector = Vector.from_ints(field, numbers)
    assert decode(field, encode(vector)) == vector
    assert vector.to_ints() == numbers


@relaxed
@given(st.binary(max_size=100), fields)
def test_junk_decodes_to_what_encodes_to_it_or_is_refused(junk: bytes, field: Field) -> None:
    size = field.encoded_size
    elements = [int.from_bytes(junk[i : i + size], "little") for i in range(0, len(junk), size)]
    if len(junk) % size == 0 and all(element < field.modulus for element in elements):
        assert decode(field, junk).to_ints() == elements
        assert encode(decode(field, junk)) == junk
    else:
        with pytest.raises(FieldError):
            decode(field, junk)


@relaxed
@given(st.data(), fields)
def test_sampling_is_filtering(data: st.DataObject, field: Field) -> None:
    top = 256**field.encoded_size - 1
    candidate = st.one_of(st.integers(field.modulus - 2, top), residues(field))
    streams = data.draw(
        st.lists(st.lists(candidate, min_size=6, max_size=6), min_size=1, max_size=4)
    )
    length = data.draw(st.integers(0, 6))
    encoded = b"".join(
        number.to_bytes(field.encoded_size, "little") for stream in streams for number in stream
    )
    table = np.frombuffer(encoded, np.uint8).reshape(len(streams), -1)
    vector, complete = sample_rows(field, table, length)
    for stream, row, done in zip(streams, rows_to_ints(vector), complete, strict=True):
        accepted = [number for number in stream if number < field.modulus]
        assert done == (len(accepted) >= length)
        assert row == (accepted[:length] if done else [0] * length)


@pytest.mark.slow
@relaxed
@given(st.data(), fields, st.integers(0, 5))
def test_transforms_and_evaluation_agree(data: st.DataObject, field: Field, log_size: int) -> None:
    size = 1 << log_size
    coefficients = data.draw(rows(field, size, size))
    point = data.draw(residues(field))
    values = ntt(Vector.from_ints(field, coefficients))
    expected = evaluate(field, coefficients, point)
    where = Vector.from_ints(field, point)
    assert to_int(poly_eval(values, where)) == expected
    doubled = double_evaluations(values)
    assert to_int(poly_eval(doubled, where)) == expected
    assert to_int(poly_eval(doubled * doubled, where)) == expected**2 % field.modulus


@pytest.mark.slow
@relaxed
@given(st.data(), fields, st.integers(1, 40))
def test_extension_keeps_values_and_degree(data: st.DataObject, field: Field, length: int) -> None:
    values = Vector.from_ints(field, data.draw(rows(field, length, length)))
    extended = extend_values_to_power_of_2(values)
    assert extended[:length] == values
    # The transform of values has, but for order and a factor, the coefficients.
    assert ntt(extended)[1 : extended.shape[0] - length + 1].equals(0).all()


@relaxed
@given(st.data(), fields)
def test_lifting_is_the_inverse_of_projecting(data: st.DataObject, field: Field) -> None:
    half = field.modulus // 2
    near_the_ends = st.integers(0, 50).flatmap(
        lambda k: st.sampled_from([half - k, k - half, k, -k])
    )
    integers = data.draw(st.lists(near_the_ends | st.integers(-half, half)))
    assert lift(project(field, integers)) == integers
    residues_row = [integer % field.modulus for integer in integers]
    assert project(field, integers).to_ints() == residues_row
    assert project(field, lift(Vector.from_ints(field, residues_row))).to_ints() == residues_row


@relaxed
@given(st.lists(st.tuples(st.integers(), st.integers())), fields)
def test_projecting_is_a_ring_homomorphism(pairs: list[tuple[int, int]], field: Field) -> None:
    left, right = project(field, [a for a, _ in pairs]), project(field, [b for _, b in pairs])
    assert left + right == project(field, [a + b for a, b in pairs])
    assert left - right == project(field, [a - b for a, b in pairs])
    assert left * right == project(field, [a * b for a, b in pairs])


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
def test_a_sum_over_many_rows_is_the_integers(field: Field) -> None:
    numbers = random_residues(field, 5000, seed=14) + [field.modulus - 1] * 5000
    batch = Vector.from_ints(field, numbers).reshape(-1, 5)
    expected = [sum(numbers[k::5]) % field.modulus for k in range(5)]
    assert batch.sum(0).to_ints() == expected
