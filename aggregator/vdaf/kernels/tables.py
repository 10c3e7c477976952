"""Roots of unity and messages for the plans of both families.

Source:
    VDAF, "Polynomial Representation" and "Auxiliary Functions" of Prio3.
"""

import functools

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit, LinearForm
from aggregator.vdaf.kernels.arrays import ShareMessages
from aggregator.vdaf.kernels.message import message_words, seed_start, with_seed
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.seeds import SEED_SIZE
from aggregator.vdaf.xof import (
    USAGE_JOINT_RAND_SEED,
    USAGE_MEAS_SHARE,
    USAGE_PROOF_SHARE,
    USAGE_QUERY_RANDOMNESS,
    domain_separation_tag,
)
from field import Field
from field.lanes import Table


def linear_form_of(circuit: Circuit) -> LinearForm:
    """Return the linear form of a circuit that a kernel verifies.

    Raises:
        ParameterError: The circuit has no linear form.
    """
    form = circuit.linear_form()
    if form is None:
        raise ParameterError(f"Prio3{circuit.name} has no linear form, so no kernel verifies it")
    return form


def basis_roots(field: Field, p: int) -> list[int]:
    """Return the roots of unity for a Lagrange basis of length p, in the order of use.

    Factor b of the basis needs 1/alpha^(k * 2^b) for k < p / 2^(b + 1), alpha being the principal
    p-th root of unity; the last factor comes first.
    """
    roots: list[int] = []
    for b in range(p.bit_length() - 2, -1, -1):
        step = pow(field.root_of_unity(p), -(1 << b), field.modulus)
        roots += _powers(field, 1, step, p >> (b + 1))
    return roots


def last_difference_weights(field: Field, p: int) -> list[int]:
    """Return the weights that give the last difference of a gadget polynomial's values.

    The weight of the difference between the values at beta^i and at beta^(i+p) is beta^(i+1), for
    i < p - 1; beta is the principal 2p-th root of unity.
    """
    beta = field.root_of_unity(2 * p)
    return _powers(field, beta, beta, p - 1)


def _powers(field: Field, first: int, ratio: int, count: int) -> list[int]:
    """Return `first`, `first * ratio`, `first * ratio^2`, ..."""
    values = []
    value = first
    for _ in range(count):
        values.append(value)
        value = value * ratio % field.modulus
    return values


@functools.lru_cache(maxsize=256)
def share_messages(parameters: Parameters, agg_id: int, ctx: bytes) -> ShareMessages:
    """Return an aggregator's messages without the key, which this cache must not keep."""

    def message(usage: int, binder: bytes) -> Table:
        return message_words(domain_separation_tag(parameters.algorithm_id, usage, ctx), binder)

    own, proofs = bytes([agg_id]), bytes([parameters.num_proofs])
    start = seed_start(domain_separation_tag(parameters.algorithm_id, USAGE_MEAS_SHARE, ctx))
    return ShareMessages(
        meas_share=message(USAGE_MEAS_SHARE, own),
        proofs_share=message(USAGE_PROOF_SHARE, proofs + own),
        query_rand=message(USAGE_QUERY_RANDOMNESS, proofs + bytes(parameters.nonce_size)),
        seed_start=start,
        nonce_start=start + SEED_SIZE + len(proofs),
    )


def keyed(messages: ShareMessages, verify_key: bytes) -> ShareMessages:
    """Return messages with the aggregators' key."""
    # Tags have one size, so the key begins where the blank seed of the other messages does.
    query_rand = with_seed(messages.query_rand, messages.seed_start, verify_key)
    return messages._replace(query_rand=query_rand)


@functools.lru_cache(maxsize=256)
def joint_rand_seed_message(parameters: Parameters, ctx: bytes) -> tuple[Table, int]:
    """Return the message of the joint randomness seed, and where its blank for the parts begins."""
    dst = domain_separation_tag(parameters.algorithm_id, USAGE_JOINT_RAND_SEED, ctx)
    message = message_words(dst, bytes(parameters.public_share_size))
    return message, seed_start(dst) + SEED_SIZE
