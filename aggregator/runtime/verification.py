"""The threads in which an aggregator verifies, beside the event loop.

Kernels release the interpreter lock, so as many steps run at once as there are cores. Tasks take
turns.
"""

import os
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import structlog

from aggregator.dap.profile import Role
from aggregator.protocol.task import Task
from aggregator.runtime.turns import Threads
from aggregator.telemetry.metrics import VERIFICATION_SECONDS, VERIFICATION_WAIT_SECONDS

log = structlog.get_logger()

T = TypeVar("T")


class VerificationThreads:
    """Runs steps of verification for one role."""

    def __init__(self, role: Role, threads: int | None) -> None:
        """Verify as `role`, in this many threads; one per core by default."""
        self._role = role
        self._threads = Threads(threads or os.cpu_count() or 1)
        self._warm: set[tuple[int, bytes]] = set()

    async def run(self, task: Task, work: Callable[[], T]) -> T:
        """Return `work()`, a step of verification of reports of `task`.

        The first step for a kind of task may have to compile its kernels; the log says so.
        """
        await self.warm_up(task)
        asked = time.perf_counter()

        def timed() -> T:
            VERIFICATION_WAIT_SECONDS.observe(time.perf_counter() - asked)
            with VERIFICATION_SECONDS.time():
                return work()

        return await self._threads.run(task.task_id.value, timed)

    async def warm_up(self, task: Task) -> None:
        """Compile the kernels of a task."""
        kind = (task.configuration.vdaf_type, task.configuration.vdaf_configuration)
        if kind not in self._warm:
            self._warm.add(kind)
            vdaf = f"Prio3{task.prio3.circuit.name}"
            log.info("compiling kernels, unless they are cached", vdaf=vdaf)
            started = time.monotonic()
            await self._threads.run(task.task_id.value, lambda: _verify_nothing(task, self._role))
            seconds = round(time.monotonic() - started, 1)
            log.info("kernels ready", vdaf=vdaf, seconds=seconds)


def _verify_nothing(task: Task, role: Role) -> None:
    """Take a report of zeros, which no client made, through every kernel of our role."""
    prio3 = task.prio3
    prio3.verify_init(
        bytes(prio3.verify_key_size),
        task.ctx,
        role.agg_id,
        [bytes(prio3.nonce_size)],
        [bytes(prio3.public_share_size)],
        [bytes(prio3.input_share_size(role.agg_id))],
    )
    verifier_shares = np.zeros((1, prio3.verifier_share_size), np.uint8)
    prio3.verifier_shares_to_message(task.ctx, [verifier_shares] * prio3.num_shares)
