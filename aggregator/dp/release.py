"""Where noise is added: once, by each aggregator, to its own share of a batch's sum.

`add_noise` is the only function that does it. `protocol.collection.release` calls it in the one
transaction that stores the sealed share, charges the ledger and destroys the un-noised share, so a
share is noised exactly once or not released at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.dp.sensitivity import max_entry
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.dp.mechanisms import Mechanism
    from aggregator.entropy import Entropy
    from aggregator.vdaf.circuits import Circuit
    from field import Vector


def add_noise(
    agg_share: Vector, mechanism: Mechanism, circuit: Circuit, entropy: Entropy
) -> Vector:
    """Return `agg_share` with this aggregator's noise, one exact draw per coordinate.

    Args:
        agg_share: This aggregator's share of the sum, shape `(output_len,)`.
        mechanism: Which noise; the mechanism "None" returns the share unchanged.
        circuit: What was summed; its sensitivity sets the scale.
        entropy: Gives the key of this release; no other randomness is used.

    Post-condition:
        The sum of both shares is pi_F(f(x) + Z) with Z drawn independently of everything else,
        where pi_F wraps signed integers into the field.

    Raises:
        ParameterError: The share is not one row of `output_len` residues.
    """
    from field import project

    if agg_share.shape != (circuit.output_len,):
        raise ParameterError(
            f"agg_share must have shape ({circuit.output_len},), not {agg_share.shape}"
        )
    return agg_share + project(agg_share.field, mechanism.noise(circuit, entropy))


def check_no_wrap(circuit: Circuit, mechanism: Mechanism, max_reports: int) -> None:
    """Refuse a task whose largest sum with both aggregators' noise could wrap around the field.

    With noise a result is read in (-p/2, p/2) and must stay below p/2 except with a probability of
    2^-64; without noise it is read in [0, p).

    Args:
        circuit: What is summed.
        mechanism: What both aggregators add.
        max_reports: The most reports that a batch may hold.

    Raises:
        ParameterError: The sum could wrap; the message gives the sum, the noise and the limit.
    """
    largest = max_reports * max_entry(circuit)
    if not mechanism.is_noisy:
        if largest >= circuit.field.modulus:
            raise ParameterError(
                f"max_reports: {max_reports} reports could sum to {largest}, which wraps around "
                f"the field of {circuit.field.modulus} elements; lower max_reports"
            )
        return
    # So much noise would take half a minute to bound exactly, which is not needed here.
    if mechanism.variance(circuit) > float(circuit.field.modulus) ** 2:
        raise ParameterError(
            f"mechanism {mechanism.name}: its noise alone would wrap around the field of "
            f"{circuit.field.modulus} elements; take a larger epsilon or rho"
        )
    noise = mechanism.tail_bound(circuit, aggregators=2)
    if 2 * (largest + noise) >= circuit.field.modulus:
        raise ParameterError(
            f"max_reports: {max_reports} reports could sum to {largest} and the noise of both "
            f"aggregators reach {noise}; together they must stay below half of the field's "
            f"modulus {circuit.field.modulus}; lower max_reports, or take a larger epsilon or rho"
        )
