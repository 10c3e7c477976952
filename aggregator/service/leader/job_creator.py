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
from collections.abc import Sequence
from typing import TypeGuard

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import Problem
from aggregator.errors import AggregatorError
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.task import Task
from aggregator.service.runtime import Runtime
from aggregator.service.runtime.lock_order import lock_order
from aggregator.service.storage.batches.selected import batch_with_room
from aggregator.service.storage.engine.backends import Unreachable
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import create_aggregation_job, largest_job
from aggregator.service.storage.reports.claims import Claimable, JobSize, claimable_reports
from aggregator.service.storage.reports.reports import tasks_with_unclaimed_reports
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.tracing import note, span

MAX_JOB_BYTES = 16 * 2**20
"""The most stored bytes of one job's reports; a single report may have more."""

AT_ONCE = 16
"""How many tasks' jobs one transaction makes: with many tasks, a transaction costs more than what
it does for one, and uploads wait for it."""


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
        """Make the next job of each task that has one due; return how many.

        An error in one task is logged once, and does not cost the other tasks their turn.
        """
        seen = await self._runtime.database.read("tasks with unclaimed reports", self._look)
        due = [each for each in seen if self._is_due(each)]
        return sum(
            [
                await self._create(due[first : first + AT_ONCE])
                for first in range(0, len(due), AT_ONCE)
            ]
        )

    def _look(self, tx: Transaction) -> list["_Waiting | _Trouble"]:
        """Return what waits of each task, or why that cannot be told."""
        return [self._look_at(tx, each) for each in tasks_with_unclaimed_reports(tx)]

    def _look_at(self, tx: Transaction, task_id: bytes) -> "_Waiting | _Trouble":
        try:
            task = self._runtime.public_task_in(tx, TaskId(task_id))
            size = self._size_for(task, largest_job(tx, task_id))
            of_one = task.batching.collector_selects
            return _Waiting(task, size, claimable_reports(tx, task_id, size, of_one=of_one))
        except AggregatorError as error:
            return _Trouble(task_id, error)

    def _is_due(self, waiting: "_Waiting | _Trouble") -> TypeGuard["_Waiting"]:
        """Return whether a job is to be made now."""
        if isinstance(waiting, _Trouble):
            self._note(waiting)
            return False
        task_id, claimable = waiting.task.task_id.value, waiting.claimable
        if claimable.reports and not claimable.is_full and not self._have_lingered(task_id):
            return False
        self._waiting_since.pop(task_id, None)
        return claimable.reports > 0

    async def _create(self, due: Sequence["_Waiting"]) -> int:
        """Make the next job of some tasks in one transaction, or of each in its own if that fails.

        Return how many were made.
        """
        due = sorted(due, key=lambda each: lock_order(each.task))
        try:
            made = await self._runtime.database.run(
                "create aggregation jobs", lambda tx: sum(_create_next(tx, each) for each in due)
            )
        except Unreachable:
            raise
        except AggregatorError as error:
            if len(due) > 1:
                return sum([await self._create([each]) for each in due])
            self._note(_Trouble(due[0].task.task_id.value, error))
            return 0
        for each in due:
            self._troubles.pop(each.task.task_id.value, None)
        return made

    def _note(self, trouble: "_Trouble") -> None:
        if isinstance(trouble.error, Problem):
            return  # we do not take part in it; the log said so when it was first read
        reason = str(trouble.error)
        if self._troubles.get(trouble.task_id) != reason:
            log.error("no job could be made", task=str(TaskId(trouble.task_id)), reason=reason)
        self._troubles[trouble.task_id] = reason

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


@dataclasses.dataclass(frozen=True, slots=True)
class _Waiting:
    """What waits of a task: how much may go into its next job, and what that would be made of."""

    task: Task
    size: JobSize
    claimable: Claimable


@dataclasses.dataclass(frozen=True, slots=True)
class _Trouble:
    """Why no job can be made of a task."""

    task_id: bytes
    error: AggregatorError


def _create_next(tx: Transaction, waiting: _Waiting) -> bool:
    """Make the next job of a task, unless another process did; return whether it was made."""
    task, size, bucket = waiting.task, waiting.size, b""
    task_id = task.task_id.value
    with span("create aggregation job", task=str(task.task_id), reports=waiting.claimable.reports):
        if task.batching.leader_selects:
            bucket, room = batch_with_room(tx, task_id, task.min_batch_size)
            size = dataclasses.replace(size, reports=min(size.reports, room))
        job = create_aggregation_job(
            tx,
            task_id,
            size,
            only_full=waiting.claimable.is_full,
            bucket=bucket,
            of_one=task.batching.collector_selects,
        )
        if job is not None:
            note(job=job.job_id.hex())
    return job is not None
