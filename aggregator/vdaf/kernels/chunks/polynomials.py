"""The Lagrange basis at the test point t, the half basis at t/beta, and the gadget polynomial.

A step of `kernels.chunks.query`, whose notation is used here.
"""

from aggregator.vdaf.kernels.arrays import ROOT_OF_UNITY
from aggregator.vdaf.kernels.chunks.arrays import (
    HALF,
    INVERSE_BETA,
    INVERSE_P,
    ODD_POINT,
    ONE,
    TEST_POINT,
    TEST_POWER,
    TO_MONTGOMERY,
    Shape,
    Tables,
)
from aggregator.vdaf.kernels.polynomials import gadget_value, lagrange_bases
from aggregator.vdaf.kernels.shares import Scratch
from field.lanes import LaneWidth, copy_words, field128, kernel, operation_over

_lagrange_bases = operation_over(field128.residues, lagrange_bases)
_gadget_value = operation_over(field128.residues, gadget_value)


@kernel
def prepare_bases(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Evaluate L_k at t, the half basis at t/beta, and t^p; flag the lanes where t^p is 1."""
    registers, constants, log_p = scratch.registers, tables.constants, shape.log_p
    row = field128.WORDS * (shape.query_rand_len - 1)
    field128.to_limbs(width, (registers, ODD_POINT), (scratch.query_rand, row))
    field128.multiply_constant(
        width, (registers, TEST_POINT), (registers, ODD_POINT), (constants, TO_MONTGOMERY)
    )
    field128.multiply_constant(
        width, (registers, ODD_POINT), (registers, TEST_POINT), (constants, INVERSE_BETA)
    )
    _lagrange_bases(
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


@kernel
def evaluate_gadget(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Evaluate the gadget polynomial at t, into the last residue of the verifier."""
    _gadget_value(
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
