"""The helper's resources: HPKE configurations, aggregation jobs and aggregate shares.

Source: DAP, "HPKE Configuration Request", "Verifying and Aggregating Reports" and "Obtaining
Aggregate Shares".
"""

import dataclasses

from fastapi import APIRouter, Request, Response

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
from aggregator.dap.resources import path
from aggregator.helper.aggregate_shares import AggregateShares
from aggregator.helper.aggregation import AggregationJobs
from aggregator.party import Party, ServedTask
from aggregator.protocol.reports import report_sizes
from aggregator.storage.aggregate_shares import delete_aggregate_share, get_aggregate_share
from aggregator.storage.helper_requests import (
    HelperRequest,
    RequestKind,
    delete_request,
    get_request,
)
from aggregator.web.auth import require_token
from aggregator.web.messages import (
    MAX_SHORT_MESSAGE,
    dap_router,
    empty_response,
    encoded_response,
    id_of,
    message_response,
    read_body,
    task_id_of,
)


@dataclasses.dataclass(frozen=True, slots=True)
class HelperLimits:
    """What the helper's application takes and says.

    Attributes:
        max_body_size: The most bytes of an aggregation job.
        hpke_cache_seconds: How long clients may keep our HPKE configurations.
    """

    max_body_size: int = 64 * 2**20
    hpke_cache_seconds: int = 86_400


class HelperResources:
    """Answers what clients and the leader ask."""

    def __init__(self, party: Party, limits: HelperLimits) -> None:
        """Answer for `party`."""
        self._party = party
        self._limits = limits
        self._jobs = AggregationJobs(party)
        self._shares = AggregateShares(party)

    def router(self) -> APIRouter:
        """Return the routes of all the helper's resources."""
        return dap_router(
            Role.HELPER,
            {
                ("GET", "hpke_config"): self.hpke_config,
                ("POST", "aggregation_jobs"): self.create_aggregation_job,
                ("POST", "aggregation_job"): self.continue_aggregation_job,
                ("GET", "aggregation_job"): self.get_aggregation_job,
                ("DELETE", "aggregation_job"): self.delete_aggregation_job,
                ("POST", "aggregate_shares"): self.create_aggregate_share,
                ("GET", "aggregate_share"): self.get_aggregate_share,
                ("DELETE", "aggregate_share"): self.delete_aggregate_share,
            },
        )

    async def hpke_config(self, _request: Request) -> Response:
        """Advertise our HPKE configurations."""
        max_age = f"max-age={self._limits.hpke_cache_seconds}"
        return encoded_response(await self._party.configs(), {"Cache-Control": max_age})

    async def create_aggregation_job(self, request: Request) -> Response:
        """Verify the reports of a job, or find the answer to the very same request."""
        served = await self._authorised(request)
        body = await read_body(
            request,
            AggregationJobInitReq.message,
            min(report_sizes(served.task).job, self._limits.max_body_size),
        )
        answered = await self._jobs.answer(served, body)
        created = path(
            "aggregation_job",
            task_id=served.task.task_id,
            aggregation_job_id=AggregationJobId(answered.request_id),
        )
        return message_response(
            AggregationJobResp.message, answered.response or b"", created=created
        )

    async def continue_aggregation_job(self, request: Request) -> Response:
        """Refuse: a job of Prio3 is finished after its first step."""
        served, _job = await self._known_job(request)
        step = decode(
            AggregationJobContinueReq,
            await read_body(request, AggregationJobContinueReq.message, MAX_SHORT_MESSAGE),
        ).step
        raise StepMismatch(
            f"the job finished at step 0 and has no step {step}", served.task.task_id
        )

    async def get_aggregation_job(self, request: Request) -> Response:
        """Repeat the answer to a job."""
        _served, job = await self._known_job(request)
        return message_response(AggregationJobResp.message, job.response or b"")

    async def delete_aggregation_job(self, request: Request) -> Response:
        """Forget the answer to a job; its reports stay aggregated."""
        served = await self._authorised(request)
        job_id = self._job_id(request)
        was_there = await self._party.database.run(
            "delete aggregation job",
            lambda tx: delete_request(
                tx, served.task.task_id.value, RequestKind.AGGREGATION_JOB, job_id.value
            ),
        )
        if not was_there:
            raise UnrecognizedAggregationJob("no such aggregation job", served.task.task_id)
        return empty_response()

    async def create_aggregate_share(self, request: Request) -> Response:
        """Release our share of a batch, or find the one that was released."""
        served = await self._authorised(request)
        body = await read_body(request, AggregateShareReq.message, MAX_SHORT_MESSAGE)
        share = await self._shares.answer(served, body)
        created = path(
            "aggregate_share",
            task_id=served.task.task_id,
            aggregate_share_id=AggregateShareId(share.share_id),
        )
        return message_response(AggregateShare.message, share.response or b"", created=created)

    async def get_aggregate_share(self, request: Request) -> Response:
        """Repeat a released share."""
        served = await self._authorised(request)
        share_id = self._share_id(request)
        share = await self._party.database.read(
            "get aggregate share",
            lambda tx: get_aggregate_share(tx, served.task.task_id.value, share_id.value),
        )
        if share is None or share.response is None:
            raise UnrecognizedAggregateShare("no such aggregate share", served.task.task_id)
        return message_response(AggregateShare.message, share.response)

    async def delete_aggregate_share(self, request: Request) -> Response:
        """Forget a released share; its batch stays collected."""
        served = await self._authorised(request)
        share_id = self._share_id(request)
        was_there = await self._party.database.run(
            "delete aggregate share",
            lambda tx: delete_aggregate_share(tx, served.task.task_id.value, share_id.value),
        )
        if not was_there:
            raise UnrecognizedAggregateShare("no such aggregate share", served.task.task_id)
        return empty_response()

    async def _authorised(self, request: Request) -> ServedTask:
        task_id = task_id_of(request)
        # Before anything else is said of the task, such as whether there is one.
        require_token(request, await self._party.caller_token_hash(task_id))
        return await self._party.task(task_id)

    async def _known_job(self, request: Request) -> tuple[ServedTask, HelperRequest]:
        served = await self._authorised(request)
        job_id = self._job_id(request)
        job = await self._party.database.read(
            "get aggregation job",
            lambda tx: get_request(
                tx, served.task.task_id.value, RequestKind.AGGREGATION_JOB, job_id.value
            ),
        )
        if job is None:
            raise UnrecognizedAggregationJob("no such aggregation job", served.task.task_id)
        return served, job

    def _job_id(self, request: Request) -> AggregationJobId:
        return id_of(request, AggregationJobId, "aggregation_job_id", UnrecognizedAggregationJob)

    def _share_id(self, request: Request) -> AggregateShareId:
        return id_of(request, AggregateShareId, "aggregate_share_id", UnrecognizedAggregateShare)
