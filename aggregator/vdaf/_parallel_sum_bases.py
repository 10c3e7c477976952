"""The Lagrange bases at the test point and at the odd point, t and t/beta.

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
    load_constant,
    load_residue,
    multiply_constant,
    residue_at,
    to_limbs,
    to_words,
)
from field.limbs128 import limbs_in


@kernel
def prepare_bases(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Evaluate L_k at t and at t/beta, and t^p; flag the lanes in which that is 1."""
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
    """Evaluate L_k at two points, for all k from 0 to p - 1, and the points' powers x^(2^i).

    The sum over i of x^i is p at x = 1 and 0 at all other p-th roots of unity, so that

        L_k(t) = 1/p * sum over i < p of y^i = 1/p * product over b < log p of (1 + y^(2^b)),

    with y = t / alpha^k. The factor of b depends on k modulo p / 2^b only. From the last b to the
    first, a list of products thus doubles: if `size` of them are known, the next factor has the
    root alpha^(k * 2^b) for k < size, and its negative for k + size.

    The first root of each factor is 1 and is not multiplied by. The points take turns: one's
    products are computed while the other's are waited for.
    """
    builder, unit, limbs = code.builder, code.integer(1), limbs_in(code)
    streams = (
        (basis, powers),
        (odd_basis, residue_at(powers, builder.add(log_p, unit))),
    )
    for point, (_, place) in enumerate(streams):
        place.store_many(load_residue(points.moved(RESIDUE * point)))
    with code.repeat(log_p) as index:
        for _, place in streams:
            power = load_residue(residue_at(place, index))
            square = limbs.product(power, power)
            residue_at(place, index).moved(RESIDUE).store_many(square)
    last = builder.sub(log_p, unit)
    one = load_constant(inverse_p)
    for values, place in streams:
        term = limbs.product(load_residue(residue_at(place, last)), one)
        _store_pair(values, values.moved(RESIDUE), one, term)
    with code.repeat(last) as level:
        size = builder.shl(code.integer(2), level)
        level_roots = constant_at(roots, builder.sub(size, unit))
        step = builder.sub(builder.sub(last, unit), level)
        factors = [load_residue(residue_at(place, step)) for _, place in streams]
        for (values, _), factor in zip(streams, factors, strict=True):
            _multiply_pair(values, residue_at(values, size), factor)
        with code.repeat(builder.sub(size, unit)) as before:
            index = builder.add(before, unit)
            root = load_constant(constant_at(level_roots, index))
            for (values, _), factor in zip(streams, factors, strict=True):
                low = residue_at(values, index)
                _multiply_pair(low, residue_at(low, size), limbs.product(factor, root))


def _multiply_pair(low: Place, high: Place, factor: list[Word]) -> None:
    """Multiply the residue at `low` by 1 + factor into `low` and by 1 - factor into `high`."""
    residue = load_residue(low)
    _store_pair(low, high, residue, limbs_in(low.code).product(residue, factor))


def _store_pair(low: Place, high: Place, residue: list[Word], term: list[Word]) -> None:
    """Store residue + term and residue - term, folded: they stay below 2p."""
    plus, minus = limbs_in(low.code).plus_and_minus(residue, term)
    low.store_many(plus)
    high.store_many(minus)
