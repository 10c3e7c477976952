"""What the kernel of `kernels.digits.query` needs: constants, messages, scratch space."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from aggregator.vdaf.gadgets import Mul, PolyEval
from aggregator.vdaf.kernels.digits import query as kernels
from aggregator.vdaf.kernels.shares import ScratchOf
from aggregator.vdaf.kernels.tables import (
    basis_roots,
    keyed,
    last_difference_weights,
    linear_form_of,
    share_messages,
)
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.verification import Aggregator
from field import FIELD64
from field.lanes import MAX_LANES, LaneWidth, Table, lane_width, new_workspace, row_ends

_GADGETS = (Mul(), PolyEval((0, -1, 1)))
"""Gadgets that check one digit: m * m, from which the circuit subtracts m, and m^2 - m."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What is the same for all reports.

    Attributes:
        width: As many lanes as the processor has.
        shape: The sizes that the kernel works with.
        tables: The kernel's constants.
        scratch_ends: Where the lane arrays of the kernel's scratch space end.
    """

    width: LaneWidth
    shape: kernels.Shape
    tables: kernels.Tables
    scratch_ends: ScratchOf[int]

    def prepare(
        self, parameters: Parameters, aggregator: Aggregator, width: LaneWidth
    ) -> Callable[..., None]:
        """Return the kernel: it takes the arrays of `Inputs`, then those of `Outputs`."""
        blank = share_messages(parameters, aggregator.agg_id, aggregator.ctx)
        workspace = new_workspace(self.scratch_ends, len(width))
        return functools.partial(
            kernels.query_groups,
            width,
            self.shape,
            self.tables,
            keyed(blank, aggregator.verify_key),
            workspace,
        )


def takes(parameters: Parameters) -> bool:
    """Return whether the kernel verifies this Prio3: bits one by one, and one weighted sum."""
    circuit, form = parameters.circuit, parameters.circuit.linear_form()
    return (
        form is not None
        and not form.checks
        and len(form.blocks) == 1
        and parameters.num_proofs == 1
        and circuit.field == FIELD64
        and any(circuit.gadget == gadget for gadget in _GADGETS)
        and circuit.joint_rand_len == 0
        and circuit.output_len == 1
        and circuit.meas_len == circuit.num_calls == circuit.eval_output_len
        and circuit.meas_len == len(form.blocks[0].weights)
    )


@functools.lru_cache(maxsize=32)
def plan(parameters: Parameters, agg_id: int) -> Plan:
    """Return the plan for one Prio3 and one of its aggregators."""
    circuit, field = parameters.circuit, parameters.field
    form = linear_form_of(circuit)
    p = circuit.wire_poly_len
    beta = field.root_of_unity(2 * p)
    shape = kernels.Shape(
        agg_id=agg_id,
        num_calls=circuit.num_calls,
        arity=circuit.gadget.arity,
        log_p=p.bit_length() - 1,
        proof_len=circuit.proof_len,
        is_minus_digit=circuit.gadget == Mul(),
    )
    tables = kernels.Tables(
        constants=_table([field.inverse(p), field.inverse(2), field.inverse(beta), 1]),
        roots=_table(basis_roots(field, p)),
        last_difference=_table(last_difference_weights(field, p)),
        weights=_table([weight % field.modulus for weight in form.blocks[0].weights]),
    )
    # One plan serves any number of lanes, up to eight.
    return Plan(lane_width(), shape, tables, row_ends(kernels.scratch_rows(shape), MAX_LANES))


def _table(values: Sequence[int]) -> Table:
    return np.array(values, np.uint64)
