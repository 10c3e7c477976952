"""The threads in which an aggregator verifies reports, outside the event loop.

Kernels release the interpreter lock, so as many steps run at once as there are cores. Tasks take
turns.
"""

import os
import time
from collections.abc import Callable
from typing import TypeVar

from aggregator.dap.profile import Role
from aggregator.protocol.task import Task
from aggregator.service.runtime.fair_queue import Threads
from aggregator.service.telemetry.metrics import VERIFICATION_SECONDS, VERIFICATION_WAIT_SECONDS
from aggregator.service.telemetry.tracing import span

T = TypeVar("T")
U = TypeVar("U")


class VerificationThreads:
    """Runs steps of verification for one role."""

    def __init__(self, role: Role, threads: int | None) -> None:
        """Verify as `role`, in this many threads; one per core by default."""
        self._role = role
        self._threads = Threads(threads or os.cpu_count() or 1)

    async def run(self, task: Task, work: Callable[[], T], then: Callable[[T], U]) -> U:
        """Return `then(work())`, where `work` is a step of verifying reports of `task`.

        It never waits for the compiler: until the kernels are compiled, it runs without them. What
        follows is done in the same thread, since to change threads twice costs more than a small
        job's verification.
        """
        asked = time.perf_counter()

        def timed() -> U:
            VERIFICATION_WAIT_SECONDS.observe(time.perf_counter() - asked)
            return then(self.run_here(task, work))

        return await self._threads.run(task.task_id.value, timed)

    def run_here(self, task: Task, work: Callable[[], T]) -> T:
        """Return `work()`, a step of verifying reports of `task`, in the calling thread."""
        self.warm_up(task)
        with VERIFICATION_SECONDS.time(), span("verify"):
            return work()

    def warm_up(self, task: Task) -> None:
        """Start getting the kernels of a task, in the background."""
        from aggregator.service.runtime.compilation import Kind
        from aggregator.service.runtime.kernel_keeper import kernel_keeper

        configuration = task.configuration
        kind = Kind(self._role, configuration.vdaf_type, configuration.vdaf_configuration)
        kernel_keeper().want(kind)
