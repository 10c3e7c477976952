"""`verify_init` of Count and Sum as one kernel.

Both check digits in Field64, one a call: m^2 - m is zero for 0 and 1. Their gadgets have degree two
and one wire, which Count's has twice. As in `aggregator.vdaf._parallel_sum`, whose notation is used
here, a kernel takes as many reports as there are lanes from bytes to verifier shares. There is no
joint randomness, and a wire at the test point is

    wire(t) = L_0(t) * seed + sum over k of L_k(t) * m_(k-1).

Source:
    VDAF, "Querying the Proof".
"""

from typing import NamedTuple

from aggregator.vdaf._kernel_arrays import (
    IRREGULAR,
    NOT_A_RESIDUE,
    ROOT_OF_UNITY,
    SEED_SIZE,
    Inputs,
    Outputs,
    copy_nonces,
    store,
)
from aggregator.vdaf._lane_xof import absorb_template, squeeze_words
from field._jit import LaneWidth, kernel
from field.lanes import (
    Bytes,
    LaneArray,
    Table,
    copy_rows,
    copy_words,
    rows_to_words,
)
from field.lanes64 import (
    butterfly,
    dot,
    dot_constants,
    double_basis,
    flag_equal,
    flag_not_residues,
    multiply,
    multiply_constant,
    subtract,
    sum_with_product,
)

# Places in the table of constants.
HALF = 0
"""1/2."""
INVERSE_P = 1
"""1/p."""
INVERSE_BETA = 2
"""1/beta."""

# Rows of `Scratch.registers`.
TEST_POINT = 0
TEST_POWER = 1
UNIT = 2
PLUS = 3
MINUS = 4
EVEN_VALUE = 5
ODD_VALUE = 6
TERM = 7
REGISTER_ROWS = 8


class Shape(NamedTuple):
    """The numbers that fix one kernel's work.

    Attributes:
        agg_id: The aggregator; 0 is the leader.
        num_calls: Digits of a measurement, one a call of the gadget.
        arity: Wires of the gadget, which all carry the digit.
        log_p: The logarithm of p, to base two.
        is_minus_digit: Whether the gadget squares only, and the circuit takes the digit away.
    """

    agg_id: int
    num_calls: int
    arity: int
    log_p: int
    is_minus_digit: bool


class Tables(NamedTuple):
    """Constants, one word each.

    Attributes:
        constants: The constants named above.
        roots: Powers of 1/alpha, in the order of `_lagrange_basis`.
        last_value: -beta^(i+1), for i from 0 to 2p - 2.
        weights: Weights of the digits.
    """

    constants: Table
    roots: Table
    last_value: Table
    weights: Table


class Messages(NamedTuple):
    """Messages of the XOF with blanks.

    Attributes:
        meas_share: Blank: the seed, at `seed_start`.
        proofs_share: Blank: the seed.
        query_rand: Blank: the nonce, at `nonce_start`.
        seed_start: In both.
        nonce_start: In `query_rand`.
    """

    meas_share: Bytes
    proofs_share: Bytes
    query_rand: Bytes
    seed_start: int
    nonce_start: int


class Scratch(NamedTuple):
    """Lane arrays for one group of reports, and a block of bytes.

    Attributes:
        sponge: See `aggregator.vdaf._lane_xof`.
        share: Measurement share, proof share, and room for one more residue.
        query_rand: Query randomness.
        powers: t^(2^i), then those of t/beta.
        basis: L_k(t).
        odd_basis: L_k(t/beta).
        registers: Residues named above.
        result: The verifier share.
        flags: One row.
        block: Bytes on their way to a row.
    """

    sponge: LaneArray
    share: LaneArray
    query_rand: LaneArray
    powers: LaneArray
    basis: LaneArray
    odd_basis: LaneArray
    registers: LaneArray
    result: LaneArray
    flags: LaneArray
    block: Bytes


@kernel
def query_groups(
    width: LaneWidth,
    shape: Shape,
    tables: Tables,
    messages: Messages,
    inputs: Inputs,
    outputs: Outputs,
    scratch: Scratch,
) -> None:
    """Fill in the outputs of all reports, as many at a time as there are lanes."""
    registers, share, result = scratch.registers, scratch.share, scratch.result
    for first in range(0, inputs.nonces.shape[0], len(width)):
        scratch.flags[:] = 0
        if shape.agg_id == 0:
            _load_share(width, shape, inputs.input_shares, first, scratch)
        else:
            _expand_share(width, shape, messages, inputs.input_shares, first, scratch)
        query = messages.query_rand
        copy_nonces(width, query, messages.nonce_start, inputs.nonces, first)
        # One residue reduces each output, if there are many, and the last is the test point.
        length = shape.num_calls + 1 if shape.num_calls > 1 else 1
        _expand(width, query, scratch.query_rand, 0, length, scratch)
        _prepare_bases(width, shape, tables, length - 1, scratch)
        _evaluate_wires(width, shape, scratch)
        _evaluate_gadget(width, shape, tables, scratch)
        _evaluate_circuit(width, shape, scratch)
        store(width, outputs.verifiers, first, result, 0, scratch.block)
        dot_constants(width, registers, TERM, tables.weights, 0, share, 0, shape.num_calls)
        copy_words(width, result, 0, registers, TERM, 1)
        store(width, outputs.out_shares, first, result, 0, scratch.block)
        store(width, outputs.flags, first, scratch.flags, 0, scratch.block)


@kernel
def _proof_len(shape: Shape) -> int:
    """Return the residues of a proof: a seed a wire, and the gadget polynomial's 2p - 1 values."""
    return shape.arity + (2 << shape.log_p) - 1


@kernel
def _load_share(
    width: LaneWidth, shape: Shape, input_shares: Bytes, first: int, scratch: Scratch
) -> None:
    """Bring the leader's shares of a measurement and its proof into lanes; check every residue."""
    size = input_shares.shape[1]
    length = shape.num_calls + _proof_len(shape)
    rows_to_words(width, scratch.share, 0, input_shares, first * size, size, length)
    flag_not_residues(width, scratch.flags, 0, scratch.share, 0, length, NOT_A_RESIDUE)


@kernel
def _expand_share(
    width: LaneWidth,
    shape: Shape,
    messages: Messages,
    input_shares: Bytes,
    first: int,
    scratch: Scratch,
) -> None:
    """Expand a helper's seed into its shares of a measurement and of its proof."""
    for message, row, length in (
        (messages.meas_share, 0, shape.num_calls),
        (messages.proofs_share, shape.num_calls, _proof_len(shape)),
    ):
        start, stride, size = messages.seed_start, message.shape[1], input_shares.shape[1]
        copy_rows(width, message, start, stride, input_shares, first * size, size, SEED_SIZE)
        _expand(width, message, scratch.share, row, length, scratch)


@kernel
def _expand(
    width: LaneWidth, message: Bytes, out: LaneArray, row: int, length: int, scratch: Scratch
) -> None:
    """Draw `length` residues from the stream of a message."""
    absorb_template(width, scratch.sponge, message)
    squeeze_words(width, scratch.sponge, out, row, length)
    flag_not_residues(width, scratch.flags, 0, out, row, length, IRREGULAR)


@kernel
def _prepare_bases(
    width: LaneWidth, shape: Shape, tables: Tables, test_point: int, scratch: Scratch
) -> None:
    """Evaluate L_k at t and at t/beta, and t^p; flag the lanes in which that is 1."""
    registers, powers = scratch.registers, scratch.powers
    copy_words(width, registers, TEST_POINT, scratch.query_rand, test_point, 1)
    _lagrange_basis(width, shape, tables, scratch.basis, scratch)
    last = shape.log_p - 1
    multiply(width, registers, TEST_POWER, powers, last, powers, last)
    flag_equal(width, scratch.flags, 0, registers, TEST_POWER, 1, ROOT_OF_UNITY)
    multiply_constant(
        width, registers, TEST_POINT, registers, TEST_POINT, tables.constants, INVERSE_BETA
    )
    _lagrange_basis(width, shape, tables, scratch.odd_basis, scratch)


@kernel
def _lagrange_basis(
    width: LaneWidth, shape: Shape, tables: Tables, basis: LaneArray, scratch: Scratch
) -> None:
    """Evaluate L_k at the point in `TEST_POINT`, for all k from 0 to p - 1.

    See `aggregator.vdaf._parallel_sum._lagrange_basis`.
    """
    powers = scratch.powers
    copy_words(width, powers, 0, scratch.registers, TEST_POINT, 1)
    for b in range(1, shape.log_p):
        multiply(width, powers, b, powers, b - 1, powers, b - 1)
    basis[0] = tables.constants[INVERSE_P]
    size = 1
    for b in range(shape.log_p - 1, -1, -1):
        double_basis(width, basis, 0, basis, size, powers, b, tables.roots, size - 1, size)
        size *= 2


@kernel
def _evaluate_wires(width: LaneWidth, shape: Shape, scratch: Scratch) -> None:
    """Evaluate every wire polynomial at t, into residues 1 and on of the verifier."""
    registers, share, basis = scratch.registers, scratch.share, scratch.basis
    dot(width, registers, TERM, basis, 1, 1, share, 0, 1, shape.num_calls)
    for wire in range(shape.arity):
        seed = shape.num_calls + wire
        sum_with_product(width, scratch.result, 1 + wire, basis, 0, share, seed, registers, TERM)


@kernel
def _evaluate_gadget(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Evaluate the gadget polynomial at t, into the last residue of the verifier.

    See `aggregator.vdaf._parallel_sum._evaluate_gadget`.
    """
    registers, share = scratch.registers, scratch.share
    p = 1 << shape.log_p
    values = shape.num_calls + shape.arity
    dot_constants(width, share, values + 2 * p - 1, tables.last_value, 0, share, values, 2 * p - 1)
    dot(width, registers, EVEN_VALUE, scratch.basis, 0, 1, share, values, 2, p)
    dot(width, registers, ODD_VALUE, scratch.odd_basis, 0, 1, share, values + 1, 2, p)
    registers[UNIT] = 1
    butterfly(
        width, registers, PLUS, registers, UNIT, registers, TEST_POWER, tables.constants, HALF
    )
    multiply(width, registers, TERM, registers, MINUS, registers, ODD_VALUE)
    last = 1 + shape.arity
    sum_with_product(
        width, scratch.result, last, registers, PLUS, registers, EVEN_VALUE, registers, TERM
    )


@kernel
def _evaluate_circuit(width: LaneWidth, shape: Shape, scratch: Scratch) -> None:
    """Reduce the circuit's outputs to one, residue 0 of the verifier."""
    share, result = scratch.share, scratch.result
    first = shape.num_calls + shape.arity + 2
    if shape.num_calls > 1:
        dot(width, result, 0, scratch.query_rand, 0, 1, share, first, 2, shape.num_calls)
    else:
        copy_words(width, result, 0, share, first, 1)
    if shape.is_minus_digit:
        subtract(width, result, 0, result, 0, share, 0)
