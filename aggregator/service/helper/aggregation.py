"""Answers aggregation jobs: the same request always gets the same answer.

Out shares, report ids and the exact answer are stored in one transaction before the leader gets the
answer. A request that was answered before, even a moment ago by another process, gets those bytes.

Source: DAP, "Helper Initialization" and "Batch Buckets".
"""

import hashlib
from collections import Counter

import anyio

from aggregator.dap.ids import TaskId
from aggregator.dap.messages.columns import read_job
from aggregator.dap.problems import NameTaken
from aggregator.dap.report_errors import ReportError
from aggregator.protocol.aggregation import HelperInit, helper_init
from aggregator.protocol.reports import report_sizes
from aggregator.service.runtime import Runtime, ServedTask, commit
from aggregator.service.runtime.report_ages import ReportAges
from aggregator.service.storage.engine.database import Transaction
from aggregator.service.storage.jobs.answered_jobs import (
    AnsweredJob,
    find_answered_job,
    is_job_named,
    put_answered_job,
)
from aggregator.service.storage.reports.counters import (
    AGGREGATED,
    PAST_UNITS,
    Stage,
    count_reports,
    reason,
)
from aggregator.service.storage.reports.past_units import not_opened, past_before
from aggregator.service.telemetry.tracing import note

_NEVER = 2**64 - 1


class AggregationJobs:
    """The helper's side of aggregation jobs."""

    def __init__(self, runtime: Runtime, max_age_seconds: int) -> None:
        """Answer for `runtime`.

        Args:
            runtime: The helper's.
            max_age_seconds: How far behind its clock a report's time may lie.
        """
        self._runtime = runtime
        self._ages = ReportAges(runtime, max_age_seconds)

    async def answer(
        self, served: ServedTask, body: bytes, job_id: bytes | None = None
    ) -> AnsweredJob:
        """Return the stored answer to a request, verifying its reports if it is new.

        Args:
            served: The task.
            body: The exact request.
            job_id: The name of a new job, if its leader chose one.

        Raises:
            Abort: The request as a whole is refused; nothing is stored.
        """
        task_id = served.task.task_id.value
        digest = hashlib.sha256(body).digest()
        found = await self._runtime.database.read(
            "find aggregation job", lambda tx: _found(tx, task_id, digest, job_id)
        )
        if found is not None:
            return found
        keypairs = await self._runtime.keypairs()
        now = self._runtime.clock.now()
        limit = self._ages.limit(served.task, now)
        init = await self._runtime.verify(
            served.task,
            lambda: helper_init(
                served.task,
                served.verification_key,
                keypairs,
                read_job(body, report_sizes(served.task)),
                now,
                self._runtime.clock_skew_seconds,
                limit.seconds,
            ),
        )
        note(reports=len(init.ids))
        # Shielded: a leader that was told to come again finds the answer to what was verified.
        with anyio.CancelScope(shield=True), self._ages.learning():
            answered = await self._runtime.database.run(
                "commit aggregation job",
                lambda tx: self._commit(tx, served, digest, init, limit.first_day, job_id),
            )
        return answered  # noqa: RET504 - for mypy a scope might swallow what is raised inside

    def _commit(
        self,
        tx: Transaction,
        served: ServedTask,
        digest: bytes,
        init: HelperInit,
        first_day: int,
        job_id: bytes | None,
    ) -> AnsweredJob:
        task_id = served.task.task_id.value
        found = _found(tx, task_id, digest, job_id)
        if found is not None:
            return found
        unopened = self._unopened(tx, init)
        refused = commit(tx, init.verified, digest, first_day, unopened)
        count_reports(tx, task_id, Stage.AGGREGATION, _counts(init, refused, unopened))
        return put_answered_job(tx, task_id, digest, init.response(refused), job_id)

    def _unopened(self, tx: Transaction, init: HelperInit) -> frozenset[bytes]:
        """Return the buckets of the past that the job's reports must not open."""
        verified = init.verified
        before = past_before(verified.task, tx.now, self._runtime.wait_seconds)
        if not before or int(verified.times.min(initial=_NEVER)) >= int.from_bytes(before, "big"):
            return frozenset()
        buckets = {bucket for _, bucket in verified.accepted()}
        return not_opened(tx, tx.task_key(verified.task.task_id.value), buckets, before)


def _found(
    tx: Transaction, task_id: bytes, digest: bytes, job_id: bytes | None
) -> AnsweredJob | None:
    """Return the answer to a request, under whichever name; or refuse a name that is taken."""
    found = find_answered_job(tx, task_id, digest)
    if found is None and job_id is not None and is_job_named(tx, job_id):
        raise NameTaken("another aggregation job has or had it", TaskId(task_id))
    return found


def _counts(
    init: HelperInit, refused: dict[bytes, ReportError], unopened: frozenset[bytes]
) -> Counter[str]:
    counts = Counter(error.draft_name for error in init.errors.values())
    arrivals = init.verified.accepted() if unopened else []
    past = {each for each, bucket in arrivals if bucket in unopened}
    counts.update(
        PAST_UNITS if error is ReportError.REPORT_DROPPED and each in past else reason(error)
        for each, error in refused.items()
    )
    counts[AGGREGATED] = len(init.ids) - counts.total()
    return +counts
