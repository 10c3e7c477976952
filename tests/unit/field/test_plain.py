"""The field's kernels without a compiler: the same words as compiled, at the edges too."""

import random

import numpy as np
import numpy.typing as npt
import pytest

from field import FIELD64, FIELD128, Field, Vector, _elements64, _elements128
from field._kernels import kernels
from field._plain import PlainKernels
from field.ntt import roots, size_inverse

Words = npt.NDArray[np.uint64]

PLAIN = {
    FIELD64.name: PlainKernels(_elements64),
    FIELD128.name: PlainKernels(_elements128),
}
FIELDS = pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)


def elements(field: Field, *shape: int) -> Words:
    source = random.Random(str(shape))  # noqa: S311  test inputs
    edges = [0, 1, 2**32, field.modulus - 2, field.modulus - 1]
    numbers = [
        source.choice(edges) if source.random() < 0.3 else source.randrange(field.modulus)
        for _ in range(int(np.prod(shape)))
    ]
    return Vector.from_ints(field, numbers).words.reshape(*shape, *field.word_shape).copy()


def agree(field: Field, name: str, *operands: Words, out: Words) -> None:
    compiled, plain = out.copy(), out.copy()
    getattr(kernels(field), name)(*operands, compiled)
    getattr(PLAIN[field.name], name)(*operands, plain)
    assert np.array_equal(plain, compiled)


@FIELDS
@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@pytest.mark.parametrize(
    ("left", "right", "out"),
    [
        ((3, 300), (3, 300), (3, 300)),
        ((1, 300), (3, 300), (3, 300)),
        ((3, 1), (1, 300), (3, 300)),
        pytest.param((2, 9000), (2, 9000), (2, 9000), marks=pytest.mark.slow),
        ((1, 1), (1, 1), (1, 1)),
        ((0, 4), (0, 4), (0, 4)),
    ],
)
def test_elements_are_combined_alike(
    field: Field, name: str, left: tuple[int, int], right: tuple[int, int], out: tuple[int, int]
) -> None:
    empty = np.empty((*out, *field.word_shape), np.uint64)
    agree(field, name, elements(field, *left), elements(field, *right)[::-1].copy(), out=empty)


@FIELDS
@pytest.mark.parametrize("depth", [0, 1, 33, pytest.param(9000, marks=pytest.mark.slow)])
def test_dot_products_are_alike(field: Field, depth: int) -> None:
    out = np.empty((2, 3, *field.word_shape), np.uint64)
    agree(field, "dot", elements(field, 2, 1, depth), elements(field, 1, 3, depth), out=out)


@FIELDS
@pytest.mark.parametrize(("rows", "stride"), [(5, 4), (20, 4), (7, 10), (0, 4)])
def test_sums_of_rows_are_alike(field: Field, rows: int, stride: int) -> None:
    words = elements(field, 20 * stride).reshape(-1)
    words.setflags(write=False)
    out = elements(field, 1, 4)
    compiled, plain = out.copy(), out.copy()
    kernels(field).add_rows(words, rows, stride * field.words, compiled)
    PLAIN[field.name].add_rows(words, rows, stride * field.words, plain)
    assert np.array_equal(plain, compiled)


@FIELDS
@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_transforms_and_lagrange_bases_are_alike(field: Field, size: int) -> None:
    out = np.empty((3, size, *field.word_shape), np.uint64)
    agree(field, "transform", elements(field, 3, size), roots(field, size).words, out=out)
    scale = size_inverse(field, size).words.reshape(1, *field.word_shape)
    inverse = roots(field, size, inverse=True).words
    agree(field, "lagrange_basis", elements(field, 3), scale, inverse, out=out)


@FIELDS
@pytest.mark.parametrize("length", [5, 8, 9, 11])
def test_candidates_are_accepted_alike(field: Field, length: int) -> None:
    words = elements(field, 5, 9)
    words[2, 3] = 2**64 - 1
    words[4, :2] = 2**64 - 1
    accepted = []
    for each in (kernels(field), PLAIN[field.name]):
        valid, complete = np.empty((2, 5), np.bool_)
        out = np.zeros((5, length, *field.word_shape), np.uint64)
        each.are_residues(words, valid)
        each.accept_residues(words, out, complete)
        assert valid.tolist() == [True, True, False, True, False]
        accepted.append((complete.tolist(), out[complete].tolist()))
    assert accepted[0] == accepted[1]
