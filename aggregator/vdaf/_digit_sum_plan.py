"""What the kernel of `aggregator.vdaf._digit_sum` needs: constants, messages, scratch space."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from aggregator.vdaf import _digit_sum as kernels
from aggregator.vdaf._kernel_arrays import Inputs, Outputs
from aggregator.vdaf._kernel_tables import basis_roots, last_value_weights
from aggregator.vdaf._lane_message import message_words, seed_start
from aggregator.vdaf._lane_xof import SPONGE_ROWS
from aggregator.vdaf.circuits import Circuit, Count, Sum
from aggregator.vdaf.circuits.range_checked import weights
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.verification import Aggregator
from aggregator.vdaf.xof import (
    SEED_SIZE,
    USAGE_MEAS_SHARE,
    USAGE_PROOF_SHARE,
    USAGE_QUERY_RANDOMNESS,
    domain_separation_tag,
)
from field._jit import LaneWidth, lane_width
from field.lanes import Table, new_lane_array


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What does not depend on reports.

    Attributes:
        width: As many lanes as the processor has.
        shape: The numbers that fix the kernel's work.
        tables: The kernel's constants.
    """

    width: LaneWidth
    shape: kernels.Shape
    tables: kernels.Tables

    def prepare(
        self, parameters: Parameters, aggregator: Aggregator, width: LaneWidth
    ) -> Callable[[Inputs, Outputs], None]:
        """Return the kernel for a multiple of as many reports as there are lanes, call by call."""
        messages = _messages(parameters, aggregator)
        return functools.partial(_run, self, width, messages, _new_scratch(self.shape, len(width)))


def _run(
    plan: Plan,
    width: LaneWidth,
    messages: kernels.Messages,
    scratch: kernels.Scratch,
    inputs: Inputs,
    outputs: Outputs,
) -> None:
    kernels.query_groups(width, plan.shape, plan.tables, messages, inputs, outputs, scratch)


@functools.lru_cache(maxsize=32)
def plan(parameters: Parameters, agg_id: int) -> Plan:
    """Return the plan for one Prio3 and one of its aggregators."""
    circuit, field = parameters.circuit, parameters.field
    p = circuit.wire_poly_len
    beta = field.root_of_unity(2 * p)
    shape = kernels.Shape(
        agg_id=agg_id,
        num_calls=circuit.num_calls,
        arity=circuit.gadget.arity,
        log_p=p.bit_length() - 1,
        is_minus_digit=isinstance(circuit, Count),
    )
    tables = kernels.Tables(
        constants=_table([field.inverse(p), field.inverse(2 * p), field.inverse(beta)]),
        roots=_table(basis_roots(field, p)),
        last_value=_table(last_value_weights(field, p)),
        weights=_table(_weights(circuit)),
    )
    return Plan(lane_width(), shape, tables)


def _weights(circuit: Circuit) -> list[int]:
    return weights(circuit.max_measurement) if isinstance(circuit, Sum) else [1]


def _table(values: Sequence[int]) -> Table:
    return np.array(values, np.uint64)


def _messages(parameters: Parameters, aggregator: Aggregator) -> kernels.Messages:
    """Return the messages."""
    algorithm_id, ctx = parameters.algorithm_id, aggregator.ctx
    agg_id, proofs = bytes([aggregator.agg_id]), bytes([parameters.num_proofs])
    blank_seed, blank_nonce = bytes(SEED_SIZE), bytes(parameters.nonce_size)

    meas_share = domain_separation_tag(algorithm_id, USAGE_MEAS_SHARE, ctx)
    proofs_share = domain_separation_tag(algorithm_id, USAGE_PROOF_SHARE, ctx)
    query_rand = domain_separation_tag(algorithm_id, USAGE_QUERY_RANDOMNESS, ctx)
    return kernels.Messages(
        meas_share=message_words(meas_share, blank_seed, agg_id),
        proofs_share=message_words(proofs_share, blank_seed, proofs + agg_id),
        query_rand=message_words(query_rand, aggregator.verify_key, proofs + blank_nonce),
        seed_start=seed_start(meas_share),
        nonce_start=seed_start(query_rand) + SEED_SIZE + len(proofs),
    )


def _new_scratch(shape: kernels.Shape, lanes: int) -> kernels.Scratch:
    """Return scratch space for one group of reports."""
    p = 1 << shape.log_p
    rows = {
        "sponge": SPONGE_ROWS,
        "blank": kernels.SEED_WORDS + 1,
        "share": shape.num_calls + shape.arity + 2 * p,
        "query_rand": shape.num_calls + 1,
        "powers": shape.log_p + 1,
        "basis": p,
        "odd_basis": p,
        "registers": kernels.REGISTER_ROWS,
        "result": shape.arity + 2,
    }
    # Where words are copied to rows of bytes, some beyond the last are read, though never used; and
    # where they are gathered from rows, some beyond the last become zero.
    space = new_lane_array(sum(rows.values()) + lanes * len(rows), lanes)
    arrays, start = {}, 0
    for name, count in rows.items():
        arrays[name] = space[start : start + count + lanes]
        start += count + lanes
    return kernels.Scratch(**arrays, block=np.empty((lanes, 8 * lanes), np.uint8))
