"""Groups stored reports into aggregation jobs.

A job is made as soon as there are reports for a full one. The rest wait a moment for company, so
that a trickle of uploads does not become a job per report. Reports of long vectors fill a job
sooner, for a whole job is held in memory. Tasks take turns, so that one with a large backlog delays
no other, and a task without reports costs next to nothing, so that there may be many.
"""

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import Problem
from aggregator.dap.profile import Role
from aggregator.protocol.task import Task
from aggregator.runtime import Runtime
from aggregator.storage.aggregation_jobs import create_aggregation_job
from aggregator.storage.database import Transaction
from aggregator.storage.reports import claimable_reports, tasks_with_unclaimed_reports

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
        """Make all jobs that are due now, the tasks taking turns; return how many."""
        created = 0
        while made := await self.run_turn():
            created += made
        return created

    async def run_turn(self) -> int:
        """Make the next job of each task where one is due now; return how many."""
        waiting = await self._runtime.database.read(
            "tasks with unclaimed reports", tasks_with_unclaimed_reports
        )
        return sum([await self._create_next(task_id) for task_id in waiting])

    async def _create_next(self, task_id: bytes) -> bool:
        """Make the next job of a task, if it is due; return whether it was."""
        try:
            served = await self._runtime.task(TaskId(task_id))
        except Problem:  # we do not take part in it; the log said so when it was first read
            return False
        job_size = self._size_for(served.task)
        claimable = await self._runtime.database.read(
            "claimable reports", lambda tx: claimable_reports(tx, task_id, job_size)
        )
        if not claimable:
            return False
        minimum = self._minimum(task_id, job_size, claimable)
        return claimable >= minimum and await self._create(task_id, job_size, minimum)

    def _size_for(self, task: Task) -> int:
        """Return how many reports of a task make a full job."""
        prio3 = task.prio3
        report_size = prio3.public_share_size + sum(
            prio3.input_share_size(role.agg_id) for role in (Role.LEADER, Role.HELPER)
        )
        return max(1, min(self._job_size, MAX_JOB_SIZE // report_size))

    def _minimum(self, task_id: bytes, job_size: int, claimable: int) -> int:
        """Return the fewest reports that make a job now."""
        if claimable >= job_size:
            self._waiting_since.pop(task_id, None)
            return job_size
        now = self._runtime.clock.now()
        since = self._waiting_since.setdefault(task_id, now)
        if now - since < self._linger_seconds:
            return job_size
        del self._waiting_since[task_id]
        return 1

    async def _create(self, task_id: bytes, job_size: int, minimum: int) -> bool:
        def create(tx: Transaction) -> bool:
            return create_aggregation_job(tx, task_id, job_size, minimum) is not None

        return await self._runtime.database.run("create aggregation job", create)
