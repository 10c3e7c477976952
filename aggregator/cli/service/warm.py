"""`prio warm`: compiles the kernels ahead of time, so that the first report need not wait.

An image is built with it, so that a service on a read-only file system finds the cache ready.
Kernels that are already compiled are only loaded.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from aggregator.entropy import SystemEntropy

if TYPE_CHECKING:
    from aggregator.vdaf.circuits.measurements import Measurement
    from aggregator.vdaf.prio3 import Prio3

_REPORTS = 20


def warm() -> None:
    """Compile the kernels of every type, and keep them in NUMBA_CACHE_DIR if that is set."""
    from aggregator.cli.spinner import spinning
    from aggregator.dap.profile import Role
    from aggregator.service.runtime.kernels import exercise, is_kept
    from aggregator.service.telemetry.compiling import kernel_folder, one_at_a_time
    from aggregator.vdaf.instances import TYPES
    from field.lanes import compile_here

    compile_here()
    folder = kernel_folder()
    with ExitStack() as stack:
        if folder is not None and is_kept():
            with spinning("waiting for another process that compiles kernels"):
                stack.enter_context(one_at_a_time(folder, list(TYPES)))
        for row in TYPES.values():
            started = time.monotonic()
            prio3 = row.prio3(row.typical())
            with spinning(f"compiling kernels of {row.name}, unless they are cached"):
                _take_through(prio3, prio3.circuit.furthest_measurements()[1])
                for role in (Role.LEADER, Role.HELPER):
                    exercise(prio3, role)
            print(f"{row.name}: {time.monotonic() - started:.1f} seconds")


def _take_through(prio3: "Prio3", measurement: "Measurement") -> None:
    """Take a few made-up reports all the way from the client to the result."""
    from aggregator.vdaf.ping_pong import (
        HELPER_ID,
        LEADER_ID,
        helper_initialized,
        leader_continued,
        leader_initialized,
    )

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
