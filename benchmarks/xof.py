"""The hashing in verification done alone, as the baseline for the rest.

Whatever the implementation, an aggregator hashes per report: its shares of measurement and proof (a
helper), its part of the joint randomness, the seed of that and its expansion, and the query
randomness. The amounts follow from the sizes in `aggregator.vdaf.randomness`.
"""

import dataclasses

from aggregator.vdaf.kernels.keccak import permute
from aggregator.vdaf.kernels.sponge import RATE_SIZE, RATE_WORDS
from aggregator.vdaf.kernels.xof import SPONGE_ROWS, absorb_words, squeeze_words
from aggregator.vdaf.prio3 import Prio3
from aggregator.vdaf.seeds import SEED_SIZE
from aggregator.vdaf.xof import domain_separation_tag
from field.lanes import LaneArray, LaneWidth, kernel, lane_width, new_lane_array


@dataclasses.dataclass(frozen=True, slots=True)
class XofPass:
    """One stream per report.

    Attributes:
        message_size: Bytes absorbed.
        stream_size: Bytes squeezed.
    """

    message_size: int
    stream_size: int

    @property
    def blocks_in(self) -> int:
        """Blocks absorbed, padding included."""
        return self.message_size // RATE_SIZE + 1

    @property
    def permutations(self) -> int:
        """One per block absorbed, and one per block squeezed except the first."""
        return self.blocks_in + max(0, -(-self.stream_size // RATE_SIZE) - 1)


def passes(prio3: Prio3, ctx: bytes, agg_id: int) -> list[XofPass]:
    """Return the streams that one aggregator needs for a report."""
    head = 3 + len(domain_separation_tag(prio3.algorithm_id, 0, ctx)) + SEED_SIZE
    circuit, element, proofs = prio3.circuit, prio3.field.encoded_size, prio3.num_proofs
    found = [XofPass(head + 1 + prio3.nonce_size, circuit.query_rand_len * proofs * element)]
    if agg_id > 0:
        found.append(XofPass(head + 1, prio3.meas_share_size))
        found.append(XofPass(head + 2, prio3.proofs_share_size))
    if prio3.has_joint_rand:
        found.append(XofPass(head + 1 + prio3.nonce_size + prio3.meas_share_size, SEED_SIZE))
        found.append(XofPass(head + prio3.public_share_size, SEED_SIZE))
        found.append(XofPass(head + 1, circuit.joint_rand_len * proofs * element))
    return found


def hash_only(prio3: Prio3, ctx: bytes, agg_id: int, reports: int) -> None:
    """Absorb and squeeze as much as the verification of that many reports does."""
    width = lane_width()
    lanes = len(width)
    for each in passes(prio3, ctx, agg_id):
        message = new_lane_array(each.blocks_in * RATE_WORDS, lanes)
        message[:] = 0
        words = -(-each.stream_size // 8)
        stream = new_lane_array(max(words, 1), lanes)
        sponge = new_lane_array(SPONGE_ROWS, lanes)
        _hash_groups(width, message, stream, words, sponge, -(-reports // lanes))


def permute_only(prio3: Prio3, ctx: bytes, agg_id: int, reports: int) -> None:
    """Apply as many Keccak permutations as the verification of that many reports needs."""
    width = lane_width()
    sponge = new_lane_array(SPONGE_ROWS, len(width))
    sponge[:] = 0
    count = sum(each.permutations for each in passes(prio3, ctx, agg_id))
    _permute_often(width, sponge, count * -(-reports // len(width)))


@kernel
def _hash_groups(
    width: LaneWidth,
    message: LaneArray,
    stream: LaneArray,
    words: int,
    sponge: LaneArray,
    groups: int,
) -> None:
    for _ in range(groups):
        sponge[:] = 0
        absorb_words(width, sponge, 0, message, 0, message.shape[0], 0)
        squeeze_words(width, sponge, stream, 0, words)


@kernel
def _permute_often(width: LaneWidth, sponge: LaneArray, count: int) -> None:
    for _ in range(count):
        permute(width, sponge)
