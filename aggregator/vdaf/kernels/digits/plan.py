"""What the kernel of `kernels.digits.query` needs: constants, messages, scratch space."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from aggregator.vdaf.circuits import Circuit, Count, Sum
from aggregator.vdaf.circuits.range_checked import weights
from aggregator.vdaf.kernels.arrays import NONCE_SIZE
from aggregator.vdaf.kernels.digits import query as kernels
from aggregator.vdaf.kernels.message import message_words, seed_start, with_seed
from aggregator.vdaf.kernels.tables import basis_roots, last_difference_weights
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.verification import Aggregator
from aggregator.vdaf.xof import (
    SEED_SIZE,
    USAGE_MEAS_SHARE,
    USAGE_PROOF_SHARE,
    USAGE_QUERY_RANDOMNESS,
    domain_separation_tag,
)
from field.lanes import MAX_LANES, LaneWidth, Table, lane_width, new_workspace, row_ends


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What does not depend on reports.

    Attributes:
        width: As many lanes as the processor has.
        shape: The numbers that fix the kernel's work.
        tables: The kernel's constants.
        scratch_ends: Where the lane arrays of the kernel's scratch space end.
    """

    width: LaneWidth
    shape: kernels.Shape
    tables: kernels.Tables
    scratch_ends: kernels.ScratchOf[int]

    def prepare(
        self, parameters: Parameters, aggregator: Aggregator, width: LaneWidth
    ) -> Callable[..., None]:
        """Return the kernel: it takes the arrays of `Inputs`, then those of `Outputs`."""
        messages = _messages(parameters, aggregator)
        workspace = new_workspace(self.scratch_ends, len(width))
        return functools.partial(
            kernels.query_groups, width, self.shape, self.tables, messages, workspace
        )


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
        proof_len=circuit.proof_len,
        is_minus_digit=isinstance(circuit, Count),
    )
    tables = kernels.Tables(
        constants=_table([field.inverse(p), field.inverse(2), field.inverse(beta)]),
        roots=_table(basis_roots(field, p)),
        last_difference=_table(last_difference_weights(field, p)),
        weights=_table(_weights(circuit)),
    )
    # One plan serves any number of lanes: eight at most.
    return Plan(lane_width(), shape, tables, row_ends(kernels.scratch_rows(shape), MAX_LANES))


def _weights(circuit: Circuit) -> list[int]:
    return weights(circuit.max_measurement) if isinstance(circuit, Sum) else [1]


def _table(values: Sequence[int]) -> Table:
    return np.array(values, np.uint64)


def _messages(parameters: Parameters, aggregator: Aggregator) -> kernels.Messages:
    """Return the messages."""
    blank = _blank_messages(
        parameters.algorithm_id, aggregator.ctx, aggregator.agg_id, parameters.num_proofs
    )
    # Tags have one size, so the key begins where in the other messages the blank seed does.
    keyed = with_seed(blank.query_rand, blank.seed_start, aggregator.verify_key)
    return blank._replace(query_rand=keyed)


@functools.lru_cache(maxsize=256)
def _blank_messages(
    algorithm_id: int, ctx: bytes, agg_id: int, num_proofs: int
) -> kernels.Messages:
    """Return the messages without the aggregators' key, which is not to be kept here."""

    def message(usage: int, binder: bytes) -> Table:
        return message_words(domain_separation_tag(algorithm_id, usage, ctx), binder)

    agg_ids, proofs = bytes([agg_id]), bytes([num_proofs])
    start = seed_start(domain_separation_tag(algorithm_id, USAGE_QUERY_RANDOMNESS, ctx))
    return kernels.Messages(
        meas_share=message(USAGE_MEAS_SHARE, agg_ids),
        proofs_share=message(USAGE_PROOF_SHARE, proofs + agg_ids),
        query_rand=message(USAGE_QUERY_RANDOMNESS, proofs + bytes(NONCE_SIZE)),
        seed_start=start,
        nonce_start=start + SEED_SIZE + len(proofs),
    )
