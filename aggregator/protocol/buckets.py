"""Batch buckets: what reports add up to, until their batch is released.

Source: DAP, "Batch Buckets".
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.protocol.batches import BatchTotals
    from aggregator.vdaf.prio3 import Prio3
    from field import Vector


@dataclasses.dataclass(frozen=True, slots=True)
class BucketShare:
    """What some reports add to the bucket of a key: the sum of their out shares, and its totals."""

    bucket: bytes
    agg_share: Vector = dataclasses.field(repr=False)
    totals: BatchTotals


def merge_agg_shares(vdaf: Prio3, encoded: Sequence[bytes]) -> Vector:
    """Return the sum of encoded aggregate shares; if there are none, the empty one."""
    agg_shares = [vdaf.decode_agg_share(share) for share in encoded]
    return vdaf.merge([vdaf.agg_init(), *agg_shares])


def add_to_agg_share(vdaf: Prio3, stored: bytes | None, agg_share: Vector) -> bytes:
    """Return the encoded sum of a stored aggregate share, if any, and another."""
    if stored is None:
        return vdaf.encode_agg_share(agg_share)
    return vdaf.encode_agg_share(vdaf.merge([vdaf.decode_agg_share(stored), agg_share]))
