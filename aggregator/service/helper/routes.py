"""The helper's resources: HPKE configurations, aggregation jobs and aggregate shares.

Source: DAP, "HPKE Configuration Request", "Verifying and Aggregating Reports" and "Obtaining
Aggregate Shares".
"""

import re

from fastapi import APIRouter, Request, Response, status
from starlette.background import BackgroundTask

from aggregator.codec import decode
from aggregator.dap.ids import AggregateShareId, AggregationJobId
from aggregator.dap.messages import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    AggregationJobResp,
)
from aggregator.dap.problems import (
    StepMismatch,
    UnrecognizedAggregateShare,
    UnrecognizedAggregationJob,
)
from aggregator.dap.profile import Role
from aggregator.dap.resources import Resource, location
from aggregator.protocol.permit_lists import HEADER as PERMITS_HEADER
from aggregator.protocol.permit_lists import in_short
from aggregator.protocol.permit_lists import to_header as lists_to_header
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.witness import HEADER, from_header, to_header
from aggregator.service.config import DEFERRED_POLL_SECONDS, HelperSettings
from aggregator.service.helper.aggregate_shares import AggregateShares
from aggregator.service.helper.aggregation import AggregationJobs
from aggregator.service.runtime import Runtime, ServedTask
from aggregator.service.runtime.release_steps import try_delete_leftovers
from aggregator.service.runtime.witness import check_witness, released
from aggregator.service.storage.jobs.aggregate_shares import (
    StoredAggregateShare,
    delete_aggregate_share,
    get_aggregate_share,
)
from aggregator.service.storage.jobs.answered_jobs import AnsweredJob
from aggregator.service.storage.jobs.deferred_jobs import DeferredJob, delete_job, get_job
from aggregator.service.storage.operator.permits import count_permits
from aggregator.service.telemetry.tracing import note
from aggregator.service.web.aggregators import AggregatorResources, Kind
from aggregator.service.web.fast_route import Handler
from aggregator.service.web.messages import (
    MAX_SHORT_MESSAGE,
    dap_router,
    deferred_response,
    message_response,
    read_body,
)
from aggregator.service.web.problems import abort_response

_WINDOW = re.compile("[0-9]{1,19}", re.ASCII)

AGGREGATION_JOB = Kind("aggregation job", AggregationJobId, UnrecognizedAggregationJob)
AGGREGATE_SHARE = Kind("aggregate share", AggregateShareId, UnrecognizedAggregateShare)


class HelperResources(AggregatorResources):
    """Answers clients and the leader."""

    def __init__(self, runtime: Runtime, settings: HelperSettings) -> None:
        """Answer for `runtime`."""
        super().__init__(runtime, settings.hpke_cache_seconds)
        self._settings = settings
        self._jobs = AggregationJobs(
            runtime,
            settings.max_report_age_seconds,
            settings.max_bytes_in_flight if settings.defer_jobs else None,
        )
        self._shares = AggregateShares(runtime)

    def router(self) -> APIRouter:
        """Return the routes of all the helper's resources."""
        return dap_router(
            Role.HELPER,
            {
                ("GET", "hpke_config"): self.hpke_config,
                ("POST", "aggregation_jobs"): self.create_aggregation_job,
                ("POST", "aggregation_job"): self.continue_aggregation_job,
                ("PUT", "aggregation_job"): self.put_aggregation_job,
                ("GET", "aggregation_job"): self.get_aggregation_job,
                ("DELETE", "aggregation_job"): self.delete_aggregation_job,
                ("POST", "aggregate_shares"): self.create_aggregate_share,
                ("PUT", "aggregate_share"): self.put_aggregate_share,
                ("GET", "aggregate_share"): self.get_aggregate_share,
                ("DELETE", "aggregate_share"): self.delete_aggregate_share,
            },
        )

    def fast_routes(self) -> dict[Resource, Handler]:
        """Return what bypasses the framework's layers: new jobs, of which small ones are many."""
        handlers: dict[tuple[str, str], Handler] = {
            ("POST", "aggregation_jobs"): self.create_aggregation_job,
            ("PUT", "aggregation_job"): self.put_aggregation_job,
        }
        return self._fast(Role.HELPER, handlers)

    async def create_aggregation_job(self, request: Request) -> Response:
        """Verify the reports of a job, or find the answer to exactly this request."""
        served = await self._authorised(request)
        job = await self._answered(request, served)
        note(resource=job.job_id.hex())
        created = _location(served, job.job_id)
        if isinstance(job, DeferredJob):
            return _deferred(served, created)
        response = served.task.profile.framing.answer(job.response)
        return message_response(AggregationJobResp.message, response, created=created)

    async def put_aggregation_job(self, request: Request) -> Response:
        """Do the same for a job that the leader names."""
        served, job_id = await self._named(request, AGGREGATION_JOB)
        job = await self._answered(request, served, job_id)
        if isinstance(job, DeferredJob):
            return _deferred(served, _location(served, job_id))
        response = served.task.profile.framing.answer(job.response)
        return message_response(
            AggregationJobResp.message, response, status_code=status.HTTP_201_CREATED
        )

    async def _answered(
        self, request: Request, served: ServedTask, job_id: bytes | None = None
    ) -> AnsweredJob | DeferredJob:
        framing = served.task.profile.framing
        body = await read_body(
            request,
            AggregationJobInitReq.message,
            min(report_sizes(served.task).job + framing.more, self._settings.max_body_size),
        )
        return await self._jobs.answer(served, framing.read_request(body), job_id)

    async def continue_aggregation_job(self, request: Request) -> Response:
        """Refuse: a job of Prio3 is finished after its first step."""
        served, _job = await self._found(request, AGGREGATION_JOB, get_job)
        step = decode(
            AggregationJobContinueReq,
            await read_body(request, AggregationJobContinueReq.message, MAX_SHORT_MESSAGE),
        ).step
        raise StepMismatch(f"a job ends with step 0 and has no step {step}", served.task.task_id)

    async def get_aggregation_job(self, request: Request) -> Response:
        """Repeat the answer to a job, or ask the leader to come again.

        Beside the word that there is no such job a leader that asks is told our lists of permits.
        """
        try:
            found: tuple[ServedTask, AnsweredJob | DeferredJob] = await self._found(
                request, AGGREGATION_JOB, get_job
            )
        except UnrecognizedAggregationJob as missing:
            return await self._with_lists(request, missing)
        served, job = found
        if isinstance(job, DeferredJob):
            return _deferred(served)
        response = served.task.profile.framing.answer(job.response)
        return message_response(AggregationJobResp.message, response)

    async def _with_lists(self, request: Request, missing: UnrecognizedAggregationJob) -> Response:
        first = request.headers.get(PERMITS_HEADER, "")
        served = await self._authorised(request)
        permits = served.task.permits
        if permits is None or not _WINDOW.fullmatch(first):
            raise missing
        counted = await self._runtime.database.read(
            "count permits", lambda tx: count_permits(tx, permits.domain, int(first))
        )
        lists = {each.window: in_short(each.given, each.digest) for each in counted if each.given}
        answer = abort_response(missing, served.task.task_id)
        answer.headers[PERMITS_HEADER] = lists_to_header(lists)
        return answer

    async def delete_aggregation_job(self, request: Request) -> Response:
        """Forget a job: reports that are aggregated stay so, and one that waits is not answered."""
        return await self._deleted(request, AGGREGATION_JOB, delete_job)

    async def create_aggregate_share(self, request: Request) -> Response:
        """Release our share of a batch, or find the one that was released."""
        served = await self._authorised(request)
        return await self._released(request, served)

    async def put_aggregate_share(self, request: Request) -> Response:
        """Do the same for a share that the leader names."""
        served, share_id = await self._named(request, AGGREGATE_SHARE)
        return await self._released(request, served, share_id)

    async def _released(
        self, request: Request, served: ServedTask, share_id: bytes | None = None
    ) -> Response:
        body = await read_body(request, AggregateShareReq.message, MAX_SHORT_MESSAGE)
        witnessed = from_header(request.headers.get(HEADER))
        await self._runtime.database.read(
            "hear a witness", lambda tx: check_witness(tx, served.task, witnessed, "leader")
        )
        share = await self._shares.answer(served, body, share_id)
        note(resource=share.share_id.hex())
        response = await self._leaving(served, share)
        created = location(
            served.task.configuration.helper_aggregator_endpoint,
            "aggregate_share",
            task_id=served.task.task_id,
            aggregate_share_id=AggregateShareId(share.share_id),
        )
        answer = message_response(
            AggregateShare.message,
            response,
            created=created if share_id is None else None,
            headers=await self._witness(served),
        )
        answer.background = BackgroundTask(try_delete_leftovers, self._runtime.database)
        return answer

    async def get_aggregate_share(self, request: Request) -> Response:
        """Repeat a released share."""
        served, share = await self._found(request, AGGREGATE_SHARE, get_aggregate_share)
        response = await self._leaving(served, share)
        headers = await self._witness(served)
        return message_response(AggregateShare.message, response, headers=headers)

    async def delete_aggregate_share(self, request: Request) -> Response:
        """Forget a released share; its batch stays collected."""
        return await self._deleted(request, AGGREGATE_SHARE, delete_aggregate_share)

    async def _witness(self, served: ServedTask) -> dict[str, str]:
        """Return the header that tells the leader what we have released."""
        ours = await self._runtime.database.read("witness", lambda tx: released(tx, served.task))
        return {HEADER: to_header(ours)}

    async def _leaving(self, served: ServedTask, share: StoredAggregateShare) -> bytes:
        """Return the bytes of a released share, which the journal has from now on."""
        if share.response is None:
            raise AGGREGATE_SHARE.missing(served)
        await self._runtime.before_share_leaves(served.task.task_id, share.response)
        return share.response


def _location(served: ServedTask, job_id: bytes) -> str:
    """Return where an aggregation job is."""
    return location(
        served.task.configuration.helper_aggregator_endpoint,
        "aggregation_job",
        task_id=served.task.task_id,
        aggregation_job_id=AggregationJobId(job_id),
    )


def _deferred(served: ServedTask, created: str | None = None) -> Response:
    """Ask the leader to come again for the answer to a job, and where if that is new to it."""
    created = None if created is None else f"{created}?step=0"
    if not served.task.profile.creator_names:
        return deferred_response(DEFERRED_POLL_SECONDS, created=created)
    return message_response(
        AggregationJobResp.message,
        b"",
        created=created,
        status_code=status.HTTP_200_OK,
        headers={"Retry-After": str(DEFERRED_POLL_SECONDS)},
    )
