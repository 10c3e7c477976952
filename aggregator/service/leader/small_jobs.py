"""Small aggregation jobs, of one task or many, whose steps are done together."""

from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from typing import TypeAlias, TypeVar

from aggregator.protocol.task import Task
from aggregator.service.leader.job_steps import (
    Begun,
    Ended,
    Request,
    begin_job,
    commit_job,
    finish_job,
    read_job,
    store_begun,
)
from aggregator.service.leader.rejects import Rejects
from aggregator.service.runtime import Runtime, ServedTask
from aggregator.service.runtime.together import SMALL_BYTES, Together, attempt, store_together
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import AggregationJob
from aggregator.service.storage.jobs.leases import Lease, Leased
from aggregator.service.storage.reports.claims import JobReports
from aggregator.service.storage.tasks.hpke_keys import HpkeKey, list_hpke_keys
from aggregator.service.telemetry.tracing import note

_R = TypeVar("_R")
_Work: TypeAlias = tuple[Task, Callable[[Transaction], _R]]
_Read: TypeAlias = tuple[ServedTask, JobReports]
_Answered: TypeAlias = tuple[Leased[AggregationJob], Request, bytes]


class SmallJobs:
    """Begins and ends them.

    Attributes:
        beginning: Begins to verify leased jobs, and stores their requests.
        ending: Finishes their verification, and commits them.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Work in the store of `runtime`."""
        self._runtime = runtime
        self.beginning: Together[Leased[AggregationJob], Begun] = Together(self._begin)
        self.ending: Together[_Answered, Ended] = Together(self._end)

    def takes(self, job: AggregationJob) -> bool:
        """Return whether a job is one; what reads bodies over a network would hold up others."""
        return job.stored_bytes <= SMALL_BYTES and not self._runtime.database.has_objects

    def _begin(
        self, some: Sequence[Leased[AggregationJob]], contexts: Sequence[Context]
    ) -> list[Begun | None]:
        now, skew = self._runtime.clock.now(), self._runtime.clock_skew_seconds

        def read(tx: Transaction) -> tuple[list[HpkeKey], list[_Read | None]]:
            reads = [attempt(partial(read_job, self._runtime, tx, each.job)) for each in some]
            return list_hpke_keys(tx), reads

        keys, found = self._runtime.database.read_sync("reports of job", read)
        keypairs = self._runtime.keypairs_of(keys)

        def begin(lease: Lease, read: _Read | None) -> _Work[Begun] | None:
            if read is None or read[1].has_twins or read[1].were_unreadable:
                return None
            served, stored = read
            note(reports=len(stored))
            work = partial(begin_job, served, keypairs, stored, now, skew)
            begun = self._runtime.verify_here(served.task, work)
            if begun.later:
                return None
            return served.task, partial(store_begun, lease=lease, begun=begun)

        return store_together(
            self._runtime.database,
            "store aggregation request",
            [
                attempt(partial(begin, each.lease, read), context)
                for each, read, context in zip(some, found, contexts, strict=True)
            ],
        )

    def _end(self, some: Sequence[_Answered], contexts: Sequence[Context]) -> list[Ended | None]:
        def end(lease: Lease, request: Request, answer: bytes) -> _Work[Ended] | None:
            if request.state is None:
                return None
            task = request.served.task
            finished = self._runtime.verify_here(
                task, partial(finish_job, request.served, request.state, answer)
            )
            if Rejects.of(finished.rejected).too_early:
                return None
            return task, partial(commit_job, lease=lease, request=request.body, finished=finished)

        return store_together(
            self._runtime.database,
            "finish aggregation job",
            [
                attempt(partial(end, leased.lease, request, answer), context)
                for (leased, request, answer), context in zip(some, contexts, strict=True)
            ],
        )
