"""The gadget polynomial at the test point.

A step of `kernels.chunks.query`, whose notation is used here. What is computed is derived
in `kernels.digits.polynomials.gadget_value`: from the values G_i at beta^i come the sums
and the differences D_i of G_i and G_(i+p), from these D_(p-1) and with it the value that is
missing, and then

    G(t) = (1 + t^p)/2 * E(t) + (1 - t^p)/2 * O(t/beta).

E, which has the even values, is evaluated in the Lagrange basis, which the wires need anyway; O,
which has the odd ones, in the half basis.

Source:
    VDAF, "Querying the Proof".
"""

from collections.abc import Sequence

from aggregator.vdaf.kernels.chunks.arrays import (
    HALF,
    ODD_POINT,
    ONE,
    TEST_POWER,
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
    Variables,
    Word,
    field128,
    kernel,
    operation,
)

PAIRS_AT_ONCE = 128
"""Values of k whose products are summed before they are reduced.

`even` has two products for each, `last` one in each of two loops: 257 at most with what they begin
with, fewer than `MAX_PRODUCTS`.
"""


@kernel
def evaluate_gadget(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Evaluate the gadget polynomial at t, into the last residue of the verifier."""
    gadget_value(
        width,
        out=(scratch.result, field128.WORDS * (1 + 2 * shape.chunk_length)),
        basis=scratch.basis,
        odd_basis=scratch.odd_basis,
        odd_point=(scratch.registers, ODD_POINT),
        power=(scratch.registers, TEST_POWER),
        values=(scratch.share, field128.WORDS * (shape.meas_len + 2 * shape.chunk_length)),
        last_difference=tables.last_difference,
        one=(tables.constants, ONE),
        half=(tables.constants, HALF),
        h=1 << shape.log_p >> 1,
    )


@operation
def gadget_value(
    code: Code,
    out: Place,
    basis: Place,
    odd_basis: Place,
    odd_point: Place,
    power: Place,
    values: Place,
    last_difference: Scalars,
    one: Scalars,
    half: Scalars,
    h: Integer,
) -> None:
    """Set `out` to the encoding of G(t).

    Args:
        code: Where the instructions go.
        out: Where the encoding goes.
        basis: L_k(t).
        odd_basis: The half basis at t/beta.
        odd_point: t/beta.
        power: t^p.
        values: G_i, encoded.
        last_difference: beta^(i+1) for i < p - 1.
        one: 1.
        half: 1/2.
        h: p/2.
    """
    limbs = field128.limbs_of(code)
    p = h << 1
    even, last = _sum_of_none(code), _sum_of_none(code)
    totals, differences = _sum_of_none(code), _sum_of_none(code)
    for first, count in code.parts(h, PAIRS_AT_ONCE):
        field128.reduce_unless_zero(first, (even, last), one)
        for index in code.repeat(count):
            k = first + index
            i = k << 1
            value, other = _values(values, i, p)
            _add_product(even, field128.load_residue(field128.residue_at(basis, k)), value)
            _add_product(even, field128.load_residue(field128.residue_at(basis, k + h)), other)
            weight = field128.load_constant(field128.constant_at(last_difference, i))
            _add_product(last, limbs.minus(value, other), weight)
    for first, count in code.parts(h - 1, PAIRS_AT_ONCE):
        field128.reduce_unless_zero(first, (totals, differences, last), one)
        for index in code.repeat(count):
            k = first + index
            i = (k << 1) + 1
            value, other = _values(values, i, p)
            difference = limbs.minus(value, other)
            _add_product(
                totals,
                field128.load_residue(field128.residue_at(odd_basis, k)),
                limbs.sum(value, other),
            )
            _add_product(
                differences,
                field128.load_residue(field128.residue_at(odd_basis, k + h)),
                difference,
            )
            weight = field128.load_constant(field128.constant_at(last_difference, i))
            _add_product(last, difference, weight)
    # The last pair, of which one value is missing: the sum is 2 * G_(p-1) - D_(p-1).
    k = h - 1
    value, difference = (
        field128.load_encoded(field128.encoded_at(values, p - 1)),
        limbs.reduced_sum(last.load_many()),
    )
    total = limbs.minus(limbs.plus(value, value), difference)  # 2 * G_(p-1) < 2p, for a residue.
    _add_product(totals, field128.load_residue(field128.residue_at(odd_basis, k)), total)
    _add_product(
        differences,
        field128.load_residue(field128.residue_at(odd_basis, k + h)),
        difference,
    )
    _add_product(
        totals, field128.load_residue(odd_point), limbs.reduced_sum(differences.load_many())
    )
    e, o = (limbs.reduced_sum(sums.load_many()) for sums in (even, totals))
    halves = field128.load_constant(half)
    columns = limbs.columns_of_product(halves, limbs.sum(e, o))
    scaled = limbs.product(field128.load_residue(power), halves)
    columns = limbs.added_product(columns, scaled, limbs.minus(e, o))
    out.store_many(limbs.encoded(limbs.reduced_sum(columns)))


def _sum_of_none(code: Code) -> Variables:
    return code.variables([code.constant(0)] * field128.limbs_of(code).columns)


def _values(values: Place, i: Integer, p: Integer) -> tuple[list[Word], list[Word]]:
    """Return the limbs of G_i and of G_(i+p)."""
    place = field128.encoded_at(values, i)
    return field128.load_encoded(place), field128.load_encoded(field128.encoded_at(place, p))


def _add_product(sums: Variables, x: Sequence[Word], y: Sequence[Word]) -> None:
    sums.store_many(field128.limbs_of(sums.code).added_product(sums.load_many(), x, y))
