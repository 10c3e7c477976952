"""What the kernel of `kernels.chunks.query` needs: constants, messages, scratch space."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from aggregator.vdaf.circuits import Circuit, Histogram, L1BoundSum, MultihotCountVec, SumVec
from aggregator.vdaf.circuits.range_checked import weights
from aggregator.vdaf.kernels.chunks import arrays
from aggregator.vdaf.kernels.chunks import query as kernels
from aggregator.vdaf.kernels.message import (
    head_words,
    message_words,
    with_seed,
)
from aggregator.vdaf.kernels.tables import (
    basis_roots,
    joint_rand_seed_message,
    last_difference_weights,
    share_messages,
)
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.verification import Aggregator
from aggregator.vdaf.xof import (
    TURBOSHAKE_DOMAIN,
    USAGE_JOINT_RAND_PART,
    USAGE_JOINT_RANDOMNESS,
    domain_separation_tag,
)
from field import Vector
from field.lanes import (
    WORD_SIZE,
    LaneWidth,
    field128,
    lane_width,
    limbs128,
    new_workspace,
    row_ends,
)

MAX_SCRATCH = 48 * 2**20
"""Bytes of scratch above which fewer lanes are used: a long report fills the memory by itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What does not depend on reports.

    Attributes:
        width: As many lanes as the processor has and memory allows.
        shape: The numbers that fix the kernel's work.
    """

    width: LaneWidth
    shape: arrays.Shape

    def prepare(
        self, parameters: Parameters, aggregator: Aggregator, width: LaneWidth
    ) -> Callable[..., None]:
        """Return the kernel: it takes the arrays of `Inputs`, then those of `Outputs`."""
        lanes = len(width)
        tables = kernel_tables(parameters, width)
        messages = _messages(parameters, aggregator)
        ends = scratch_ends(self.shape, lanes, len(messages.joint_rand_part))
        workspace = new_workspace(ends, lanes)
        return functools.partial(
            kernels.query_groups, width, self.shape, tables, messages, workspace
        )


class _Linear(NamedTuple):
    """What a circuit computes besides the range check: linear functions of the digits.

    Attributes:
        weights: Weights of the digits of an output.
        has_check: Whether a second output must be zero.
        check_weights: It adds up all digits by a weight; this is, for the last digits, the weight
            less 1. Those before have the weight 1.
        constant: What is added to that.
    """

    weights: Sequence[int]
    has_check: bool
    check_weights: Sequence[int] = ()
    constant: int = 0

    @property
    def has_small_weights(self) -> bool:
        """Whether weights add up to little enough for `decode_digits`."""
        return sum(self.weights) <= limbs128.MAX_WEIGHT


def _linear(circuit: Circuit) -> _Linear:
    match circuit:
        case Histogram():
            return _Linear([1], has_check=True, constant=-1)
        case MultihotCountVec():
            claimed = [-weight - 1 for weight in weights(circuit.max_weight)]
            return _Linear([1], has_check=True, check_weights=claimed)
        case SumVec():
            return _Linear(weights(circuit.max_measurement), has_check=False)
        case L1BoundSum():
            digits = weights(circuit.max_value)
            entry, claimed = ([sign * weight - 1 for weight in digits] for sign in (1, -1))
            return _Linear(digits, has_check=True, check_weights=entry * circuit.length + claimed)
        case _:
            raise TypeError(f"{circuit.name} has no fused kernel")


@functools.lru_cache(maxsize=32)
def plan(parameters: Parameters, agg_id: int) -> Plan:
    """Return the plan for one Prio3 and one of its aggregators."""
    circuit = parameters.circuit
    linear = _linear(circuit)
    shape = arrays.Shape(
        num_shares=parameters.num_shares,
        agg_id=agg_id,
        meas_len=circuit.meas_len,
        chunk_length=circuit.gadget.arity // 2,
        num_calls=circuit.num_calls,
        log_p=circuit.wire_poly_len.bit_length() - 1,
        proof_len=circuit.proof_len,
        output_len=circuit.output_len,
        digits=len(linear.weights),
        has_small_weights=linear.has_small_weights,
        has_check=linear.has_check,
        num_weighted=len(linear.check_weights),
    )
    lanes = len(lane_width())
    while lanes > 1 and scratch_size(shape) * lanes > MAX_SCRATCH:
        lanes //= 2
    return Plan(lane_width(lanes), shape)


@functools.lru_cache(maxsize=32)
def kernel_tables(parameters: Parameters, width: LaneWidth) -> arrays.Tables:
    """Return the constants, in the limbs of kernels of this width."""
    circuit, field = parameters.circuit, parameters.field
    linear = _linear(circuit)
    small_weights = linear.weights if linear.has_small_weights else [0]
    p = circuit.wire_poly_len
    beta = field.root_of_unity(2 * p)
    share_of_one = field.inverse(parameters.num_shares)
    radix = field128.limbs_of(width).radix
    constants = np.concatenate(
        [
            field128.constant_table(width, [radix * radix]),
            field128.montgomery_table(
                width, [1, field.inverse(2), field.inverse(p), field.inverse(beta)]
            ),
            field128.constant_table(width, [-share_of_one, linear.constant * share_of_one]),
        ]
    )
    return arrays.Tables(
        constants=constants,
        roots=field128.montgomery_table(width, basis_roots(field, p)),
        last_difference=field128.montgomery_table(width, last_difference_weights(field, p)),
        small_weights=np.array(small_weights, np.uint64),
        weights=field128.montgomery_table(width, linear.weights),
        check_weights=field128.montgomery_table(width, linear.check_weights),
        one=Vector.from_ints(field, radix % field.modulus).words.reshape(-1),
    )


def _messages(parameters: Parameters, aggregator: Aggregator) -> arrays.Messages:
    """Return the messages."""
    blank = _blank_messages(parameters, aggregator.agg_id, aggregator.ctx)
    # Tags have one size, so the key begins where in the other messages the blank seed does.
    keyed = with_seed(blank.query_rand, blank.seed_start, aggregator.verify_key)
    return blank._replace(query_rand=keyed)


@functools.lru_cache(maxsize=256)
def _blank_messages(parameters: Parameters, agg_id: int, ctx: bytes) -> arrays.Messages:
    """Return the messages without the aggregators' key, which is not to be kept here."""

    def tag(usage: int) -> bytes:
        return domain_separation_tag(parameters.algorithm_id, usage, ctx)

    binder = bytes([agg_id]) + bytes(parameters.nonce_size)
    part, part_size = head_words(tag(USAGE_JOINT_RAND_PART), binder)
    seed, parts_start = joint_rand_seed_message(parameters, ctx)
    return arrays.Messages(
        *share_messages(parameters, agg_id, ctx),
        joint_rand=message_words(tag(USAGE_JOINT_RANDOMNESS), bytes([parameters.num_proofs])),
        joint_rand_seed=seed,
        joint_rand_part=part,
        joint_rand_part_size=part_size,
        parts_start=parts_start,
        domain=TURBOSHAKE_DOMAIN,
    )


@functools.lru_cache(maxsize=64)
def scratch_ends(shape: arrays.Shape, lanes: int, head_len: int = 0) -> arrays.ScratchOf[int]:
    """Return where the lane arrays of `Scratch` end; a message's head has `head_len` words."""
    return row_ends(arrays.scratch_rows(shape, head_len), lanes)


def scratch_size(shape: arrays.Shape) -> int:
    """Return the bytes of scratch space that one lane needs."""
    return WORD_SIZE * scratch_ends(shape, 1)[-1]
