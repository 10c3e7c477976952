"""What the kernel of `kernels.chunks.query` needs: constants, messages, scratch space."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from aggregator.vdaf.gadgets import Mul, ParallelSum
from aggregator.vdaf.kernels.chunks import arrays, linear
from aggregator.vdaf.kernels.chunks import query as kernels
from aggregator.vdaf.kernels.message import head_words, message_words
from aggregator.vdaf.kernels.shares import ScratchOf
from aggregator.vdaf.kernels.tables import (
    basis_roots,
    joint_rand_seed_message,
    keyed,
    last_difference_weights,
    linear_form_of,
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
from field import FIELD128, Vector
from field.lanes import WORD_SIZE, LaneWidth, field128, lane_width, new_workspace, row_ends

MAX_SCRATCH = 48 * 2**20
"""Bytes of scratch above which fewer lanes are used: one long report alone needs much memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What is the same for all reports.

    Attributes:
        width: As many lanes as the processor has and memory allows.
        shape: The sizes that the kernel works with.
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


def takes(parameters: Parameters) -> bool:
    """Return whether the kernel verifies this Prio3: bits in chunks, and linear functions."""
    circuit, form = parameters.circuit, parameters.circuit.linear_form()
    if form is None or parameters.num_proofs > 1 or circuit.field != FIELD128:
        return False
    chunk_length = circuit.gadget.arity // 2
    return (
        circuit.gadget == ParallelSum(Mul(), chunk_length)
        and circuit.num_calls == circuit.joint_rand_len == -(-circuit.meas_len // chunk_length)
        and circuit.eval_output_len == 1 + len(form.checks)
        and linear.fits(form, circuit.output_len, circuit.meas_len)
    )


@functools.lru_cache(maxsize=32)
def plan(parameters: Parameters, agg_id: int) -> Plan:
    """Return the plan for one Prio3 and one of its aggregators."""
    circuit = parameters.circuit
    form = linear_form_of(circuit)
    shape = arrays.Shape(
        num_shares=parameters.num_shares,
        agg_id=agg_id,
        meas_len=circuit.meas_len,
        chunk_length=circuit.gadget.arity // 2,
        num_calls=circuit.num_calls,
        log_p=circuit.wire_poly_len.bit_length() - 1,
        proof_len=circuit.proof_len,
        output_len=circuit.output_len,
        is_prefix=all(block.weights == (1,) for block in form.blocks),
        num_blocks=len(form.blocks),
        num_checks=len(form.checks),
        query_rand_len=circuit.query_rand_len,
        has_digits_sum=linear.beyond_the_digits(form, circuit.meas_len) is not None,
    )
    lanes = len(lane_width())
    while lanes > 1 and scratch_size(shape) * lanes > MAX_SCRATCH:
        lanes //= 2
    return Plan(lane_width(lanes), shape)


@functools.lru_cache(maxsize=32)
def kernel_tables(parameters: Parameters, width: LaneWidth) -> arrays.Tables:
    """Return the constants, in the limbs of kernels of this width."""
    circuit, field = parameters.circuit, parameters.field
    form = linear_form_of(circuit)
    p = circuit.wire_poly_len
    beta = field.root_of_unity(2 * p)
    share_of_one = field.inverse(parameters.num_shares)
    radix = field128.limbs_of(width).radix
    blocks = linear.table_of_blocks(form.blocks)
    checks = linear.table_of_checks(form, circuit.meas_len, first_weight=len(blocks.weights))
    constants = np.concatenate(
        [
            field128.constant_table(width, [radix * radix]),
            field128.montgomery_table(
                width, [1, field.inverse(2), field.inverse(p), field.inverse(beta)]
            ),
            field128.constant_table(width, [-share_of_one]),
        ]
    )
    return arrays.Tables(
        constants=constants,
        roots=field128.montgomery_table(width, basis_roots(field, p)),
        last_difference=field128.montgomery_table(width, last_difference_weights(field, p)),
        one=Vector.from_ints(field, radix % field.modulus).words.reshape(-1),
        blocks=blocks.places,
        small_weights=blocks.small_weights,
        weights=field128.montgomery_table(width, [*blocks.weights, *checks.weights]),
        check_constants=field128.constant_table(
            width, [each * share_of_one for each in checks.constants]
        ),
        check_terms=checks.check_terms,
        terms=checks.terms,
    )


def _messages(parameters: Parameters, aggregator: Aggregator) -> arrays.Messages:
    """Return an aggregator's messages."""
    blank = _blank_messages(parameters, aggregator.agg_id, aggregator.ctx)
    return blank._replace(shares=keyed(blank.shares, aggregator.verify_key))


@functools.lru_cache(maxsize=256)
def _blank_messages(parameters: Parameters, agg_id: int, ctx: bytes) -> arrays.Messages:
    """Return the messages without the aggregators' key, which this cache must not keep."""

    def tag(usage: int) -> bytes:
        return domain_separation_tag(parameters.algorithm_id, usage, ctx)

    binder = bytes([agg_id]) + bytes(parameters.nonce_size)
    part, part_size = head_words(tag(USAGE_JOINT_RAND_PART), binder)
    seed, parts_start = joint_rand_seed_message(parameters, ctx)
    return arrays.Messages(
        shares=share_messages(parameters, agg_id, ctx),
        joint_rand=message_words(tag(USAGE_JOINT_RANDOMNESS), bytes([parameters.num_proofs])),
        joint_rand_seed=seed,
        joint_rand_part=part,
        joint_rand_part_size=part_size,
        parts_start=parts_start,
        domain=TURBOSHAKE_DOMAIN,
    )


@functools.lru_cache(maxsize=64)
def scratch_ends(shape: arrays.Shape, lanes: int, head_len: int = 0) -> ScratchOf[int]:
    """Return where the lane arrays of `Scratch` end; a message's head has `head_len` words."""
    return row_ends(arrays.scratch_rows(shape, head_len), lanes)


def scratch_size(shape: arrays.Shape) -> int:
    """Return the bytes of scratch space that one lane needs."""
    return WORD_SIZE * scratch_ends(shape, 1)[-1]
