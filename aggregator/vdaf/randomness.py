"""Every use of the XOF in Prio3, by name.

Each method derives values for a whole batch. What a value depends on, and so who can know or bias
it, is its seed and its binder: the joint randomness depends on every aggregator's share of the
measurement, so that a client cannot choose a false measurement after seeing it; the query
randomness depends on the aggregators' key, so that a client cannot foresee it.

Source:
    VDAF, "Auxiliary Functions" of Prio3.
"""

from dataclasses import dataclass

from aggregator.vdaf import xof
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.seeds import SEED_SIZE
from aggregator.vdaf.xof import ByteRows
from field import Vector

_ZERO_SEED = bytes(SEED_SIZE)


@dataclass(frozen=True, slots=True)
class Randomness:
    """The values that one Prio3 derives in one application context.

    Attributes:
        parameters: The Prio3.
        ctx: The application context string.
    """

    parameters: Parameters
    ctx: bytes

    def helper_meas_shares(self, agg_id: int, seeds: ByteRows) -> Vector:
        """Return a helper's shares of the measurements, shape `(rows, meas_len)`."""
        return self._vectors(
            xof.USAGE_MEAS_SHARE, self.parameters.circuit.meas_len, seeds, bytes([agg_id])
        )

    def helper_proofs_shares(self, agg_id: int, seeds: ByteRows) -> Vector:
        """Return a helper's shares of all proofs, shape `(rows, proofs_len)`."""
        binder = bytes([self.parameters.num_proofs, agg_id])
        return self._vectors(xof.USAGE_PROOF_SHARE, self.parameters.proofs_len, seeds, binder)

    def prove_rands(self, seeds: ByteRows) -> Vector:
        """Return the prover's randomness for all proofs, `prove_rand_len` residues each."""
        length = self.parameters.circuit.prove_rand_len * self.parameters.num_proofs
        binder = bytes([self.parameters.num_proofs])
        return self._vectors(xof.USAGE_PROVE_RANDOMNESS, length, seeds, binder)

    def query_rands(self, verify_key: bytes, nonces: ByteRows) -> Vector:
        """Return the verifiers' randomness for all proofs, `query_rand_len` residues each."""
        parameters = self.parameters
        return xof.expand_into_vectors(
            parameters.field,
            parameters.circuit.query_rand_len * parameters.num_proofs,
            len(nonces),
            verify_key,
            self._dst(xof.USAGE_QUERY_RANDOMNESS),
            bytes([parameters.num_proofs]),
            nonces,
        )

    def joint_rand_parts(
        self, agg_id: int, blinds: ByteRows, nonces: ByteRows, meas_shares: ByteRows
    ) -> ByteRows:
        """Return one aggregator's part of the joint randomness of each report.

        Args:
            agg_id: The aggregator.
            blinds: They keep the parts from revealing anything about the shares.
            nonces: The reports' nonces.
            meas_shares: The aggregator's shares of the measurements, encoded.
        """
        return xof.derive_seeds(
            len(nonces),
            blinds,
            self._dst(xof.USAGE_JOINT_RAND_PART),
            bytes([agg_id]),
            nonces,
            meas_shares,
        )

    def joint_rand_seeds(self, parts: ByteRows) -> ByteRows:
        """Return the seeds of the joint randomness.

        Args:
            parts: All aggregators' parts, concatenated in order; without joint randomness there is
                neither part nor seed.
        """
        if not self.parameters.has_joint_rand:
            return parts
        return xof.derive_seeds(len(parts), _ZERO_SEED, self._dst(xof.USAGE_JOINT_RAND_SEED), parts)

    def joint_rands(self, seeds: ByteRows) -> Vector:
        """Return the joint randomness of all proofs, `joint_rand_len` residues each."""
        length = self.parameters.circuit.joint_rand_len * self.parameters.num_proofs
        if length == 0:
            return Vector.zeros(self.parameters.field, (len(seeds), 0))
        binder = bytes([self.parameters.num_proofs])
        return self._vectors(xof.USAGE_JOINT_RANDOMNESS, length, seeds, binder)

    def _vectors(self, usage: int, length: int, seeds: ByteRows, binder: bytes) -> Vector:
        """Expand one seed per report under a binder that all reports share."""
        return xof.expand_into_vectors(
            self.parameters.field, length, len(seeds), seeds, self._dst(usage), binder
        )

    def _dst(self, usage: int) -> bytes:
        """Return the domain separation tag of one use."""
        return xof.domain_separation_tag(self.parameters.algorithm_id, usage, self.ctx)
