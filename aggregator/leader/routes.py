"""The leader's resources: HPKE configurations, uploads and collection jobs.

Source: DAP, "HPKE Configuration Request", "Uploading Reports" and "Collecting Results".
"""

import dataclasses

from fastapi import APIRouter, Request, Response

from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeCiphertext
from aggregator.dap.ids import CollectionJobId
from aggregator.dap.messages import CollectionJobReq, CollectionJobResp, UploadRequest
from aggregator.dap.problems import BatchOverlap, UnrecognizedCollectionJob
from aggregator.dap.profile import Role
from aggregator.dap.resources import path
from aggregator.dap.times import Interval
from aggregator.leader.uploads import MAX_REPORTS, Uploads
from aggregator.party import Party, ServedTask
from aggregator.protocol.collection import check_collection_request, check_reach
from aggregator.protocol.reports import MAX_AGE_SECONDS, report_sizes
from aggregator.storage.batches import closed_intervals
from aggregator.storage.collection_jobs import (
    CollectionJob,
    CollectionResult,
    create_collection_job,
    delete_collection_job,
    find_collection_job,
    get_collection_job,
)
from aggregator.storage.database import Transaction
from aggregator.storage.states import CollectionJobState, IntervalState
from aggregator.web.auth import require_token
from aggregator.web.messages import (
    MAX_SHORT_MESSAGE,
    dap_router,
    deferred_response,
    empty_response,
    encoded_response,
    id_of,
    message_response,
    read_body,
    task_id_of,
)
from aggregator.web.problems import stored_problem_response


@dataclasses.dataclass(frozen=True, slots=True)
class LeaderLimits:
    """What the leader's application takes and says.

    Attributes:
        max_body_size: The most bytes of an upload.
        hpke_cache_seconds: How long clients may keep our HPKE configurations.
        poll_seconds: When a collector is asked to come again.
        max_report_age_seconds: How far behind our clock a report's time may lie.
    """

    max_body_size: int = 64 * 2**20
    hpke_cache_seconds: int = 86_400
    poll_seconds: int = 2
    max_report_age_seconds: int = MAX_AGE_SECONDS


class LeaderResources:
    """Answers what clients and the collector ask."""

    def __init__(self, party: Party, limits: LeaderLimits) -> None:
        """Answer for `party`."""
        self._party = party
        self._limits = limits
        self._uploads = Uploads(party, limits.max_report_age_seconds)

    def router(self) -> APIRouter:
        """Return the routes of all the leader's resources."""
        return dap_router(
            Role.LEADER,
            {
                ("GET", "hpke_config"): self.hpke_config,
                ("POST", "reports"): self.upload,
                ("POST", "collection_jobs"): self.create_collection_job,
                ("GET", "collection_job"): self.get_collection_job,
                ("DELETE", "collection_job"): self.delete_collection_job,
            },
        )

    async def hpke_config(self, _request: Request) -> Response:
        """Advertise our HPKE configurations."""
        max_age = f"max-age={self._limits.hpke_cache_seconds}"
        return encoded_response(await self._party.configs(), {"Cache-Control": max_age})

    async def upload(self, request: Request) -> Response:
        """Take reports; name those that were refused."""
        served = await self._party.task(task_id_of(request))
        largest = MAX_REPORTS * report_sizes(served.task).report
        body = await read_body(
            request, UploadRequest.message, min(largest, self._limits.max_body_size)
        )
        errors = await self._uploads.take(served, body)
        return encoded_response(errors) if errors.status else empty_response()

    async def create_collection_job(self, request: Request) -> Response:
        """Take a collector's request, or find the job of the very same one."""
        served = await self._authorised(request)
        body = await read_body(request, CollectionJobReq.message, MAX_SHORT_MESSAGE)
        interval = check_collection_request(served.task, decode(CollectionJobReq, body))
        now = self._party.clock.now() + self._party.clock_skew_seconds
        check_reach(served.task, interval, now)
        task_id = served.task.task_id

        def create(tx: Transaction) -> CollectionJob:
            found = find_collection_job(tx, task_id.value, body)
            if found is not None:
                return found
            start, end = interval.start.units, interval.end.units
            if closed_intervals(tx, task_id.value, start, end).overall() is IntervalState.COLLECTED:
                raise BatchOverlap("a part of the batch was collected before", task_id)
            return create_collection_job(tx, task_id.value, body, start, end)

        job = await self._party.database.run("create collection job", create)
        created = path(
            "collection_job", task_id=task_id, collection_job_id=CollectionJobId(job.job_id)
        )
        return self._state(job, created)

    async def get_collection_job(self, request: Request) -> Response:
        """Say how a collection job stands."""
        served = await self._authorised(request)
        job_id = self._job_id(request)
        job = await self._party.database.read(
            "get collection job",
            lambda tx: get_collection_job(tx, served.task.task_id.value, job_id.value),
        )
        if job is None or job.state is CollectionJobState.DELETED:
            raise UnrecognizedCollectionJob("no such collection job", served.task.task_id)
        return self._state(job, None)

    async def delete_collection_job(self, request: Request) -> Response:
        """Forget a collection job: the collector has saved its result, or does not want it."""
        served = await self._authorised(request)
        job_id = self._job_id(request)
        was_there = await self._party.database.run(
            "delete collection job",
            lambda tx: delete_collection_job(tx, served.task.task_id.value, job_id.value),
        )
        if not was_there:
            raise UnrecognizedCollectionJob("no such collection job", served.task.task_id)
        return empty_response()

    async def _authorised(self, request: Request) -> ServedTask:
        task_id = task_id_of(request)
        # Before anything else is said of the task, such as whether there is one.
        require_token(request, await self._party.caller_token_hash(task_id))
        return await self._party.task(task_id)

    def _job_id(self, request: Request) -> CollectionJobId:
        return id_of(request, CollectionJobId, "collection_job_id", UnrecognizedCollectionJob)

    def _state(self, job: CollectionJob, created: str | None) -> Response:
        if job.problem is not None:
            return stored_problem_response(job.problem)
        if job.result is None:
            return deferred_response(self._limits.poll_seconds, created=created)
        body = encode(_collection_response(job.result))
        return message_response(CollectionJobResp.message, body, created=created)


def _collection_response(result: CollectionResult) -> CollectionJobResp:
    return CollectionJobResp(
        report_count=result.report_count,
        interval=Interval.of(result.interval_start, result.interval_end - result.interval_start),
        leader_encrypted_agg_share=decode(HpkeCiphertext, result.leader_share),
        helper_encrypted_agg_share=decode(HpkeCiphertext, result.helper_share),
    )
