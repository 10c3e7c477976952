"""Leases an aggregation job, steps it, asks the helper, and stores the outcome.

The exact request is stored before it is sent. Whoever leases the job after a crash sends the same
bytes again, gets the same answer, recomputes our half and commits the out shares, the report ids
and the job's end in one transaction.

Source: DAP, "Verifying and Aggregating Reports" and "Batch Buckets".
"""

import dataclasses
from collections import Counter

import anyio
import httpx
import structlog

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import AggregationJobInitReq, AggregationJobResp, Report
from aggregator.dap.resources import media_type, path
from aggregator.errors import PeerError
from aggregator.leader.helper_peer import helper_of, is_refusal, retry_delay
from aggregator.leader.scheduler import DriverSettings, Jobs, Scheduler
from aggregator.protocol.aggregation import (
    IncompatibleResponse,
    LeaderState,
    Verified,
    largest_response,
    leader_finish,
    leader_init,
    leader_resume,
)
from aggregator.protocol.reports import Rejected
from aggregator.runtime import Runtime, ServedTask, commit
from aggregator.storage.aggregation_jobs import (
    AggregationJob,
    abandon_aggregation_job,
    due_aggregation_jobs,
    finish_aggregation_job,
    lease_aggregation_jobs,
    release_aggregation_job,
    renew_aggregation_job,
    store_job_location,
    store_request,
)
from aggregator.storage.counters import reason
from aggregator.storage.database import Transaction
from aggregator.storage.leases import Leased
from aggregator.storage.reports import reports_of_job
from aggregator.transport.peer import Answer, PeerRefused, PeerUnreachable, origin
from aggregator.transport.permits import Permits

log = structlog.get_logger()

_DEFAULT_POLL_SECONDS = 2

_JOBS: Jobs[AggregationJob] = Jobs(
    "aggregation", due_aggregation_jobs, lease_aggregation_jobs, renew_aggregation_job
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Request:
    """A stored request and the state that belongs to it; None if that must be recomputed."""

    body: bytes = dataclasses.field(repr=False)
    state: LeaderState | None


class JobDriver:
    """Drives the aggregation jobs of all tasks of the leader."""

    def __init__(self, runtime: Runtime, http: httpx.AsyncClient, settings: DriverSettings) -> None:
        """Drive the jobs in the store of `runtime`, asking helpers through `http`."""
        self._runtime = runtime
        self._http = http
        self._settings = settings
        self._permits = Permits(settings.concurrency, settings.jobs_per_helper, runtime.clock.now)
        self._scheduler = Scheduler(runtime, _JOBS, self._step, settings, self._permits)
        # Per job. A lease's attempts would count outages and crashes too. It is kept in memory:
        # a restarted driver only asks more often before it drops reports.
        self._refusals: Counter[int] = Counter()

    async def run(self, stop: anyio.Event, poll_seconds: float) -> None:
        """Step jobs until `stop` is set; see `Scheduler.run`."""
        await self._scheduler.run(stop, poll_seconds)

    async def run_once(self) -> int:
        """Step the jobs that are due now, as far as permits go; return how many."""
        return await self._scheduler.run_once()

    async def _step(self, leased: Leased[AggregationJob]) -> None:
        job = leased.job
        served = await self._runtime.task(TaskId(job.task_id))
        if job.request is None:
            request = await self._prepare(served, leased)
            if request is None:
                return
        else:
            request = _Request(job.request, None)
        location = job.helper_location
        try:
            answer = await self._ask(served, job, request)
            location = answer.location or location
            if not answer.carried(AggregationJobResp.message):
                await self._wait(leased, answer)
                return
            verified, rejected = await self._finish(served, job, request, answer)
        except PeerUnreachable as error:
            log.warning("helper unreachable", reason=str(error))
            await self._release(leased, error.retry_after)
        except PeerRefused as error:
            await self._refused(leased, error)
        except (IncompatibleResponse, DecodeError) as error:
            log.error("helper's answer is unusable", reason=str(error))  # noqa: TRY400 - the peer's fault, no trace of ours
            await self._abandon(served, leased, location, "incompatible_response")
        else:
            await self._commit(leased, verified, rejected)

    async def _prepare(self, served: ServedTask, leased: Leased[AggregationJob]) -> _Request | None:
        """Start verification and store the request; None if no report is left to ask about."""
        reports = await self._reports(leased.job)
        keypairs = await self._runtime.keypairs()
        init = await self._runtime.verify(
            served.task,
            lambda: leader_init(
                served.task,
                served.verification_key,
                keypairs,
                [decode(Report, body) for body in reports],
                self._runtime.clock.now(),
                self._runtime.clock_skew_seconds,
                extensions=served.task.batching.job_extensions(leased.job.bucket),
            ),
        )
        rejected = _reasons(init.rejected)
        if init.request is None:
            await self._runtime.database.run(
                "finish aggregation job",
                lambda tx: finish_aggregation_job(tx, leased.lease, [], rejected),
            )
            return None
        body = encode(init.request)
        await self._runtime.database.run(
            "store aggregation request",
            lambda tx: store_request(tx, leased.lease, body, rejected),
        )
        return _Request(body, init.state)

    async def _ask(self, served: ServedTask, job: AggregationJob, request: _Request) -> Answer:
        helper = helper_of(served, self._http, self._settings.peer_attempts)
        limit = largest_response(served.task, request.body)
        with self._permits.asking(origin(served.task.configuration.helper_aggregator_endpoint)):
            if job.helper_location is not None:
                return await helper.get(job.helper_location, limit=limit)
            return await helper.post(
                path("aggregation_jobs", task_id=served.task.task_id),
                media_type(AggregationJobInitReq.message),
                request.body,
                limit=limit,
            )

    async def _finish(
        self, served: ServedTask, job: AggregationJob, request: _Request, answer: Answer
    ) -> tuple[Verified, list[Rejected]]:
        reports = [] if request.state is not None else await self._reports(job)
        keypairs = await self._runtime.keypairs()

        def finish() -> tuple[Verified, list[Rejected]]:
            response = decode(AggregationJobResp, answer.body)
            state = request.state
            if state is None:
                state = leader_resume(
                    served.task,
                    served.verification_key,
                    keypairs,
                    decode(AggregationJobInitReq, request.body),
                    [decode(Report, body) for body in reports],
                )
            return leader_finish(served.task, state, response)

        return await self._runtime.verify(served.task, finish)

    async def _commit(
        self,
        leased: Leased[AggregationJob],
        verified: Verified,
        rejected: list[Rejected],
    ) -> None:
        def finish(tx: Transaction) -> int:
            refused = commit(tx, verified)
            aggregated = [
                metadata.report_id.value
                for metadata in verified.accepted
                if metadata.report_id not in refused
            ]
            left_out = {each.value: reason(error) for each, error in refused.items()}
            finish_aggregation_job(tx, leased.lease, aggregated, _reasons(rejected) | left_out)
            return len(aggregated)

        aggregated = await self._runtime.database.run("finish aggregation job", finish)
        self._refusals.pop(leased.job.key, None)
        log.info(
            "aggregation job finished",
            job=leased.job.job_id.hex(),
            aggregated=aggregated,
            rejected=len(rejected) + len(verified.accepted) - aggregated,
        )

    async def _wait(self, leased: Leased[AggregationJob], answer: Answer) -> None:
        """Remember where the helper will answer, and ask again later."""
        delay = _DEFAULT_POLL_SECONDS if answer.retry_after is None else answer.retry_after

        def wait(tx: Transaction) -> None:
            if answer.location is not None:
                store_job_location(tx, leased.lease, answer.location)
            release_aggregation_job(tx, leased.lease, delay, progressed=True)

        await self._runtime.database.run("await aggregation job", wait)

    async def _release(self, leased: Leased[AggregationJob], asked: int | None) -> None:
        delay = retry_delay(leased.lease.attempts, asked)
        log.info("job waits", next_in=f"{delay}s")
        await self._runtime.database.run(
            "release aggregation job",
            lambda tx: release_aggregation_job(tx, leased.lease, delay),
        )

    async def _refused(self, leased: Leased[AggregationJob], error: PeerRefused) -> None:
        log.error("helper refused an aggregation job", reason=str(error))
        key = leased.job.key
        self._refusals[key] += is_refusal(error.problem)
        if self._refusals[key] >= self._settings.max_attempts:
            del self._refusals[key]
            await self._runtime.database.run(
                "abandon aggregation job",
                lambda tx: abandon_aggregation_job(tx, leased.lease, "refused_by_helper"),
            )
        else:
            await self._release(leased, None)

    async def _abandon(
        self, served: ServedTask, leased: Leased[AggregationJob], location: str | None, reason: str
    ) -> None:
        """Give up a job that the helper may have committed: its reports cannot be used again."""
        await self._runtime.database.run(
            "abandon aggregation job",
            lambda tx: abandon_aggregation_job(tx, leased.lease, reason),
        )
        if location is not None:
            helper = helper_of(served, self._http, self._settings.peer_attempts)
            try:
                await helper.delete(location)
            except PeerError as error:
                log.warning("helper keeps an abandoned job", reason=str(error))

    async def _reports(self, job: AggregationJob) -> list[bytes]:
        reports = await self._runtime.database.read(
            "reports of job", lambda tx: reports_of_job(tx, job.key)
        )
        return [report.body for report in reports]


def _reasons(rejected: list[Rejected]) -> dict[bytes, str]:
    return {failed.report_id.value: failed.error.draft_name for failed in rejected}
