"""Leases an aggregation job, steps it, asks the helper, and stores the outcome.

The exact request is stored before it is sent. After a crash, the next driver to lease the job sends
the same bytes again, gets the same answer, recomputes our half and commits the out shares, the
report ids and the job's end in one transaction.

No answer of the helper loses a report: `protocol.helper_answers` says what follows from each
answer, and this driver carries it out.

Source: DAP, "Verifying and Aggregating Reports" and "Batch Buckets".
"""

from typing import TypeAlias

import httpx
from typing_extensions import override

from aggregator.codec import DecodeError
from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import AggregationJobResp
from aggregator.errors import PeerError
from aggregator.protocol.aggregation import (
    IncompatibleResponse,
    KeysMissing,
    ReportsLost,
    largest_response,
)
from aggregator.protocol.helper_answers import (
    Refusal,
    Then,
    after_refused_aggregation,
    after_unusable_answer,
    retry_delay,
)
from aggregator.protocol.reports import Rejected
from aggregator.service.leader.job_steps import (
    Begun,
    Ended,
    Finished,
    Request,
    begin_job,
    commit_job,
    finish_job,
    read_job,
    resume_job,
    store_begun,
)
from aggregator.service.leader.lease_driver import LeaseDriver, helper_of
from aggregator.service.leader.rejects import Rejects, log_outcome
from aggregator.service.leader.small_jobs import SmallJobs
from aggregator.service.runtime import Runtime, ServedTask
from aggregator.service.storage.engine.backends import UnreadableBodies
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import (
    AGGREGATION_JOBS,
    AggregationJob,
    forget_request,
    hold_aggregation_job,
    note_failure,
    note_sending,
    note_unprocessed,
    reject_twins_of_job,
    set_reports_aside,
    split_aggregation_job,
    store_job_location,
)
from aggregator.service.storage.jobs.leases import Leased
from aggregator.service.storage.reports.claims import JobReports, reports_in_job
from aggregator.service.storage.reports.unreadable import note_readable, note_unreadable
from aggregator.service.storage.tasks.hpke_keys import list_hpke_keys
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.metrics import Outcome, note_outcome
from aggregator.service.telemetry.tracing import note
from aggregator.service.transport.creation import AGGREGATION_JOB
from aggregator.service.transport.driver import DriverSettings
from aggregator.service.transport.interpretation import Answer, PeerRefused, PeerUnreachable
from aggregator.service.transport.permits import WHOLE

_POLL_SECONDS = 2
"""How soon a helper that does not say is asked again for its answer."""

_Reports: TypeAlias = tuple[ServedTask, dict[int, HpkeKeypair], JobReports]


class JobDriver(LeaseDriver[AggregationJob]):
    """Drives the aggregation jobs of all tasks of the leader."""

    jobs = AGGREGATION_JOBS

    def __init__(self, runtime: Runtime, http: httpx.AsyncClient, settings: DriverSettings) -> None:
        """Drive the jobs in the store of `runtime`, asking helpers through `http`."""
        super().__init__(runtime, http, settings)
        self._small = SmallJobs(runtime)

    @override
    def _parts_of(self, job: AggregationJob) -> int:
        return 1 if self._small.takes(job) else WHOLE

    @override
    async def _step(self, leased: Leased[AggregationJob]) -> None:
        job = leased.job
        if job.request is None:
            request = await self._prepare(leased)
            if request is None:
                return
        else:
            request = Request(await self._runtime.task(TaskId(job.task_id)), job.request, None)
        try:
            answer = await self._ask(leased, request)
            if not answer.carried(AggregationJobResp.message):
                await self._wait(leased, answer, _POLL_SECONDS, "the helper has not finished it")
                return
        except PeerUnreachable as error:
            log.warning("helper unreachable", reason=str(error))
            note_outcome(Outcome.UNREACHABLE)
            is_unprocessed = error.is_unprocessed and job.helper_location is None
            noting = note_unprocessed if is_unprocessed else None
            await self._release(leased, str(error), error.retry_after, noting)
            return
        except PeerRefused as error:
            await self._refused(leased, error)
            return
        try:
            rejected = await self._finish(leased, request, answer)
        except UnreadableBodies as error:
            await self._wait_for_bodies(leased, error)
        except ReportsLost as error:
            log.error("reports of a job are damaged", reason=str(error))
            note_outcome(Outcome.FAILED)
            await self._unusable(leased, str(error), answer.location)
        except (IncompatibleResponse, DecodeError) as error:
            log.error("helper's answer is unusable", reason=str(error))
            note_outcome(Outcome.UNUSABLE)
            await self._unusable(leased, f"the helper's answer: {error}", answer.location)
        else:
            location = answer.location or job.helper_location
            await self._forget_too_early(request.served, rejected, location)

    async def _prepare(self, leased: Leased[AggregationJob]) -> Request | None:
        """Start verification and store the request; None if no report is left to ask about.

        Reports that cannot be read now are given back, for the job's others.
        """

        async def alone() -> Begun:
            return await self._begin_alone(leased)

        while True:
            try:
                if self._small.takes(leased.job):
                    return self._told(
                        leased, await self._small.beginning.run(leased.job.task_id, leased, alone)
                    )
                return self._told(leased, await alone())
            except UnreadableBodies as error:  # of the job, or of a group of which some must wait
                if not await self._set_aside(leased, error):
                    raise

    async def _begin_alone(self, leased: Leased[AggregationJob]) -> Begun:
        served, keypairs, stored = await self._reports(leased.job)
        if stored.has_twins:
            await self._runtime.database.run(
                "reject twins", lambda tx: reject_twins_of_job(tx, leased.lease)
            )
            served, keypairs, stored = await self._reports(leased.job)
        now, skew = self._runtime.clock.now(), self._runtime.clock_skew_seconds

        def store(begun: Begun) -> Begun:
            ends = begun.init.request is None
            name = "finish aggregation job" if ends else "store aggregation request"
            return self._runtime.database.run_sync(
                name, lambda tx: store_begun(tx, leased.lease, begun)
            )

        return await self._runtime.verify(
            served.task, lambda: begin_job(served, keypairs, stored, now, skew), store
        )

    def _told(self, leased: Leased[AggregationJob], begun: Begun) -> Request | None:
        """Log what became of reports at the beginning; return the request, if one was stored."""
        init = begun.init
        if init.keyless:
            log.error("reports wait for a key", reason=str(KeysMissing(init.keyless)))
        if init.request is None:
            log_outcome(leased.job, 0, begun.rejected)
            return None
        return Request(begun.served, init.request, init.state)

    async def _set_aside(self, leased: Leased[AggregationJob], error: UnreadableBodies) -> int:
        """Give the reports back that cannot be read now, for the job's others; say how many."""
        aside = await self._runtime.database.run(
            "set reports aside", lambda tx: set_reports_aside(tx, leased.lease, error.groups)
        )
        job = leased.job.job_id.hex()
        log.error("stored reports cannot be read, and wait", job=job, reports=aside, why=str(error))
        return aside

    async def _ask(self, leased: Leased[AggregationJob], request: Request) -> Answer:
        served = request.served
        framing = served.task.profile.framing
        limit = largest_response(served.task, request.body) + framing.more
        job = leased.job
        with self._asking(served) as helper:
            if job.helper_location is not None:
                return await helper.get(job.helper_location, limit=limit)
            if job.request is not None:
                await self._runtime.database.run(
                    "send again", lambda tx: note_sending(tx, leased.lease)
                )
            body = framing.request(request.body)
            return await AGGREGATION_JOB.ask(helper, served.task, job.job_id, body, limit=limit)

    async def _finish(
        self, leased: Leased[AggregationJob], request: Request, answer: Answer
    ) -> list[Rejected]:
        """Finish verification and commit; return the reports that were rejected.

        Raises:
            UnreadableBodies: The state must be recomputed, and bodies cannot be read now.
            ReportsLost, IncompatibleResponse, DecodeError: See `leader_finish`.
        """

        async def alone() -> Ended:
            return await self._finish_alone(leased, request, answer.body)

        if request.state is None or not self._small.takes(leased.job):
            ended = await alone()
        else:
            answered = leased, request, answer.body
            ended = await self._small.ending.run(leased.job.task_id, answered, alone)
        note(aggregated=ended.aggregated)
        log_outcome(leased.job, ended.aggregated, ended.rejected, ended.left_out)
        return ended.rejected

    async def _finish_alone(
        self, leased: Leased[AggregationJob], request: Request, answer: bytes
    ) -> Ended:
        served, again = request.served, JobReports(b"", 0)
        keypairs: dict[int, HpkeKeypair] = {}
        if request.state is None:
            _, keypairs, again = await self._reports(leased.job)

        def work() -> Finished:
            state = request.state
            if state is None:
                state = resume_job(served, keypairs, again, request.body)
            return finish_job(served, state, answer, {*again.ids})

        def store(finished: Finished) -> Ended:
            return self._runtime.database.run_sync(
                "finish aggregation job",
                lambda tx: commit_job(tx, leased.lease, request.body, finished),
            )

        return await self._runtime.verify(served.task, work, store)

    async def _forget_too_early(
        self, served: ServedTask, rejected: list[Rejected], location: str | None
    ) -> None:
        """Have the helper forget a finished job if some of its reports will be sent again.

        Otherwise a new job of the same reports would be the same bytes, and get the same answer.
        """
        if location is None or not Rejects.of(rejected).too_early:
            return
        helper = helper_of(served, self._http, self._settings.peer_attempts)
        try:
            await helper.delete(location)
        except PeerError as error:
            log.warning("helper keeps a job with reports that were too early", reason=str(error))

    async def _wait_for_bodies(
        self, leased: Leased[AggregationJob], error: UnreadableBodies
    ) -> None:
        """Keep the job, which the helper has answered, until its reports can be read again."""
        log.error("stored reports cannot be read, and their job waits", reason=str(error))
        note_outcome(Outcome.FAILED)
        await self._release(
            leased, str(error), note=lambda tx, lease: note_unreadable(tx, lease.key, error.groups)
        )

    async def _refused(self, leased: Leased[AggregationJob], error: PeerRefused) -> None:
        """Act on a refusal as `protocol.helper_answers` says."""
        log.error("helper refused an aggregation job", reason=str(error))
        note_outcome(Outcome.REFUSED)
        was_sent = leased.job.helper_location is None
        refusal = Refusal(error.problem, error.status)

        def refused(tx: Transaction) -> int:
            lease = leased.lease
            if not was_sent and refusal.is_gone:
                store_job_location(tx, lease, None)
            if was_sent and error.is_unprocessed:
                note_unprocessed(tx, lease)
            job = note_failure(tx, lease)
            then = after_refused_aggregation(
                refusal,
                reports=lambda: reports_in_job(tx, job.key),
                failures=job.failures,
                unanswered=job.unanswered,
                max_attempts=self._settings.max_attempts,
            )
            if then is Then.SPLIT:
                split_aggregation_job(tx, lease)
            elif then is Then.ASK_ANEW:
                forget_request(tx, lease)
            delay = 0 if then is Then.SPLIT else retry_delay(job.failures)
            AGGREGATION_JOBS.release(tx, lease, delay, reason=str(error))
            return delay

        delay = await self._runtime.database.run("aggregation job refused", refused)
        log.info("job waits", next_in=f"{delay}s")

    async def _unusable(
        self, leased: Leased[AggregationJob], reason: str, location: str | None
    ) -> None:
        """Act on an answer that cannot be used, whether the fault is the helper's or ours.

        The job's location, as the helper gave it, is stored once the job is held, so that the
        helper's copy can be deleted.
        """

        def note(tx: Transaction) -> int | None:
            job = note_failure(tx, leased.lease)
            if after_unusable_answer(job.failures, self._settings.max_attempts) is Then.HOLD:
                if location is not None:
                    store_job_location(tx, leased.lease, location)
                hold_aggregation_job(tx, leased.lease, reason)
                return None
            delay = retry_delay(job.failures)
            AGGREGATION_JOBS.release(tx, leased.lease, delay, reason=reason)
            return delay

        delay = await self._runtime.database.run("aggregation job answered unusably", note)
        if delay is None:
            log.error("job is held: see `prio job list`")
        else:
            log.info("job waits", next_in=f"{delay}s")

    async def _reports(self, job: AggregationJob) -> _Reports:
        """Return a job's task, our HPKE key pairs, and the job's reports.

        Raises:
            UnreadableBodies: Some cannot be read now.
        """
        (served, reports), keys = await self._runtime.database.read(
            "reports of job", lambda tx: (read_job(self._runtime, tx, job), list_hpke_keys(tx))
        )
        if reports.were_unreadable:
            await self._runtime.database.run(
                "reports readable again", lambda tx: note_readable(tx, job.key)
            )
        note(reports=len(reports))
        return served, self._runtime.keypairs_of(keys), reports
