"""Batch buckets: what reports add up to, until their batch is released.

Source: DAP, "Batch Buckets"; VDAF, "Aggregation".
"""

import dataclasses
from collections.abc import Sequence

from aggregator.protocol.batches import BatchTotals
from aggregator.vdaf.prio3 import Prio3
from field import Vector


@dataclasses.dataclass(frozen=True, slots=True)
class BucketShare:
    """What some reports of one bucket add to it.

    Attributes:
        bucket: The bucket's key.
        agg_share: The sum of their out shares.
        totals: What else is said of them.
    """

    bucket: bytes
    agg_share: Vector = dataclasses.field(repr=False)
    totals: BatchTotals


def merge_agg_shares(prio3: Prio3, encoded: Sequence[bytes]) -> Vector:
    """Return the sum of encoded aggregate shares; of none, the empty aggregate share."""
    agg_shares = [prio3.decode_agg_share(share) for share in encoded]
    return prio3.merge([prio3.agg_init(), *agg_shares])


def add_to_agg_share(prio3: Prio3, stored: bytes | None, agg_share: Vector) -> bytes:
    """Return the encoding of a stored aggregate share, if there is one, plus another."""
    if stored is None:
        return prio3.encode_agg_share(agg_share)
    return prio3.encode_agg_share(prio3.merge([prio3.decode_agg_share(stored), agg_share]))
