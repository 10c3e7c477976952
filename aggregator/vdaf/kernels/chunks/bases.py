"""The Lagrange basis at the test point t, and the half basis at the odd point t/beta.

A step of `kernels.chunks.query`, whose notation is used here.

Source:
    VDAF, "Lagrange Basis".
"""

from aggregator.vdaf.kernels.arrays import ROOT_OF_UNITY
from aggregator.vdaf.kernels.chunks.arrays import (
    INVERSE_BETA,
    INVERSE_P,
    ODD_POINT,
    TEST_POINT,
    TEST_POWER,
    TO_MONTGOMERY,
    Scratch,
    Shape,
    Tables,
)
from field.lanes import (
    Code,
    Integer,
    LaneWidth,
    Place,
    Scalars,
    Word,
    copy_words,
    field128,
    kernel,
    operation,
)


@kernel
def prepare_bases(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Evaluate L_k at t, the half basis at t/beta, and t^p; flag the lanes in which that is 1."""
    registers, constants, log_p = scratch.registers, tables.constants, shape.log_p
    row = 2 * field128.WORDS if shape.has_check else 0
    field128.to_limbs(width, (registers, ODD_POINT), (scratch.query_rand, row))
    field128.multiply_constant(
        width, (registers, TEST_POINT), (registers, ODD_POINT), (constants, TO_MONTGOMERY)
    )
    field128.multiply_constant(
        width, (registers, ODD_POINT), (registers, TEST_POINT), (constants, INVERSE_BETA)
    )
    lagrange_bases(
        width,
        basis=scratch.basis,
        odd_basis=scratch.odd_basis,
        powers=scratch.powers,
        points=(registers, TEST_POINT),
        inverse_p=(constants, INVERSE_P),
        roots=tables.roots,
        log_p=log_p,
    )
    copy_words(
        width, (registers, TEST_POWER), (scratch.powers, field128.RESIDUE * log_p), field128.RESIDUE
    )
    field128.to_words(width, scratch.result, (registers, TEST_POWER))
    field128.flag_equal(width, scratch.flags, scratch.result, tables.one, ROOT_OF_UNITY)


@operation
def lagrange_bases(
    code: Code,
    basis: Place,
    odd_basis: Place,
    powers: Place,
    points: Place,
    inverse_p: Scalars,
    roots: Scalars,
    log_p: Integer,
) -> None:
    """Evaluate the Lagrange basis at one point and the half basis at another, and their powers.

    The half basis is explained in `kernels.digits.polynomials`. The basis is L_k for all
    k < p, which takes one step more: L_k and L_(k+h) are A_k * (1 + y) and A_k * (1 - y). As there,
    a list of products doubles from the factor of the last b to that of b = 1, and the points take
    turns.

    `points` has both points in Montgomery form, as all is here; `powers` gets x^(2^i) for i from 0
    to log p, of the first point and then of the second.
    """
    limbs = field128.limbs_of(code)
    streams = (
        (basis, powers),
        (odd_basis, field128.residue_at(powers, log_p + 1)),
    )
    start = field128.load_constant(inverse_p)
    for point, (values, place) in enumerate(streams):
        place.store_many(field128.load_residue(points.moved(field128.RESIDUE * point)))
        values.store_many(start)
    for index in code.repeat(log_p):
        for _, place in streams:
            power = field128.load_residue(field128.residue_at(place, index))
            square = limbs.product(power, power)
            field128.residue_at(place, index).moved(field128.RESIDUE).store_many(square)
    last = log_p - 1
    for level in code.repeat(last):
        size = 1 << level
        step = last - level
        factors = [field128.load_residue(field128.residue_at(place, step)) for _, place in streams]
        for (values, _), factor in zip(streams, factors, strict=True):
            _multiply_pair(values, field128.residue_at(values, size), factor)
        for before in code.repeat(size - 1):
            index = before + 1
            root = field128.load_constant(_root_at(roots, size, index))
            for (values, _), factor in zip(streams, factors, strict=True):
                low = field128.residue_at(values, index)
                _multiply_pair(low, field128.residue_at(low, size), limbs.product(factor, root))
    half = 1 << last
    first = field128.load_residue(powers)
    _multiply_pair(basis, field128.residue_at(basis, half), first)
    field128.residue_at(odd_basis, half).store_many(field128.load_residue(odd_basis))
    for before in code.repeat(half - 1):
        index = before + 1
        root = field128.load_constant(_root_at(roots, half, index))
        low, odd = field128.residue_at(basis, index), field128.residue_at(odd_basis, index)
        _multiply_pair(low, field128.residue_at(low, half), limbs.product(first, root))
        field128.residue_at(odd, half).store_many(limbs.product(field128.load_residue(odd), root))


def _root_at(roots: Scalars, size: Integer, index: Integer) -> Scalars:
    """Return a root of the factor that doubles a list of `size` products; the first is 1."""
    return field128.constant_at(roots, size + index - 1)


def _multiply_pair(low: Place, high: Place, factor: list[Word]) -> None:
    """Multiply the residue at `low` by 1 + factor into `low` and by 1 - factor into `high`.

    Both are folded: they stay below 2p.
    """
    limbs, residue = field128.limbs_of(low.code), field128.load_residue(low)
    plus, minus = limbs.plus_and_minus(residue, limbs.product(residue, factor))
    low.store_many(plus)
    high.store_many(minus)
