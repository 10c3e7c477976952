"""Answers aggregation jobs: the same request always gets the same answer.

Out shares, report ids and the exact answer are stored in one transaction before the leader gets the
answer. A request that was answered before, even a moment ago by another process, gets those bytes.
Small requests that come at once share their transactions (`runtime.together`). A helper that
defers stores a new request, and a worker answers it in the same way (`deferring`).

Source: DAP, "Helper Initialization" and "Batch Buckets".
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from functools import partial

from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.ids import TaskId
from aggregator.dap.messages.job_columns import read_job
from aggregator.dap.problems import NameTaken, TooManyRequests
from aggregator.dap.report_errors import ReportError
from aggregator.failures import in_thread
from aggregator.protocol.helper_aggregation import HelperInit, check_job, helper_init
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.task import Task
from aggregator.service.runtime import Runtime, ServedTask, aggregate_verified
from aggregator.service.runtime.report_ages import ReportAges
from aggregator.service.runtime.together import SMALL_BYTES, Together, attempt, store_together
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.answered_jobs import AnsweredJob, put_answered_job
from aggregator.service.storage.jobs.deferred_jobs import (
    DeferredJob,
    end_deferred_job,
    find_job,
    has_room,
    is_job_named,
    put_deferred_job,
)
from aggregator.service.storage.jobs.leases import Leased
from aggregator.service.storage.reports.counters import (
    AGGREGATED,
    PAST_UNITS,
    Stage,
    count_reports,
    counted_reason,
)
from aggregator.service.storage.reports.past_units import not_opened, past_before
from aggregator.service.storage.tasks.hpke_keys import list_hpke_keys
from aggregator.service.telemetry.tracing import note

_NEVER = 2**64 - 1
_Look = Callable[[Transaction], AnsweredJob | DeferredJob | None]


class AggregationJobs:
    """The helper's side of aggregation jobs."""

    def __init__(
        self, runtime: Runtime, max_age_seconds: int, most_deferred: int | None = None
    ) -> None:
        """Answer for `runtime`.

        Args:
            runtime: The helper's.
            max_age_seconds: How far behind its clock a report's time may lie.
            most_deferred: How many bytes of requests may wait for their answers, of each task; None
                if new ones are answered at once.
        """
        self._runtime = runtime
        self._most_deferred = most_deferred
        self._ages = ReportAges(max_age_seconds)
        self._small: Together[_Asked, AnsweredJob | DeferredJob] = Together(self._answer_some)

    async def answer(
        self, served: ServedTask, body: bytes, job_id: bytes | None = None
    ) -> AnsweredJob | DeferredJob:
        """Return the answer to a request, verifying its reports if it is new, or that it waits.

        Args:
            served: The task.
            body: The exact request.
            job_id: The name of a new job, if its leader chose one.

        Raises:
            Abort: The request as a whole is refused; nothing is stored.
        """
        asked = _Asked(served, body, hashlib.sha256(body).digest(), job_id)
        if self._most_deferred is not None:
            found = await self._runtime.database.read("find aggregation job", asked.find)
            return found or await self._defer(asked, self._most_deferred)

        async def alone() -> AnsweredJob | DeferredJob:
            found, keys = await self._runtime.database.read(
                "find aggregation job", lambda tx: (asked.find(tx), list_hpke_keys(tx))
            )
            return found or await self._answer(asked, self._runtime.keypairs_of(keys), asked.find)

        if asked.is_small:
            return await self._small.run(asked.task_id, asked, alone)
        return await alone()

    async def answer_deferred(
        self, served: ServedTask, body: bytes, leased: Leased[DeferredJob]
    ) -> None:
        """Answer a request that was put off.

        Raises:
            Abort: The request as a whole is refused; it still waits.
            LeaseLost: Another worker has it, or it was deleted; nothing is stored.
        """
        asked = _Asked(served, body, hashlib.sha256(body).digest(), leased.job.job_id)

        def end(tx: Transaction) -> AnsweredJob | DeferredJob | None:
            end_deferred_job(tx, leased.lease)
            return find_job(tx, asked.task_id, asked.digest)

        await self._answer(asked, await self._runtime.keypairs(), end)

    async def _defer(self, asked: "_Asked", most: int) -> AnsweredJob | DeferredJob:
        """Store a request that is to be answered later, unless it would be refused as a whole."""
        task, task_id, body = asked.served.task, asked.task_id, asked.body
        key, sizes = asked.served.verification_key, report_sizes(task)
        await in_thread(lambda: check_job(task, key, read_job(body, sizes)))

        def defer(tx: Transaction) -> AnsweredJob | DeferredJob:
            is_taken = has_room(tx, task_id, len(body), most)
            found = asked.find(tx)
            if found is not None:
                return found
            if not is_taken:
                raise TooManyRequests(
                    f"aggregation jobs of {most:,} bytes wait for their answers", task.task_id
                )
            return put_deferred_job(tx, task_id, body, asked.job_id)

        return await self._runtime.database.run("defer aggregation job", defer)

    async def _answer(
        self, asked: "_Asked", keypairs: Mapping[int, HpkeKeypair], look: _Look
    ) -> AnsweredJob | DeferredJob:
        """Verify the reports of a request and store the answer, unless `look` finds one then."""
        init, commit = self._work(asked, keypairs, look)

        def store(init: HelperInit) -> AnsweredJob | DeferredJob:
            note(reports=len(init.ids))
            with self._ages.learning():
                return self._runtime.database.run_sync(
                    "commit aggregation job", partial(commit, init)
                )

        # Not cancelled once begun: a leader that was told to come again finds the answer.
        return await self._runtime.verify(asked.served.task, init, store)

    def _answer_some(
        self, some: Sequence["_Asked"], contexts: Sequence[Context]
    ) -> list[AnsweredJob | DeferredJob | None]:
        """Do the same for several requests that are not answered yet."""
        database = self._runtime.database
        are_new, keys = database.read_sync(
            "find aggregation job",
            lambda tx: ([attempt(partial(each.is_new, tx)) for each in some], list_hpke_keys(tx)),
        )
        keypairs = self._runtime.keypairs_of(keys)
        first_named = {each.job_id: each for each in reversed(some)}  # only one gets its name

        def begin(asked: _Asked) -> tuple[Task, Callable[[Transaction], AnsweredJob | DeferredJob]]:
            work, commit = self._work(asked, keypairs, asked.find)
            init = self._runtime.verify_here(asked.served.task, work)
            note(reports=len(init.ids))
            return asked.served.task, partial(commit, init)

        return store_together(
            database,
            "commit aggregation job",
            [
                attempt(partial(begin, each), context)
                if is_new and (each.job_id is None or first_named[each.job_id] is each)
                else None
                for each, is_new, context in zip(some, are_new, contexts, strict=True)
            ],
        )

    def _work(
        self, asked: "_Asked", keypairs: Mapping[int, HpkeKeypair], look: _Look
    ) -> tuple[
        Callable[[], HelperInit], Callable[[HelperInit, Transaction], AnsweredJob | DeferredJob]
    ]:
        """Return what verifies the reports of a request, and what stores the answer."""
        served, now = asked.served, self._runtime.clock.now()
        limit = self._ages.limit(served.task, now)

        def init() -> HelperInit:
            return helper_init(
                served.task,
                served.verification_key,
                keypairs,
                read_job(asked.body, report_sizes(served.task)),
                now,
                self._runtime.clock_skew_seconds,
                limit.seconds,
            )

        def commit(init: HelperInit, tx: Transaction) -> AnsweredJob | DeferredJob:
            return look(tx) or self._commit(tx, asked, init, limit.first_day)

        return init, commit

    def _commit(
        self, tx: Transaction, asked: "_Asked", init: HelperInit, first_day: int
    ) -> AnsweredJob:
        unopened = self._unopened(tx, init)
        refused = aggregate_verified(tx, init.verified, asked.digest, first_day, unopened)
        counts = _counts(init, refused, unopened)
        count_reports(tx, asked.task_id, Stage.AGGREGATION, counts)
        response = init.response(refused)
        return put_answered_job(tx, asked.task_id, asked.digest, response, asked.job_id)

    def _unopened(self, tx: Transaction, init: HelperInit) -> frozenset[bytes]:
        """Return the buckets of the past that the job's reports must not open."""
        verified = init.verified
        before = past_before(verified.task, tx.now, self._runtime.wait_seconds)
        if not before or int(verified.times.min(initial=_NEVER)) >= int.from_bytes(before, "big"):
            return frozenset()
        buckets = {bucket for _, bucket in verified.accepted()}
        return not_opened(tx, tx.task_key(verified.task.task_id.value), buckets, before)


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """A request, its SHA-256, and the name of its job if its leader chose one."""

    served: ServedTask
    body: bytes = dataclasses.field(repr=False)
    digest: bytes
    job_id: bytes | None

    @property
    def task_id(self) -> bytes:
        """The id of its task."""
        return self.served.task.task_id.value

    @property
    def is_small(self) -> bool:
        """Whether others may wait for it in one thread, as they may for the leader's half of it.

        Our shares of long vectors are short seeds: what they take is as long as the leader's.
        """
        if self.served.task.permits is not None:
            return False  # all that a transaction spends of a domain must be one sorted statement
        sizes = report_sizes(self.served.task)
        uploaded = sizes.most_reports_in(self.body) * sizes.report_of(0, 0)
        return max(len(self.body), uploaded) <= SMALL_BYTES

    def find(self, tx: Transaction) -> AnsweredJob | DeferredJob | None:
        """Return its job, under whichever name; or refuse a name that is in use."""
        found = find_job(tx, self.task_id, self.digest)
        if found is None and self.job_id is not None and is_job_named(tx, self.job_id):
            raise NameTaken("another aggregation job has or had it", TaskId(self.task_id))
        return found

    def is_new(self, tx: Transaction) -> bool:
        """Return whether it has no job yet; or refuse a name that is in use."""
        return self.find(tx) is None


def _counts(
    init: HelperInit, refused: dict[bytes, ReportError], unopened: frozenset[bytes]
) -> Counter[str]:
    counts = Counter(error.draft_name for error in init.errors.values())
    arrivals = init.verified.accepted() if unopened else []
    past = {each for each, bucket in arrivals if bucket in unopened}
    counts.update(
        PAST_UNITS
        if error is ReportError.REPORT_DROPPED and each in past
        else counted_reason(error)
        for each, error in refused.items()
    )
    counts[AGGREGATED] = len(init.ids) - counts.total()
    return +counts
