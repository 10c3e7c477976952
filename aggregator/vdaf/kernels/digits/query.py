"""`verify_init` of Count and Sum as one kernel.

Both check digits in Field64, one per call: m^2 - m is zero for 0 and 1. Their gadgets have degree
two and one wire, which Count's has twice. As in `kernels.chunks.query`, whose notation is used
here, a kernel takes as many reports as there are lanes from bytes to verifier shares. There is no
joint randomness, and a wire takes the digits as they are.

Source:
    VDAF, "Querying the Proof".
"""

from typing import NamedTuple

from aggregator.vdaf.kernels.arrays import (
    IRREGULAR,
    NOT_A_RESIDUE,
    ROOT_OF_UNITY,
    SEED_WORDS,
    Inputs,
    Outputs,
    ShareMessages,
    store,
)
from aggregator.vdaf.kernels.polynomials import gadget_value, lagrange_bases
from aggregator.vdaf.kernels.shares import Scratch, ScratchOf, clear, draw_query_rand, expand_shares
from aggregator.vdaf.kernels.xof import SPONGE_ROWS
from field.lanes import (
    Bytes,
    Code,
    Integer,
    LaneWidth,
    Place,
    Table,
    Workspace,
    copy_words,
    cut,
    field64,
    inlined,
    kernel,
    operation,
    operation_over,
    rows_to_words,
)

# Places in the table of constants.
INVERSE_P = 0
"""1/p."""
ONE_HALF = 1
"""1/2."""
INVERSE_BETA = 2
"""1/beta."""
ONE = 3
"""1."""

_lagrange_bases = operation_over(field64.residues, lagrange_bases)
_gadget_value = operation_over(field64.residues, gadget_value)

# Rows of `Scratch.registers`.
TEST_POINT = 0
ODD_POINT = 1
TERM = 2
REGISTER_ROWS = 3


class Shape(NamedTuple):
    """The sizes that one kernel works with.

    Attributes:
        agg_id: The aggregator; 0 is the leader.
        num_calls: Digits of a measurement, one per call of the gadget.
        arity: Wires of the gadget, all of which carry the digit.
        log_p: The base-2 logarithm of p; p is at least 2.
        proof_len: Residues of a proof: a seed per wire, and the gadget polynomial's 2p - 1 values.
        is_minus_digit: Whether the gadget only squares, so that the circuit subtracts the digit.
    """

    agg_id: int
    num_calls: int
    arity: int
    log_p: int
    proof_len: int
    is_minus_digit: bool


class Tables(NamedTuple):
    """Constants, one word each.

    Attributes:
        constants: The constants named above.
        roots: Powers of 1/alpha, in the order of `lagrange_bases`.
        last_difference: beta^(i+1), for i from 0 to p - 2.
        weights: Weights of the digits.
    """

    constants: Table
    roots: Table
    last_difference: Table
    weights: Table


def scratch_rows(shape: Shape) -> ScratchOf[int]:
    """Return how many rows each lane array has."""
    p = 1 << shape.log_p
    return ScratchOf(
        sponge=SPONGE_ROWS,
        blank=SEED_WORDS + 1,
        share=shape.num_calls + shape.proof_len,
        query_rand=shape.num_calls + 1,
        powers=2 * (shape.log_p + 1),
        basis=p,
        odd_basis=p,
        registers=REGISTER_ROWS,
        result=shape.arity + 2,
        flags=1,
        head=0,
        joint_rand=0,
        joint_rand_limbs=0,
        wire_factors=0,
        odd_start=0,
        block=0,
    )


@kernel
def query_groups(
    width: LaneWidth,
    shape: Shape,
    tables: Tables,
    messages: ShareMessages,
    workspace: Workspace,
    nonces: Bytes,
    public_shares: Bytes,
    input_shares: Bytes,
    verifier_shares: Bytes,
    out_shares: Bytes,
    joint_rand_seeds: Bytes,
    flags: Bytes,
) -> None:
    """Fill in the outputs of all reports, as many at a time as there are lanes.

    Inputs and outputs are passed one by one: passing a named tuple takes as long as ten arrays.
    """
    inputs = Inputs(nonces, public_shares, input_shares)
    outputs = Outputs(verifier_shares, out_shares, joint_rand_seeds, flags)
    scratch: Scratch = cut(width, workspace)
    registers, share, result = scratch.registers, scratch.share, scratch.result
    for first in range(0, nonces.shape[0], len(width)):
        clear(width, scratch.flags)
        if shape.agg_id == 0:
            _load_share(width, shape, inputs.input_shares, first, scratch)
        else:
            expand_shares(
                width,
                messages,
                inputs.input_shares,
                first,
                shape.num_calls,
                shape.proof_len,
                scratch,
            )
            field64.flag_not_residues(
                width, scratch.flags, share, shape.num_calls + shape.proof_len, IRREGULAR
            )
        # If there are several outputs, each has a weight; the residue after them is the test point.
        length = shape.num_calls + 1 if shape.num_calls > 1 else 1
        draw_query_rand(width, messages, inputs.nonces, first, length, scratch)
        field64.flag_not_residues(width, scratch.flags, scratch.query_rand, length, IRREGULAR)
        _prepare_bases(width, shape, tables, length - 1, scratch)
        _evaluate_wires(width, shape, scratch)
        _evaluate_gadget(width, shape, tables, scratch)
        _evaluate_circuit(width, shape, scratch)
        store(width, outputs.verifier_shares, first, result, 0, scratch.block)
        field64.dot_constants(width, (registers, TERM), tables.weights, share, shape.num_calls)
        store(width, outputs.out_shares, first, registers, TERM, scratch.block)
        store(width, outputs.flags, first, scratch.flags, 0, scratch.block)


@inlined
def _load_share(
    width: LaneWidth, shape: Shape, input_shares: Bytes, first: int, scratch: Scratch
) -> None:
    """Bring the leader's measurement share and proof share into lanes; check every residue."""
    size = input_shares.shape[1]
    length = shape.num_calls + shape.proof_len
    rows_to_words(width, scratch.share, 0, input_shares, first * size, size, length)
    field64.flag_not_residues(width, scratch.flags, scratch.share, length, NOT_A_RESIDUE)


@inlined
def _prepare_bases(
    width: LaneWidth, shape: Shape, tables: Tables, test_point: int, scratch: Scratch
) -> None:
    """Evaluate L_k at t, the half basis at t/beta, and t^p; flag the lanes where t^p is 1."""
    registers, powers, log_p = scratch.registers, scratch.powers, shape.log_p
    constants, query_rand = tables.constants, scratch.query_rand
    copy_words(width, (registers, TEST_POINT), (query_rand, test_point), 1)
    field64.multiply_constant(
        width, (registers, ODD_POINT), (query_rand, test_point), (constants, INVERSE_BETA)
    )
    _lagrange_bases(
        width,
        basis=scratch.basis,
        odd_basis=scratch.odd_basis,
        powers=powers,
        points=(registers, TEST_POINT),
        inverse_p=(constants, INVERSE_P),
        roots=tables.roots,
        log_p=log_p,
    )
    field64.flag_equal(width, scratch.flags, (powers, log_p), 1, ROOT_OF_UNITY)


@inlined
def _evaluate_wires(width: LaneWidth, shape: Shape, scratch: Scratch) -> None:
    """Evaluate every wire polynomial at t, into the verifier from residue 1 on."""
    for wire in range(shape.arity):
        wire_value(
            width,
            out=(scratch.result, 1 + wire),
            basis=scratch.basis,
            seed=(scratch.share, shape.num_calls + wire),
            digits=scratch.share,
            num_calls=shape.num_calls,
        )


@operation
def wire_value(
    code: Code, out: Place, basis: Place, seed: Place, digits: Place, num_calls: Integer
) -> None:
    """Set `out` to a wire polynomial at t: its values are the seed, the digits, then zeros."""
    columns = code.variables(
        field64.with_product(field64.empty_sum(code), basis.load(), seed.load())
    )
    for index in code.repeat(num_calls):
        weight, digit = basis.moved(index + 1).load(), digits.moved(index).load()
        columns.store_many(field64.with_product(columns.load_many(), weight, digit))
    out.store(field64.reduced_sum(columns.load_many()))


@inlined
def _evaluate_gadget(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Evaluate the gadget polynomial at t, into the last residue of the verifier."""
    _gadget_value(
        width,
        out=(scratch.result, 1 + shape.arity),
        basis=scratch.basis,
        odd_basis=scratch.odd_basis,
        odd_point=(scratch.registers, ODD_POINT),
        power=(scratch.powers, shape.log_p),
        values=(scratch.share, shape.num_calls + shape.arity),
        last_difference=tables.last_difference,
        one=(tables.constants, ONE),
        half=(tables.constants, ONE_HALF),
        h=1 << shape.log_p >> 1,
    )


@inlined
def _evaluate_circuit(width: LaneWidth, shape: Shape, scratch: Scratch) -> None:
    """Reduce the circuit's outputs to one, residue 0 of the verifier."""
    share, result = scratch.share, scratch.result
    first = shape.num_calls + shape.arity + 2
    if shape.num_calls > 1:
        field64.dot(
            width,
            out=result,
            x=scratch.query_rand,
            x_step=1,
            y=(share, first),
            y_step=2,
            count=shape.num_calls,
        )
    else:
        copy_words(width, result, (share, first), 1)
    if shape.is_minus_digit:
        field64.subtract(width, result, result, share)
