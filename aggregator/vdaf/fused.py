"""`query`: a fused kernel for circuits that have one, the general function for all others.

A fused kernel takes reports from bytes to verifier shares side by side, as many as the processor
has lanes. It decides nothing that is rare: it flags a report whose XOF stream held a number that is
no residue, or whose test point is a root of unity, and such a report is computed again by
`aggregator.vdaf.verification.query_shares`, the definition of both.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.vdaf import _parallel_sum as kernels
from aggregator.vdaf import flp
from aggregator.vdaf._lane_xof import Template, new_sponge, open_template, template
from aggregator.vdaf.circuits import (
    BitVectorCircuit,
    Circuit,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    SumVec,
)
from aggregator.vdaf.circuits.range_checked import decode_range_checked
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.verification import QueriedShares, ReportShares, query_shares
from aggregator.vdaf.xof import (
    SEED_SIZE,
    TURBOSHAKE_DOMAIN,
    USAGE_JOINT_RAND_PART,
    USAGE_JOINT_RAND_SEED,
    USAGE_JOINT_RANDOMNESS,
    USAGE_MEAS_SHARE,
    USAGE_PROOF_SHARE,
    USAGE_QUERY_RANDOMNESS,
    ByteRows,
    domain_separation_tag,
)
from field import FIELD128, Vector, encode_rows
from field._jit import LaneWidth, lane_width
from field.lanes import LaneArray, new_lane_array
from field.lanes128 import (
    COLUMNS,
    LIMBS,
    MAX_WEIGHT,
    RADIX,
    WORDS,
    constant_table,
    montgomery_table,
)

Words: TypeAlias = npt.NDArray[np.uint64]

ENCODED_SIZE = FIELD128.encoded_size

MAX_SCRATCH = 48 * 2**20
"""Bytes of scratch above which fewer lanes are used: a long report fills the memory by itself."""


def is_fused(parameters: Parameters) -> bool:
    """Return whether a fused kernel verifies this Prio3."""
    return (
        isinstance(parameters.circuit, BitVectorCircuit)
        and parameters.field is FIELD128
        and parameters.num_proofs == 1
    )


def working_size(parameters: Parameters, agg_id: int) -> int:
    """Return about how many bytes one report needs besides its out share."""
    shares = parameters.input_share_size(agg_id) + parameters.public_share_size
    if is_fused(parameters):
        return shares + 2 * parameters.verifier_share_size
    return shares + flp.working_size(parameters.circuit)


def query(
    parameters: Parameters,
    shares: ReportShares,
    out_shares: Words,
    *,
    width: LaneWidth | None = None,
) -> QueriedShares:
    """Return what `verification.query_shares` returns, by a fused kernel if there is one.

    A kernel holds no Python lock while it runs, and its memory does not grow with the batch.

    Args:
        parameters: The Prio3.
        shares: Any number of reports.
        out_shares: Where the words of the out shares go, shape `(rows, output_len)` and the words
            of an element: the result's `out_shares` is this array.
        width: How many lanes; by default as many as the processor has and memory allows.
    """
    if not is_fused(parameters):
        queried = query_shares(parameters, shares)
        out_shares[...] = queried.out_shares.words
        return queried
    plan = _plan(parameters, shares.agg_id)
    width = plan.width if width is None else width
    lanes, rows = len(width), len(shares)
    messages = _messages(parameters, shares, lanes)
    scratch = _scratch(plan.shape, lanes, messages.joint_rand_part.shape[1])
    outputs = _outputs(parameters, rows, out_shares)
    whole = rows - rows % lanes
    _run(width, plan, messages, shares.rows(slice(0, whole)), _first(outputs, whole), scratch)
    if whole < rows:
        # The lanes that are left over at the end repeat the last report.
        chosen = np.minimum(np.arange(whole, whole + lanes), rows - 1)
        found = _outputs(parameters, lanes, np.empty((lanes, *out_shares.shape[1:]), np.uint64))
        _run(width, plan, messages, shares.rows(chosen), found, scratch)
        for array, part in zip(outputs, found, strict=True):
            array[whole:] = part[: rows - whole]
    return _decided(parameters, shares, outputs)


class _Plan(NamedTuple):
    """What does not depend on reports."""

    width: LaneWidth
    shape: kernels.Shape
    tables: kernels.Tables


class _Linear(NamedTuple):
    """What a circuit computes besides the range check: linear functions of the digits.

    Attributes:
        weights: Weights of the digits of an output.
        has_check: Whether a second output must be zero.
        num_summed: It adds up this many digits from the first on,
        check_weights: and the next ones by these weights,
        constant: and a constant.
    """

    weights: Sequence[int]
    has_check: bool
    num_summed: int = 0
    check_weights: Sequence[int] = ()
    constant: int = 0


def _linear(circuit: Circuit) -> _Linear:
    match circuit:
        case Histogram():
            return _Linear([1], has_check=True, num_summed=circuit.length, constant=-1)
        case MultihotCountVec():
            claimed = [-weight for weight in _weights(circuit.max_weight)]
            return _Linear([1], has_check=True, num_summed=circuit.length, check_weights=claimed)
        case SumVec():
            return _Linear(_weights(circuit.max_measurement), has_check=False)
        case L1BoundSum():
            weights = _weights(circuit.max_value)
            check_weights = weights * circuit.length + [-weight for weight in weights]
            return _Linear(weights, has_check=True, check_weights=check_weights)
        case _:
            raise TypeError(f"{circuit.name} has no fused kernel")


def _weights(largest: int) -> list[int]:
    """Return the weights of the digits of an integer from 0 to `largest`."""
    bits = largest.bit_length()
    units = [[int(place == digit) for digit in range(bits)] for place in range(bits)]
    weights = decode_range_checked(Vector.from_ints(FIELD128, units), largest).to_ints()
    return [int(weight) for weight in weights]


@functools.lru_cache(maxsize=32)
def _plan(parameters: Parameters, agg_id: int) -> _Plan:
    circuit, field = parameters.circuit, parameters.field
    linear = _linear(circuit)
    p = circuit.wire_poly_len
    alpha, beta = field.root_of_unity(p), field.root_of_unity(2 * p)
    share_of_one = field.inverse(parameters.num_shares)
    constants = np.concatenate(
        [
            constant_table([RADIX * RADIX]),
            montgomery_table([1, field.inverse(2), field.inverse(p), field.inverse(beta)]),
            constant_table([-share_of_one, linear.constant * share_of_one]),
        ]
    )
    # Factor b of the Lagrange basis needs 1/alpha^(k * 2^b) for k < p / 2^(b + 1); last b first.
    roots, root_steps = (
        [],
        [pow(alpha, -(1 << b), field.modulus) for b in range(p.bit_length() - 1)],
    )
    for b, step in reversed(list(enumerate(root_steps))):
        roots += _powers(1, step, (p >> b) // 2, field.modulus)
    total_weight = sum(linear.weights)
    shape = kernels.Shape(
        agg_id=agg_id,
        meas_len=circuit.meas_len,
        chunk_length=circuit.gadget.arity // 2,
        num_calls=circuit.num_calls,
        log_p=p.bit_length() - 1,
        output_len=circuit.output_len,
        digits=len(linear.weights),
        has_small_weights=total_weight <= MAX_WEIGHT,
        has_check=linear.has_check,
        num_summed=linear.num_summed,
        num_weighted=len(linear.check_weights),
    )
    small_weights = linear.weights if shape.has_small_weights else [0]
    tables = kernels.Tables(
        constants=constants,
        roots=montgomery_table(roots),
        last_value=montgomery_table(_powers(-beta, beta, 2 * p - 1, field.modulus)),
        small_weights=np.array(small_weights, np.uint64),
        weights=montgomery_table(linear.weights),
        check_weights=montgomery_table(linear.check_weights),
        one=Vector.from_ints(field, RADIX % field.modulus).words.reshape(-1),
    )
    lanes = len(lane_width())
    while lanes > 1 and _scratch_size(shape) * lanes > MAX_SCRATCH:
        lanes //= 2
    return _Plan(lane_width(lanes), shape, tables)


def _powers(first: int, ratio: int, count: int, modulus: int) -> list[int]:
    """Return `first`, `first * ratio`, `first * ratio^2`, ..."""
    values = []
    for _ in range(count):
        values.append(first % modulus)
        first = first * ratio % modulus
    return values


def _run(
    width: LaneWidth,
    plan: _Plan,
    messages: kernels.Messages,
    shares: ReportShares,
    outputs: kernels.Outputs,
    scratch: kernels.Scratch,
) -> None:
    inputs = kernels.Inputs(
        _read_only(shares.nonces), _read_only(shares.public_shares), _read_only(shares.input_shares)
    )
    kernels.query_groups(width, plan.shape, plan.tables, messages, inputs, outputs, scratch)


def _read_only(rows: ByteRows) -> ByteRows:
    """Return an array as numba knows it: read-only and writable ones have different types."""
    rows = np.ascontiguousarray(rows).view()
    rows.flags.writeable = False
    return rows


def _messages(parameters: Parameters, shares: ReportShares, lanes: int) -> kernels.Messages:
    """Return the messages of one batch, each for as many reports as there are lanes."""
    agg_id, proofs = bytes([shares.agg_id]), bytes([parameters.num_proofs])
    nonce = bytes(parameters.nonce_size)

    def message(usage: int, binder: bytes) -> Template:
        dst = domain_separation_tag(parameters.algorithm_id, usage, shares.ctx)
        return template(lanes, dst, binder)

    meas_share = message(USAGE_MEAS_SHARE, agg_id)
    query_rand = message(USAGE_QUERY_RANDOMNESS, proofs + nonce)
    verify_key = np.frombuffer(shares.verify_key, np.uint8)
    query_rand.rows[:, query_rand.seed : query_rand.binder] = verify_key
    joint_rand_seed = message(USAGE_JOINT_RAND_SEED, bytes(parameters.public_share_size))
    part_dst = domain_separation_tag(parameters.algorithm_id, USAGE_JOINT_RAND_PART, shares.ctx)
    part = open_template(lanes, part_dst, agg_id + nonce)
    return kernels.Messages(
        meas_share=meas_share.rows,
        proofs_share=message(USAGE_PROOF_SHARE, proofs + agg_id).rows,
        query_rand=query_rand.rows,
        joint_rand=message(USAGE_JOINT_RANDOMNESS, proofs).rows,
        joint_rand_seed=joint_rand_seed.rows,
        joint_rand_part=part.rows,
        joint_rand_part_size=part.binder + len(agg_id + nonce),
        seed_start=meas_share.seed,
        nonce_start=query_rand.binder + len(proofs),
        parts_start=joint_rand_seed.binder,
        domain=TURBOSHAKE_DOMAIN,
    )


def _outputs(parameters: Parameters, rows: int, out_shares: Words) -> kernels.Outputs:
    return kernels.Outputs(
        verifiers=np.empty((rows, parameters.verifiers_share_size), np.uint8),
        out_shares=out_shares.view(np.uint8).reshape(rows, parameters.output_len * ENCODED_SIZE),
        joint_rand_parts=np.empty((rows, SEED_SIZE), np.uint8),
        joint_rand_seeds=np.empty((rows, SEED_SIZE), np.uint8),
        flags=np.empty((rows, 8), np.uint8),
    )


def _first(outputs: kernels.Outputs, rows: int) -> kernels.Outputs:
    return kernels.Outputs(*(array[:rows] for array in outputs))


def _scratch(shape: kernels.Shape, lanes: int, head_size: int = 0) -> kernels.Scratch:
    """Return scratch space for one group of reports."""
    p = 1 << shape.log_p
    proof_len = 2 * shape.chunk_length + 2 * p - 1
    verifier_len = 2 * shape.chunk_length + 2

    def words(count: int) -> LaneArray:
        # Where words are copied to rows of bytes, some beyond the last are read, though never used.
        return new_lane_array(count + lanes, lanes)

    return kernels.Scratch(
        sponge=new_sponge(lanes),
        head=words(head_size // 8),
        share=words(WORDS * (shape.meas_len + proof_len + 1)),
        query_rand=words(WORDS * 3),
        joint_rand=words(WORDS * shape.num_calls),
        joint_rand_limbs=words(LIMBS * shape.num_calls),
        powers=words(LIMBS * shape.log_p),
        basis=words(LIMBS * p),
        odd_basis=words(LIMBS * p),
        wire_factors=words(LIMBS * shape.num_calls),
        sums=words(kernels.PAIR_ROWS * kernels.PAIRS_AT_ONCE),
        odd_start=words(COLUMNS),
        registers=words(kernels.REGISTER_ROWS),
        result=words(WORDS * max(verifier_len, shape.output_len)),
        flags=words(1),
        block=np.empty((lanes, 8 * lanes), np.uint8),
    )


def _scratch_size(shape: kernels.Shape) -> int:
    """Return the bytes of scratch space that one lane needs."""
    return sum(array.nbytes for array in _scratch(shape, 1))


def _decided(
    parameters: Parameters, shares: ReportShares, outputs: kernels.Outputs
) -> QueriedShares:
    """Return what the kernel computed, with the reports that it flagged computed again."""
    flags = outputs.flags.view(np.uint64)[:, 0]
    is_undecodable = flags & np.uint64(kernels.NOT_A_RESIDUE) != 0
    is_rejected = np.zeros(len(shares), np.bool_)
    irregular = np.flatnonzero((flags != 0) & ~is_undecodable)
    if len(irregular):
        again = query_shares(parameters, shares.rows(irregular))
        outputs.verifiers[irregular] = encode_rows(again.verifiers_shares)
        outputs.out_shares[irregular] = encode_rows(again.out_shares)
        outputs.joint_rand_parts[irregular] = again.joint_rand_parts
        outputs.joint_rand_seeds[irregular] = again.joint_rand_seeds
        is_undecodable[irregular] = again.is_undecodable
        is_rejected[irregular] = again.is_rejected
    return QueriedShares(
        out_shares=_vector(outputs.out_shares),
        verifiers_shares=_vector(outputs.verifiers),
        joint_rand_parts=outputs.joint_rand_parts,
        joint_rand_seeds=outputs.joint_rand_seeds,
        is_undecodable=is_undecodable,
        is_rejected=is_rejected,
    )


def _vector(rows: ByteRows) -> Vector:
    """Return encoded residues below p as a vector; the processor's byte order is the encoding's."""
    shape = (len(rows), rows.shape[1] // ENCODED_SIZE, WORDS)
    return Vector(FIELD128, rows.view(np.uint64).reshape(shape))
