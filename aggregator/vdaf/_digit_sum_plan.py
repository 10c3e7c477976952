"""What the kernel of `aggregator.vdaf._digit_sum` needs: constants, messages, scratch space."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from aggregator.vdaf import _digit_sum as kernels
from aggregator.vdaf._kernel_arrays import Inputs, Outputs
from aggregator.vdaf._kernel_tables import basis_roots, last_value_weights
from aggregator.vdaf._lane_xof import Template, new_sponge, template
from aggregator.vdaf.circuits import Circuit, Count, Sum
from aggregator.vdaf.circuits.range_checked import weights
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.verification import Aggregator
from aggregator.vdaf.xof import (
    USAGE_MEAS_SHARE,
    USAGE_PROOF_SHARE,
    USAGE_QUERY_RANDOMNESS,
    domain_separation_tag,
)
from field._jit import LaneWidth, lane_width
from field.lanes import LaneArray, Table, new_lane_array


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
        messages = _messages(parameters, aggregator, len(width))
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
        constants=_table([field.inverse(2), field.inverse(p), field.inverse(beta)]),
        roots=_table(basis_roots(field, p)),
        last_value=_table(last_value_weights(field, p)),
        weights=_table(_weights(circuit)),
    )
    return Plan(lane_width(), shape, tables)


def _weights(circuit: Circuit) -> list[int]:
    return weights(circuit.max_measurement) if isinstance(circuit, Sum) else [1]


def _table(values: Sequence[int]) -> Table:
    return np.array(values, np.uint64)


def _messages(parameters: Parameters, aggregator: Aggregator, lanes: int) -> kernels.Messages:
    """Return the messages, each for as many reports as there are lanes."""
    agg_id, proofs = bytes([aggregator.agg_id]), bytes([parameters.num_proofs])

    def message(usage: int, binder: bytes) -> Template:
        dst = domain_separation_tag(parameters.algorithm_id, usage, aggregator.ctx)
        return template(lanes, dst, binder)

    meas_share = message(USAGE_MEAS_SHARE, agg_id)
    query_rand = message(USAGE_QUERY_RANDOMNESS, proofs + bytes(parameters.nonce_size))
    verify_key = np.frombuffer(aggregator.verify_key, np.uint8)
    query_rand.rows[:, query_rand.seed : query_rand.binder] = verify_key
    return kernels.Messages(
        meas_share=meas_share.rows,
        proofs_share=message(USAGE_PROOF_SHARE, proofs + agg_id).rows,
        query_rand=query_rand.rows,
        seed_start=meas_share.seed,
        nonce_start=query_rand.binder + len(proofs),
    )


def _new_scratch(shape: kernels.Shape, lanes: int) -> kernels.Scratch:
    """Return scratch space for one group of reports."""
    p = 1 << shape.log_p

    def words(count: int) -> LaneArray:
        # Where words are copied to rows of bytes, some beyond the last are read, though never used.
        return new_lane_array(count + lanes, lanes)

    return kernels.Scratch(
        sponge=new_sponge(lanes),
        share=words(shape.num_calls + shape.arity + 2 * p),
        query_rand=words(shape.num_calls + 1),
        powers=words(shape.log_p),
        basis=words(p),
        odd_basis=words(p),
        registers=words(kernels.REGISTER_ROWS),
        result=words(shape.arity + 2),
        flags=words(1),
        block=np.empty((lanes, 8 * lanes), np.uint8),
    )
