"""The Lagrange basis at the test point t, and the half basis at the odd point t/beta.

A step of `aggregator.vdaf._parallel_sum`, whose notation is used here.

Source:
    VDAF, "Lagrange Basis".
"""

from aggregator.vdaf._kernel_arrays import ROOT_OF_UNITY
from aggregator.vdaf._parallel_sum_arrays import (
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
from field._jit import LaneWidth, kernel
from field.lanes import Code, Integer, Place, Scalars, Word, copy_words, operation
from field.lanes128 import (
    RESIDUE,
    WORDS,
    constant_at,
    flag_equal,
    limbs_in,
    load_constant,
    load_residue,
    multiply_constant,
    residue_at,
    to_limbs,
    to_words,
)


@kernel
def prepare_bases(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Evaluate L_k at t, the half basis at t/beta, and t^p; flag the lanes in which that is 1."""
    registers, constants, log_p = scratch.registers, tables.constants, shape.log_p
    row = 2 * WORDS if shape.has_check else 0
    to_limbs(width, registers, ODD_POINT, scratch.query_rand, row)
    multiply_constant(width, registers, TEST_POINT, registers, ODD_POINT, constants, TO_MONTGOMERY)
    multiply_constant(width, registers, ODD_POINT, registers, TEST_POINT, constants, INVERSE_BETA)
    lagrange_bases(
        width,
        scratch.basis,
        0,
        scratch.odd_basis,
        0,
        scratch.powers,
        0,
        registers,
        TEST_POINT,
        constants,
        INVERSE_P,
        tables.roots,
        0,
        log_p,
    )
    copy_words(width, registers, TEST_POWER, scratch.powers, RESIDUE * log_p, RESIDUE)
    to_words(width, scratch.result, 0, registers, TEST_POWER)
    flag_equal(width, scratch.flags, 0, scratch.result, 0, tables.one, 0, ROOT_OF_UNITY)


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

    The half basis is explained in `aggregator.vdaf._digit_polynomials`. The basis is L_k for all
    k < p, which takes one step more: L_k and L_(k+h) are A_k * (1 + y) and A_k * (1 - y). As there,
    a list of products doubles from the factor of the last b to that of b = 1, and the points take
    turns.

    `points` has both points in Montgomery form, as all is here; `powers` gets x^(2^i) for i from 0
    to log p, of the first point and then of the second.
    """
    builder, unit, limbs = code.builder, code.integer(1), limbs_in(code)
    streams = (
        (basis, powers),
        (odd_basis, residue_at(powers, builder.add(log_p, unit))),
    )
    start = load_constant(inverse_p)
    for point, (values, place) in enumerate(streams):
        place.store_many(load_residue(points.moved(RESIDUE * point)))
        values.store_many(start)
    with code.repeat(log_p) as index:
        for _, place in streams:
            power = load_residue(residue_at(place, index))
            square = limbs.product(power, power)
            residue_at(place, index).moved(RESIDUE).store_many(square)
    last = builder.sub(log_p, unit)
    with code.repeat(last) as level:
        size = builder.shl(unit, level)
        step = builder.sub(last, level)
        factors = [load_residue(residue_at(place, step)) for _, place in streams]
        for (values, _), factor in zip(streams, factors, strict=True):
            _multiply_pair(values, residue_at(values, size), factor)
        with code.repeat(builder.sub(size, unit)) as before:
            index = builder.add(before, unit)
            root = load_constant(_root_at(roots, size, index))
            for (values, _), factor in zip(streams, factors, strict=True):
                low = residue_at(values, index)
                _multiply_pair(low, residue_at(low, size), limbs.product(factor, root))
    half = builder.shl(unit, last)
    first = load_residue(powers)
    _multiply_pair(basis, residue_at(basis, half), first)
    residue_at(odd_basis, half).store_many(load_residue(odd_basis))
    with code.repeat(builder.sub(half, unit)) as before:
        index = builder.add(before, unit)
        root = load_constant(_root_at(roots, half, index))
        low, odd = residue_at(basis, index), residue_at(odd_basis, index)
        _multiply_pair(low, residue_at(low, half), limbs.product(first, root))
        residue_at(odd, half).store_many(limbs.product(load_residue(odd), root))


def _root_at(roots: Scalars, size: Integer, index: Integer) -> Scalars:
    """Return a root of the factor that doubles a list of `size` products; the first is 1."""
    builder, unit = roots.code.builder, roots.code.integer(1)
    return constant_at(roots, builder.sub(builder.add(size, index), unit))


def _multiply_pair(low: Place, high: Place, factor: list[Word]) -> None:
    """Multiply the residue at `low` by 1 + factor into `low` and by 1 - factor into `high`.

    Both are folded: they stay below 2p.
    """
    limbs, residue = limbs_in(low.code), load_residue(low)
    plus, minus = limbs.plus_and_minus(residue, limbs.product(residue, factor))
    low.store_many(plus)
    high.store_many(minus)
