"""Takes one aggregator's reports through kernels or through the definition, to compare them."""

import numpy as np

from aggregator.vdaf.circuits import Measurement
from aggregator.vdaf.kernels import dispatch
from aggregator.vdaf.outcomes import ShareDecodeError
from aggregator.vdaf.prio3 import Prio3
from aggregator.vdaf.verification import Aggregator, QueriedShares, ReportShares, query_shares
from aggregator.vdaf.xof import ByteRows
from field import Vector, decode_rows
from field.lanes import LaneWidth

VERIFY_KEY = bytes(range(32))
CTX = b"a context"


def rows(strings: list[bytes]) -> ByteRows:
    return np.frombuffer(b"".join(strings), np.uint8).reshape(len(strings), -1)


def shares_of(
    prio3: Prio3, measurements: list[Measurement], agg_id: int, ctx: bytes = CTX
) -> ReportShares:
    rng = np.random.default_rng(len(measurements) + agg_id)
    nonces = [rng.bytes(prio3.nonce_size) for _ in measurements]
    rands = [rng.bytes(prio3.rand_size) for _ in measurements]
    shards = prio3.shard(ctx, measurements, nonces, rands)
    return ReportShares(
        Aggregator(VERIFY_KEY, ctx, agg_id),
        rows(nonces),
        rows(shards.public_shares),
        rows(shards.input_shares[agg_id]),
    )


def by_kernel(prio3: Prio3, shares: ReportShares, width: LaneWidth | None = None) -> QueriedShares:
    assert dispatch.is_fused(prio3)
    return queried(prio3, shares, width)


def queried(prio3: Prio3, shares: ReportShares, width: LaneWidth | None = None) -> QueriedShares:
    """What the kernel fills in, in the form that the definition returns."""
    results = dispatch.new_outputs(prio3, len(shares))
    for array in results:
        array[...] = 0xAA
    rejected = dispatch.query(prio3, shares, results, width=width)
    size = prio3.verifiers_share_size
    verifiers, _ = decode_rows(prio3.field, results.verifier_shares[:, :size])
    out_shares = dispatch.out_shares_of(prio3, results.out_shares)
    is_undecodable, is_rejected = np.zeros((2, len(shares)), np.bool_)
    for index, error in rejected.items():
        (is_undecodable if isinstance(error, ShareDecodeError) else is_rejected)[index] = True
    return QueriedShares(
        Vector(prio3.field, out_shares),
        verifiers,
        results.verifier_shares[:, size:],
        results.joint_rand_seeds,
        is_undecodable,
        is_rejected,
    )


def values(queried: QueriedShares, report: int) -> tuple[object, ...]:
    return (
        queried.out_shares[report].to_ints(),
        queried.verifiers_shares[report].to_ints(),
        queried.joint_rand_parts[report].tobytes(),
        queried.joint_rand_seeds[report].tobytes(),
        bool(queried.is_undecodable[report]),
        bool(queried.is_rejected[report]),
    )


def all_values(queried: QueriedShares) -> list[tuple[object, ...]]:
    return [values(queried, report) for report in range(len(queried.is_rejected))]


def agree(
    prio3: Prio3, measurements: list[Measurement], width: LaneWidth, ctx: bytes = CTX
) -> bool:
    for agg_id in range(prio3.num_shares):
        shares = shares_of(prio3, measurements, agg_id, ctx)
        if all_values(by_kernel(prio3, shares, width)) != all_values(query_shares(prio3, shares)):
            return False
    return True
