"""Answers the aggregation jobs that a helper has put off: `prio helper work`.

A front takes them, stores them and asks their leader to come again. Here they are leased by the
store's clock, so that those of a worker that dies go to another, verified as a helper
does that answers at once, and answered in the transaction in which they stop to wait.

Source: DAP, "Asynchronous Request Handling".
"""

import anyio

from aggregator.dap.ids import TaskId
from aggregator.errors import Abort
from aggregator.protocol.task import Task
from aggregator.service.config import DEFERRED_AT_ONCE, DEFERRED_LEASE_SECONDS
from aggregator.service.helper.aggregation import AggregationJobs
from aggregator.service.runtime import Runtime
from aggregator.service.storage.jobs.deferred_jobs import (
    DeferredJob,
    due_deferred_jobs,
    end_deferred_job,
    lease_deferred_jobs,
    read_request,
    release_deferred_job,
    renew_deferred_job,
)
from aggregator.service.storage.jobs.leases import Leased
from aggregator.service.telemetry.lines import log
from aggregator.service.transport.permits import Permits
from aggregator.service.transport.scheduler import DriverSettings, Jobs, Scheduler


def _nobody(_task: Task) -> str:
    """Name no host: these jobs wait for nobody but us."""
    return ""


class DeferredJobs:
    """Answers what was put off, of all tasks of the helper."""

    def __init__(
        self,
        runtime: Runtime,
        max_age_seconds: int,
        *,
        at_once: int = DEFERRED_AT_ONCE,
        lease_seconds: int = DEFERRED_LEASE_SECONDS,
    ) -> None:
        """Answer the jobs in the store of `runtime`.

        Args:
            runtime: The helper's.
            max_age_seconds: How far behind its clock a report's time may lie.
            at_once: How many jobs are answered at once.
            lease_seconds: How long a job is ours unless we renew that.
        """
        self._runtime = runtime
        self._answers = AggregationJobs(runtime, max_age_seconds)
        self._scheduler: Scheduler[DeferredJob] = Scheduler(
            runtime,
            Jobs(
                "deferred",
                due_deferred_jobs,
                lease_deferred_jobs,
                renew_deferred_job,
                release_deferred_job,
            ),
            self._step,
            DriverSettings(concurrency=at_once, lease_seconds=lease_seconds),
            Permits(at_once, at_once, runtime.clock.now),
            host=_nobody,
        )

    async def run(self, stop: anyio.Event, poll_seconds: float) -> None:
        """Answer jobs until `stop` is set; see `Scheduler.run`."""
        await self._scheduler.run(stop, poll_seconds)

    async def run_once(self) -> int:
        """Answer the jobs that are due now, as many as at once; return how many."""
        return await self._scheduler.run_once()

    async def _step(self, leased: Leased[DeferredJob]) -> None:
        served = await self._runtime.task(TaskId(leased.job.task_id))
        body = await self._runtime.database.read(
            "read deferred job", lambda tx: read_request(tx, leased.lease)
        )
        try:
            await self._answers.answer_deferred(served, body, leased)
        except Abort as error:  # which the front's checks have let pass
            log.error("deferred job refused", reason=str(error))
            # Its leader finds no such job, sends it again and hears the same.
            await self._runtime.database.run(
                "refuse deferred job", lambda tx: end_deferred_job(tx, leased.lease)
            )
