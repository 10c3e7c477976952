"""What `verify_init` computes for a slice of a batch: shares in, verifier shares out.

`query_shares` does all of it, in terms of the field's vectors: it expands or decodes the input
shares, derives the joint randomness and queries the proofs. It works for every circuit, and it is
the definition that faster functions of the same signature are checked against.

Source:
    VDAF, "Verification" of Prio3.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from aggregator.vdaf import flp
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.randomness import Randomness
from aggregator.vdaf.seeds import SEED_SIZE
from aggregator.vdaf.shares import BoolRows, nth
from aggregator.vdaf.xof import ByteRows
from field import Vector, concat, decode_rows, encode_rows


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregator:
    """What all of an aggregator's verifications in a task have in common.

    Attributes:
        verify_key: The aggregators' key.
        ctx: The application context string.
        agg_id: The aggregator; 0 is the leader.
    """

    verify_key: bytes = dataclasses.field(repr=False)
    ctx: bytes
    agg_id: int


@dataclasses.dataclass(frozen=True, slots=True)
class ReportShares:
    """One aggregator's shares of a batch of reports, all of the right sizes.

    Attributes:
        aggregator: Whose shares they are.
        nonces: Shape `(rows, nonce_size)`.
        public_shares: Shape `(rows, public_share_size)`.
        input_shares: Shape `(rows, input_share_size(agg_id))`, in wire form.
    """

    aggregator: Aggregator
    nonces: ByteRows = dataclasses.field(repr=False)
    public_shares: ByteRows = dataclasses.field(repr=False)
    input_shares: ByteRows = dataclasses.field(repr=False)

    def __len__(self) -> int:
        return len(self.nonces)

    def rows(self, chosen: slice | npt.NDArray[np.intp]) -> "ReportShares":
        """Return some of the reports."""
        return dataclasses.replace(
            self,
            nonces=self.nonces[chosen],
            public_shares=self.public_shares[chosen],
            input_shares=self.input_shares[chosen],
        )


@dataclasses.dataclass(frozen=True, slots=True)
class QueriedShares:
    """What an aggregator learns from its shares of a batch of reports.

    Where a mask marks a report, its other values are meaningless.

    Attributes:
        out_shares: Shape `(rows, output_len)`.
        verifiers_shares: Shape `(rows, verifiers_len)`.
        joint_rand_parts: Shape `(rows, 32)`, or `(rows, 0)` without joint randomness.
        joint_rand_seeds: Shape `(rows, 32)`, or `(rows, 0)` without joint randomness.
        is_undecodable: Which input shares hold a number that is not a residue.
        is_rejected: Which reports met a test point that is a root of unity.
    """

    out_shares: Vector = dataclasses.field(repr=False)
    verifiers_shares: Vector = dataclasses.field(repr=False)
    joint_rand_parts: ByteRows = dataclasses.field(repr=False)
    joint_rand_seeds: ByteRows = dataclasses.field(repr=False)
    is_undecodable: BoolRows
    is_rejected: BoolRows


def query_shares(parameters: Parameters, shares: ReportShares) -> QueriedShares:
    """Expand or decode input shares, derive the joint randomness and query the proofs.

    The caller keeps the batch small enough: memory grows with its rows.
    """
    randomness = Randomness(parameters, shares.aggregator.ctx)
    expanded = _expand(randomness, shares)
    parts, seeds = _joint_rand(randomness, shares, expanded)
    verifiers = _query(randomness, shares, expanded, seeds)
    return QueriedShares(
        out_shares=parameters.circuit.truncate(expanded.meas_shares),
        verifiers_shares=verifiers.shares,
        joint_rand_parts=parts,
        joint_rand_seeds=seeds,
        is_undecodable=expanded.is_undecodable,
        is_rejected=verifiers.is_rejected,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Expanded:
    """Input shares as residues, `meas_len` and `proofs_len` per row, and the blinds."""

    meas_shares: Vector
    proofs_shares: Vector
    blinds: ByteRows
    is_undecodable: BoolRows


def _expand(randomness: Randomness, shares: ReportShares) -> _Expanded:
    """Decode the leader's input shares, or expand a helper's."""
    parameters, agg_id, data = randomness.parameters, shares.aggregator.agg_id, shares.input_shares
    end = data.shape[1] - parameters.blind_size
    if agg_id == 0:
        residues, is_whole = decode_rows(parameters.field, data[:, :end])
        meas_len = parameters.circuit.meas_len
        meas_shares, proofs_shares = residues[:, :meas_len], residues[:, meas_len:]
    else:
        is_whole = np.ones(len(shares), dtype=np.bool_)
        meas_shares = randomness.helper_meas_shares(agg_id, data[:, :end])
        proofs_shares = randomness.helper_proofs_shares(agg_id, data[:, :end])
    return _Expanded(meas_shares, proofs_shares, data[:, end:], ~is_whole)


def _joint_rand(
    randomness: Randomness, shares: ReportShares, expanded: _Expanded
) -> tuple[ByteRows, ByteRows]:
    """Return this aggregator's joint randomness parts, and the seeds that use them.

    Only the other aggregators' parts are taken from the client. If it lied about one, an
    aggregator's seed differs from that of the verifier message, and the report is rejected.
    """
    if not randomness.parameters.has_joint_rand:
        nothing = np.empty((len(shares), 0), dtype=np.uint8)
        return nothing, nothing
    parts = randomness.joint_rand_parts(
        shares.aggregator.agg_id, expanded.blinds, shares.nonces, encode_rows(expanded.meas_shares)
    )
    corrected = shares.public_shares.copy()
    corrected[
        :, shares.aggregator.agg_id * SEED_SIZE : (shares.aggregator.agg_id + 1) * SEED_SIZE
    ] = parts
    return parts, randomness.joint_rand_seeds(corrected)


def _query(
    randomness: Randomness, shares: ReportShares, expanded: _Expanded, seeds: ByteRows
) -> flp.Verifiers:
    """Return the verifier shares of all proofs, side by side; one rejected proof rejects all."""
    parameters = randomness.parameters
    circuit = parameters.circuit
    query_rands = randomness.query_rands(shares.aggregator.verify_key, shares.nonces)
    joint_rands = randomness.joint_rands(seeds)
    verifiers = [
        flp.query(
            circuit,
            expanded.meas_shares,
            nth(expanded.proofs_shares, proof, circuit.proof_len),
            nth(query_rands, proof, circuit.query_rand_len),
            nth(joint_rands, proof, circuit.joint_rand_len),
            parameters.num_shares,
        )
        for proof in range(parameters.num_proofs)
    ]
    return flp.Verifiers(
        concat([verifier.shares for verifier in verifiers]),
        np.logical_or.reduce([verifier.is_rejected for verifier in verifiers]),
    )
