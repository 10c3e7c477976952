"""`prio warm`: compiles the kernels ahead, so that no first report has to wait for them.

An image is built with it: its cache then lies ready where a service with a read-only file system
finds it. Kernels that are compiled already are only loaded.
"""

import time
from collections.abc import Mapping, Sequence

from aggregator.entropy import SystemEntropy
from aggregator.vdaf.circuits.measurements import Measurement
from aggregator.vdaf.instances import vdaf_from_parameters
from aggregator.vdaf.ping_pong import (
    HELPER_ID,
    LEADER_ID,
    helper_initialized,
    leader_continued,
    leader_initialized,
)
from aggregator.vdaf.prio3 import Prio3

_SAMPLES: Mapping[str, tuple[Mapping[str, int], Measurement]] = {
    "Prio3Count": ({}, 1),
    "Prio3Sum": ({"max_measurement": 6}, 5),
    "Prio3SumVec": ({"length": 5, "max_measurement": 6}, [0, 1, 2, 3, 6]),
    "Prio3Histogram": ({"length": 9}, 3),
    "Prio3MultihotCountVec": ({"length": 6, "max_weight": 2}, [0, 1, 0, 0, 1, 0]),
    "Prio3L1BoundSum": ({"length": 5, "max_value": 6}, [0, 1, 2, 3, 0]),
}
"""A task of each type, and a measurement of it."""

_REPORTS = 20


def warm() -> None:
    """Compile the kernels of every type, and keep them in NUMBA_CACHE_DIR if that is set."""
    for name, (parameters, measurement) in _SAMPLES.items():
        started = time.monotonic()
        _take_through(vdaf_from_parameters(name, parameters), measurement)
        print(f"{name}: {time.monotonic() - started:.1f} seconds")


def _take_through(prio3: Prio3, measurement: Measurement) -> None:
    """Take a few made-up reports from the client to the result."""
    entropy, ctx = SystemEntropy(), b"warm"

    def draw(size: int) -> Sequence[bytes]:
        return [entropy.bytes(size) for _ in range(_REPORTS)]

    verify_key, nonces = entropy.bytes(prio3.verify_key_size), draw(prio3.nonce_size)
    shards = prio3.shard(ctx, [measurement] * _REPORTS, nonces, draw(prio3.rand_size))
    reports = (verify_key, ctx, nonces, shards.public_shares)
    leader = leader_initialized(prio3, *reports, shards.input_shares[LEADER_ID])
    helper = helper_initialized(
        prio3, *reports, shards.input_shares[HELPER_ID], inbound=leader.outbound
    )
    out_shares = leader_continued(prio3, leader, helper.outbound), helper.out_shares
    agg_shares = [prio3.agg_update(prio3.agg_init(), each.shares) for each in out_shares]
    prio3.unshard(agg_shares, _REPORTS)
