"""Answers the aggregation jobs that a helper has put off: `prio helper work`.

A front takes them, stores them and asks their leader to come again. Here they are leased by the
store's clock, so that those of a worker that dies go to another, verified as a helper
does that answers at once, and answered in the transaction in which they stop to wait.

Source: DAP, "Asynchronous Request Handling".
"""

from typing_extensions import override

from aggregator.dap.ids import TaskId
from aggregator.errors import Abort
from aggregator.protocol.task import Task
from aggregator.service.config import DEFERRED_AT_ONCE, DEFERRED_LEASE_SECONDS
from aggregator.service.helper.aggregation import AggregationJobs
from aggregator.service.runtime import Runtime
from aggregator.service.storage.jobs.deferred_jobs import (
    DEFERRED_JOBS,
    DeferredJob,
    end_deferred_job,
    read_request,
)
from aggregator.service.storage.jobs.leases import Leased
from aggregator.service.telemetry.lines import log
from aggregator.service.transport.driver import Driver, DriverSettings


class DeferredJobs(Driver[DeferredJob]):
    """Answers what was put off, of all tasks of the helper."""

    jobs = DEFERRED_JOBS

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
        settings = DriverSettings(at_once, lease_seconds, jobs_per_helper=at_once)
        super().__init__(runtime, settings)
        self._answers = AggregationJobs(runtime, max_age_seconds)

    @override
    def _host_of(self, task: Task) -> str:
        return ""  # they wait for nobody

    @override
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
