"""The kernels that an aggregator verifies with, and whether they are compiled.

A kernel is compiled once per machine and kept on its disk. `exercise` calls every kernel that an
aggregator needs for one type: in a process that may compile, this compiles them; elsewhere, it
finds out whether they are there.
"""

from fractions import Fraction
from pathlib import Path

import numpy as np

from aggregator.dap.hmac_rows import hmac_rows
from aggregator.dap.profile import Role
from aggregator.dap.x25519 import BASE_POINT, FEWEST, LANES
from aggregator.dp.samplers.keystream import Keystream
from aggregator.dp.samplers.two_sided_geometric import TwoSidedGeometric
from aggregator.entropy import SystemEntropy
from aggregator.vdaf import kernels
from aggregator.vdaf.prio3 import Prio3
from field.lanes import KernelCache, KernelMissing, kernel_cache, looking_for_kernels


def vdaf_kernel_cache() -> KernelCache | None:
    """Return the cache of the verification kernels, as this process first found it."""
    return kernel_cache(Path(kernels.__path__[0]))


def is_kept() -> bool:
    """Return whether compiled kernels can be stored for other processes."""
    cache = vdaf_kernel_cache()
    return cache is not None and cache.is_writable


def are_compiled(prio3: Prio3, role: Role) -> bool:
    """Return whether all kernels for one type are compiled; if so, this process now uses them."""
    try:
        with looking_for_kernels():
            exercise(prio3, role)
    except KernelMissing:
        return False
    return True


def exercise(prio3: Prio3, role: Role) -> None:
    """Call every kernel that opens, verifies, adds up and draws noise for one type.

    Raises:
        KernelMissing: One is not compiled, and kernels are being looked for.
    """
    ctx = b"exercise"
    # A report of zeros, which no client made.
    begun = prio3.verify_init(
        bytes(prio3.verify_key_size),
        ctx,
        role.agg_id,
        [bytes(prio3.nonce_size)],
        [bytes(prio3.public_share_size)],
        [bytes(prio3.input_share_size(role.agg_id))],
    )
    shares = np.zeros((1, prio3.verifier_share_size), np.uint8)
    prio3.verifier_shares_to_message(ctx, [shares] * prio3.num_shares)
    total = prio3.agg_update(prio3.agg_init(), begun.state.out_shares)
    prio3.merge([total, total])
    scale, digits = Fraction(10), 9
    noise = TwoSidedGeometric(scale, digits, has_tail=True)
    noise.draw(1, Keystream(SystemEntropy()))
    hmac_rows(np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.uint8))
    LANES.exchange([BASE_POINT] * FEWEST, [BASE_POINT] * FEWEST)
