"""The client's part: measurements to public shares and input shares.

Source:
    VDAF, "Sharding" of Prio3.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from aggregator.vdaf import flp
from aggregator.vdaf.circuits import Measurement, MeasurementError
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.randomness import Randomness
from aggregator.vdaf.seeds import SEED_SIZE
from aggregator.vdaf.shares import WORKING_MEMORY, Batch, checked_rows, nth, slices, to_strings
from aggregator.vdaf.xof import ByteRows
from field import Vector, concat, encode_rows


@dataclasses.dataclass(frozen=True, slots=True)
class Shards:
    """Measurements, sharded and encoded.

    Attributes:
        public_shares: One per report.
        input_shares: For each aggregator, one per report: `input_shares[agg_id][report]`.
    """

    public_shares: list[bytes] = dataclasses.field(repr=False)
    input_shares: list[list[bytes]] = dataclasses.field(repr=False)


def shard(
    parameters: Parameters,
    ctx: bytes,
    measurements: Sequence[Measurement],
    nonces: Batch,
    rands: Batch,
) -> Shards:
    """Return the shares of each measurement; see `Prio3.shard`."""
    nonce_rows = checked_rows("nonce", nonces, len(measurements), parameters.nonce_size)
    rand_rows = checked_rows("rand", rands, len(measurements), parameters.rand_size)
    randomness = Randomness(parameters, ctx)
    shards = Shards([], [[] for _ in range(parameters.num_shares)])
    for part in slices(len(measurements), flp.working_size(parameters.circuit), WORKING_MEMORY):
        try:
            meas = parameters.circuit.encode(measurements[part])
        except MeasurementError as error:
            raise error.moved_by(part.start) from None
        public_shares, input_shares = _shard_rows(
            randomness, meas, nonce_rows[part], rand_rows[part]
        )
        shards.public_shares.extend(to_strings(public_shares))
        for strings, rows in zip(shards.input_shares, input_shares, strict=True):
            strings.extend(to_strings(rows))
    return shards


def _shard_rows(
    randomness: Randomness, meas: Vector, nonces: ByteRows, rands: ByteRows
) -> tuple[ByteRows, list[ByteRows]]:
    """Return the public shares and, for each aggregator, the input shares."""
    parameters = randomness.parameters
    num_helpers = parameters.num_shares - 1
    seeds = rands.reshape(len(rands), parameters.rand_size // SEED_SIZE, SEED_SIZE)
    prove_seeds = seeds[:, -1]
    if parameters.has_joint_rand:
        # A seed and a blind for each helper, then the leader's blind and the prover's seed.
        helper_seeds = seeds[:, 0 : 2 * num_helpers : 2]
        blinds = [seeds[:, -2], *(seeds[:, 2 * helper + 1] for helper in range(num_helpers))]
    else:
        helper_seeds = seeds[:, :num_helpers]
        blinds = []

    helper_meas_shares = [
        randomness.helper_meas_shares(helper + 1, helper_seeds[:, helper])
        for helper in range(num_helpers)
    ]
    leader_meas_share = meas
    for share in helper_meas_shares:
        leader_meas_share = leader_meas_share - share
    meas_shares = [leader_meas_share, *helper_meas_shares]

    parts = [
        randomness.joint_rand_parts(agg_id, blind, nonces, encode_rows(meas_shares[agg_id]))
        for agg_id, blind in enumerate(blinds)
    ]
    empty = np.empty((len(nonces), 0), dtype=np.uint8)
    public_shares = np.concatenate([empty, *parts], axis=1)

    leader_proofs_share = _prove(randomness, meas, prove_seeds, public_shares)
    for helper in range(num_helpers):
        leader_proofs_share = leader_proofs_share - randomness.helper_proofs_shares(
            helper + 1, helper_seeds[:, helper]
        )

    shares = [encode_rows(concat([leader_meas_share, leader_proofs_share]))]
    shares.extend(helper_seeds[:, helper] for helper in range(num_helpers))
    return public_shares, [
        np.concatenate([share, *blinds[agg_id : agg_id + 1]], axis=1)
        for agg_id, share in enumerate(shares)
    ]


def _prove(
    randomness: Randomness, meas: Vector, prove_seeds: ByteRows, public_shares: ByteRows
) -> Vector:
    """Return all proofs of each report, shape `(rows, proofs_len)`."""
    parameters = randomness.parameters
    circuit = parameters.circuit
    prove_rands = randomness.prove_rands(prove_seeds)
    joint_rands = randomness.joint_rands(randomness.joint_rand_seeds(public_shares))
    proofs = [
        flp.prove(
            circuit,
            meas,
            nth(prove_rands, proof, circuit.prove_rand_len),
            nth(joint_rands, proof, circuit.joint_rand_len),
        )
        for proof in range(parameters.num_proofs)
    ]
    return concat(proofs)
