"""The parameters of a Prio3 (algorithm id, circuit, numbers of shares and proofs) and all sizes.

Source:
    VDAF, "Prio3".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits.base import Circuit
from aggregator.vdaf.seeds import SEED_SIZE
from field import Field

MAX_INPUT_SHARE_SIZE = 2**32 - 1
"""DAP writes the size of an input share in four bytes."""


@dataclass(frozen=True)  # No slots: sizes are cached when they are first asked for.
class Parameters:
    """The parameters of one Prio3 and the sizes that follow, in bytes.

    Attributes:
        algorithm_id: The VDAF code point, part of every domain separation tag.
        circuit: The validity circuit.
        num_shares: How many aggregators share a measurement, 2 to 255.
        num_proofs: How many proofs a report carries, 1 to 255; several make a small field sound.

    Raises:
        ParameterError: One is out of range, or the leader's share would not fit in a message.
    """

    algorithm_id: int
    circuit: Circuit
    num_shares: int = 2
    num_proofs: int = 1

    nonce_size: ClassVar[int] = 16
    verify_key_size: ClassVar[int] = SEED_SIZE

    def __post_init__(self) -> None:
        for name, value, smallest, largest in (
            ("algorithm_id", self.algorithm_id, 0, 2**32 - 1),
            ("num_shares", self.num_shares, 2, 255),
            ("num_proofs", self.num_proofs, 1, 255),
        ):
            if not smallest <= value <= largest:
                raise ParameterError(f"{name} must be from {smallest} to {largest}, not {value}")
        if self.input_share_size(0) > MAX_INPUT_SHARE_SIZE:
            raise ParameterError(
                f"an input share must have at most {MAX_INPUT_SHARE_SIZE} bytes, "
                f"not {self.input_share_size(0)}"
            )

    @cached_property
    def field(self) -> Field:
        """The field of all residues."""
        return self.circuit.field

    @cached_property
    def output_len(self) -> int:
        """How many residues an out share or an aggregate share has."""
        return self.circuit.output_len

    @cached_property
    def has_joint_rand(self) -> bool:
        """Whether the proofs need randomness that depends on every share of the measurement."""
        return self.circuit.joint_rand_len > 0

    @cached_property
    def proofs_len(self) -> int:
        """How many residues all proofs of a report have."""
        return self.circuit.proof_len * self.num_proofs

    @cached_property
    def verifiers_len(self) -> int:
        """How many residues all verifiers of a report have."""
        return self.circuit.verifier_len * self.num_proofs

    @cached_property
    def blind_size(self) -> int:
        """The size of a blind, of a joint randomness part and of its seed; 0 if there is none."""
        return SEED_SIZE if self.has_joint_rand else 0

    @cached_property
    def rand_size(self) -> int:
        """Random bytes to shard one measurement: a seed and a blind, if any, per aggregator."""
        return self.num_shares * (SEED_SIZE + self.blind_size)

    @cached_property
    def public_share_size(self) -> int:
        """A joint randomness part per aggregator."""
        return self.num_shares * self.blind_size

    @cached_property
    def meas_share_size(self) -> int:
        """A share of the encoded measurement."""
        return self.circuit.meas_len * self.field.encoded_size

    @cached_property
    def proofs_share_size(self) -> int:
        """A share of all proofs."""
        return self.proofs_len * self.field.encoded_size

    def input_share_size(self, agg_id: int) -> int:
        """Return the size of one aggregator's input share.

        The leader, aggregator 0, gets residues; a helper gets the seed that expands to its own.
        """
        share = self.meas_share_size + self.proofs_share_size if agg_id == 0 else SEED_SIZE
        return share + self.blind_size

    @cached_property
    def verifiers_share_size(self) -> int:
        """A share of all verifiers, without the joint randomness part."""
        return self.verifiers_len * self.field.encoded_size

    @cached_property
    def verifier_share_size(self) -> int:
        """A share of all verifiers, and the joint randomness part."""
        return self.verifiers_share_size + self.blind_size

    @cached_property
    def verifier_message_size(self) -> int:
        """The joint randomness seed."""
        return self.blind_size
