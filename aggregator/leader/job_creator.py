"""Groups stored reports into aggregation jobs.

A job is made as soon as there are reports for a full one. The rest wait a moment for company, so
that a trickle of uploads does not become a job per report. Reports of long vectors fill a job
sooner, for a whole job is held in memory. Where the leader selects the batches, all reports of a
job go into the oldest batch that holds fewer than `min_batch_size`.
"""

from aggregator.dap.profile import Role
from aggregator.protocol.task import Task
from aggregator.runtime import Runtime
from aggregator.storage.aggregation_jobs import create_aggregation_job
from aggregator.storage.database import Transaction
from aggregator.storage.reports import unclaimed_reports
from aggregator.storage.selected_batches import batch_with_room

MAX_JOB_SIZE = 32 * 2**20
"""Approximate bytes of input shares per job."""


class JobCreator:
    """Makes aggregation jobs for all tasks of the leader."""

    def __init__(self, runtime: Runtime, *, job_size: int, linger_seconds: int) -> None:
        """Make jobs in the store of `runtime`.

        Args:
            runtime: The leader.
            job_size: Reports in a full job.
            linger_seconds: How long fewer reports wait for more.
        """
        self._runtime = runtime
        self._job_size = job_size
        self._linger_seconds = linger_seconds
        self._waiting_since: dict[bytes, int] = {}

    async def run_once(self) -> int:
        """Make the jobs that are due now; return how many."""
        created = 0
        for served in await self._runtime.tasks():
            task_id, job_size = served.task.task_id.value, self._size_for(served.task)
            unclaimed = await self._runtime.database.read(
                "unclaimed reports",
                lambda tx, task_id=task_id: unclaimed_reports(tx, task_id),  # type: ignore[misc]  # binds the loop's value now
            )
            while unclaimed and await self._create(
                served.task, job_size, self._minimum(task_id, job_size, unclaimed)
            ):
                created += 1
                unclaimed -= min(unclaimed, job_size)
        return created

    def _size_for(self, task: Task) -> int:
        """Return how many reports of a task make a full job."""
        prio3 = task.prio3
        report_size = prio3.public_share_size + sum(
            prio3.input_share_size(role.agg_id) for role in (Role.LEADER, Role.HELPER)
        )
        fitting = max(1, min(self._job_size, MAX_JOB_SIZE // report_size))
        return min(fitting, task.min_batch_size) if task.batching.leader_selects else fitting

    def _minimum(self, task_id: bytes, job_size: int, unclaimed: int) -> int:
        """Return the fewest reports that make a job now."""
        if unclaimed >= job_size:
            self._waiting_since.pop(task_id, None)
            return job_size
        now = self._runtime.clock.now()
        since = self._waiting_since.setdefault(task_id, now)
        if now - since < self._linger_seconds:
            return job_size
        del self._waiting_since[task_id]
        return 1

    async def _create(self, task: Task, job_size: int, minimum: int) -> bool:
        task_id = task.task_id.value

        def create(tx: Transaction) -> bool:
            bucket, room = b"", job_size
            if task.batching.leader_selects:
                bucket, room = batch_with_room(tx, task_id, task.min_batch_size)
            limit = min(job_size, room)
            job = create_aggregation_job(tx, task_id, limit, min(minimum, limit), bucket)
            return job is not None

        return await self._runtime.database.run("create aggregation job", create)
