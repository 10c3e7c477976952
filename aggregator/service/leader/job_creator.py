"""Groups stored reports into aggregation jobs.

A job is made as soon as there are reports for a full one. The rest linger a moment, so that a
trickle of uploads does not become a job per report. A job is full at `job_size` reports, or at
`MAX_JOB_BYTES` stored bytes, since a whole job is held in memory and sent in one request. Once the
helper has refused a job for its size, a job is also full at about what the helper accepts.
Where the leader selects the batches, all reports of a job go into the oldest batch that holds fewer
than `min_batch_size`; where collectors do, they are of one batch already. Tasks take turns, so a
large backlog of one task delays no other. A task without reports costs next to nothing, so there
may be many.
"""

import dataclasses

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import Problem
from aggregator.errors import AggregatorError
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.task import Task
from aggregator.service.runtime import Runtime
from aggregator.service.storage.batches.selected import batch_with_room
from aggregator.service.storage.engine.backends import Unreachable
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import (
    AggregationJob,
    create_aggregation_job,
    largest_job,
)
from aggregator.service.storage.reports.claims import Claimable, JobSize, claimable_reports
from aggregator.service.storage.reports.reports import tasks_with_unclaimed_reports
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.tracing import note, span

MAX_JOB_BYTES = 16 * 2**20
"""The most stored bytes of one job's reports; a single report may have more."""


class JobCreator:
    """Makes aggregation jobs for all tasks of the leader."""

    def __init__(self, runtime: Runtime, *, job_size: int, linger_seconds: int) -> None:
        """Make jobs in the store of `runtime`.

        Args:
            runtime: The leader.
            job_size: Reports in a full job.
            linger_seconds: How long the reports of a job that is not full wait for more.
        """
        self._runtime = runtime
        self._size = JobSize(job_size, MAX_JOB_BYTES)
        self._linger_seconds = linger_seconds
        self._waiting_since: dict[bytes, int] = {}
        self._troubles: dict[bytes, str] = {}

    async def run_once(self) -> int:
        """Make all jobs that are due now, task by task in turn; return how many."""
        created = 0
        while made := await self.run_turn():
            created += made
        return created

    async def run_turn(self) -> int:
        """Make the next job of each task that has one due; return how many."""
        waiting = await self._runtime.database.read(
            "tasks with unclaimed reports", tasks_with_unclaimed_reports
        )
        return sum([await self._create_next(task_id) for task_id in waiting])

    async def _create_next(self, task_id: bytes) -> bool:
        """Make the next job of a task, if it is due; return whether it was.

        An error in one task is logged once, and does not cost the other tasks their turn.
        """
        try:
            made = await self._create_if_due(task_id)
        except Problem:  # we do not take part in it; the log said so when it was first read
            return False
        except Unreachable:
            raise
        except AggregatorError as error:
            reason = str(error)
            if self._troubles.get(task_id) != reason:
                log.error("no job could be made", task=str(TaskId(task_id)), reason=reason)
            self._troubles[task_id] = reason
            return False
        self._troubles.pop(task_id, None)
        return made

    async def _create_if_due(self, task_id: bytes) -> bool:
        def look(tx: Transaction) -> tuple[Task, JobSize, Claimable]:
            task = self._runtime.public_task_in(tx, TaskId(task_id))
            size = self._size_for(task, largest_job(tx, task_id))
            of_one = task.batching.collector_selects
            return task, size, claimable_reports(tx, task_id, size, of_one=of_one)

        task, most, claimable = await self._runtime.database.read("claimable reports", look)
        if claimable.reports and not claimable.is_full and not self._have_lingered(task_id):
            return False
        self._waiting_since.pop(task_id, None)
        if not claimable.reports:
            return False

        def create(tx: Transaction) -> AggregationJob | None:
            bucket, size = b"", most
            if task.batching.leader_selects:
                bucket, room = batch_with_room(tx, task_id, task.min_batch_size)
                size = dataclasses.replace(most, reports=min(most.reports, room))
            return create_aggregation_job(
                tx,
                task_id,
                size,
                only_full=claimable.is_full,
                bucket=bucket,
                of_one=task.batching.collector_selects,
            )

        with span("create aggregation job", task=str(task.task_id), reports=claimable.reports):
            job = await self._runtime.database.run("create aggregation job", create)
            if job is not None:
                note(job=job.job_id.hex())
        return job is not None

    def _size_for(self, task: Task, largest: int | None) -> JobSize:
        """Return how much goes into a job; `largest` is the most bytes that the helper takes."""
        most = [self._size.reports]
        if task.batching.leader_selects:
            most.append(task.min_batch_size)
        if largest is not None:
            most.append(max(1, report_sizes(task).reports_within(largest)))
        return dataclasses.replace(self._size, reports=min(most))

    def _have_lingered(self, task_id: bytes) -> bool:
        now = self._runtime.clock.now()
        since = min(self._waiting_since.get(task_id, now), now)  # the clock may be put back
        self._waiting_since[task_id] = since
        return now - since >= self._linger_seconds
