"""The leader's resources: HPKE configurations, uploads and collection jobs.

Source: DAP, "HPKE Configuration Request", "Uploading Reports" and "Collecting Results".
"""

from fastapi import APIRouter, Request, Response, status
from typing_extensions import override

from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeCiphertext
from aggregator.dap.ids import CollectionJobId, TaskId
from aggregator.dap.messages import CollectionJobReq, CollectionJobResp, UploadErrors, UploadRequest
from aggregator.dap.problems import (
    BatchOverlap,
    InvalidMessage,
    NameTaken,
    TooManyCollections,
    UnrecognizedCollectionJob,
    UnrecognizedTask,
)
from aggregator.dap.profile import Role
from aggregator.dap.resources import Resource, location, resources_of
from aggregator.errors import Abort
from aggregator.protocol.attribution import least_budget
from aggregator.protocol.collection import check_collection_request
from aggregator.protocol.collector_selected import new_batch
from aggregator.protocol.in_band import HEADER
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.task import Task
from aggregator.service.config import POLL_SECONDS, LeaderSettings
from aggregator.service.leader.answers_so_far import answers_so_far
from aggregator.service.leader.upload_checks import MAX_REPORTS, Below
from aggregator.service.leader.uploads import Grouping, Uploads
from aggregator.service.runtime import Runtime, ServedTask, UploadTerms
from aggregator.service.runtime.in_band import check_id
from aggregator.service.runtime.release_steps import try_delete_leftovers
from aggregator.service.storage.batches.closed import closed_batches
from aggregator.service.storage.engine.states import BatchState, CollectionJobState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.collection_jobs import (
    CollectionJob,
    CollectionResult,
    close_collection_job,
    create_collection_job,
    delete_collection_job,
    find_collection_job,
    get_collection_job,
    has_lingered,
    is_job_named,
    note_upload,
)
from aggregator.service.storage.jobs.collection_room import (
    MOST_PENDING,
    delete_fruitless_jobs,
    open_collections,
    pending_collections,
)
from aggregator.service.web.aggregators import AggregatorResources, Kind
from aggregator.service.web.at_once import AtOnce, WholeRequest
from aggregator.service.web.body_budget import SCOPE_KEY, Body
from aggregator.service.web.fast_route import IS_TOLD_TOGETHER, Handler
from aggregator.service.web.messages import (
    MAX_SHORT_MESSAGE,
    dap_router,
    deferred_response,
    empty_response,
    encoded_response,
    is_plainly,
    message_response,
    parsed_task_id,
    read_body,
    task_id_of,
)
from aggregator.service.web.problems import stored_problem_response

COLLECTION_JOB = Kind(
    "collection job",
    CollectionJobId,
    UnrecognizedCollectionJob,
    is_secret=True,  # whoever knows it may upload, where collectors select batches
)

_IN_BAND = (HEADER.lower().encode(),)


class LeaderResources(AggregatorResources):
    """Answers clients and the collector."""

    def __init__(
        self, runtime: Runtime, settings: LeaderSettings, grouping: Grouping | None = None
    ) -> None:
        """Answer for `runtime`.

        Args:
            runtime: The leader's.
            settings: Its settings.
            grouping: How uploads are written together, if not as the settings say.
        """
        super().__init__(runtime, settings.hpke_cache_seconds)
        self._settings = settings
        delay = settings.upload_group_milliseconds / 1000
        self._uploads = Uploads(
            runtime, settings.max_report_age_seconds, grouping or Grouping(delay_seconds=delay)
        )

    def router(self) -> APIRouter:
        """Return the routes of all the leader's resources."""
        return dap_router(
            Role.LEADER,
            {
                ("GET", "hpke_config"): self.hpke_config,
                ("POST", "reports"): self.upload,
                ("POST", "reports_of_job"): self.upload_to_job,
                ("POST", "collection_jobs"): self.create_collection_job,
                ("PUT", "collection_job"): self.put_collection_job,
                ("GET", "collection_job"): self.get_collection_job,
                ("DELETE", "collection_job"): self.delete_collection_job,
                ("GET", "answers_so_far"): self.answers_so_far,
            },
        )

    def fast_routes(self) -> dict[Resource, Handler]:
        """Return what bypasses the framework's layers: uploads, as each phone sends its own."""
        return self._fast(Role.LEADER, {("POST", "reports"): self.upload})

    @override
    def at_once(self) -> dict[Resource, AtOnce]:
        """Return what needs no task for each request: uploads of one usual report."""
        return {
            resource: self.upload_at_once
            for resource in resources_of(Role.LEADER)
            if (resource.method, resource.name) == ("POST", "reports")
        }

    def upload_at_once(self, request: WholeRequest) -> bool:
        """Take a usual report that comes alone; `upload` takes, or refuses, all else."""
        scope, body = request.scope, request.body
        is_short = len(body) <= self._settings.max_body_size
        if not (is_short and is_plainly(UploadRequest.message, scope["headers"], _IN_BAND)):
            return False
        try:
            task_id = parsed_task_id(scope["path_params"]["task_id"])
        except Abort:
            return False
        terms = self._runtime.known_terms(task_id)
        if terms is None or terms.task.batching.collector_selects:
            return False
        held: Body = scope[SCOPE_KEY]
        if not held.hold(task_id, len(body)):
            return False
        upload = self._uploads.begin(terms, body)
        if upload is None:
            held.end()
            return False

        async def rest(slow: Request) -> Response:
            return _told(slow, await self._uploads.finish(upload, task_id_of(slow), body))

        request.rest = rest
        upload.then = lambda: request.succeed() if upload.is_stored else request.go_on()
        return True

    async def upload(self, request: Request) -> Response:
        """Take reports; answer with those that were refused."""
        task = await self._task_of_upload(request, below_a_job=False)
        body = await self._reports_in(request, task)
        # Checked only now: the body may take long to arrive, and a key may be gone by then.
        return _told(request, await self._uploads.take(task.task_id, body))

    async def upload_to_job(self, request: Request) -> Response:
        """Take reports of the batch of a collection job, whose id nobody but its collector knows.

        Nothing is held of reports that come before their job: their sender is told to come again.

        Source: draft-thomson-ppm-dap-attribution.
        """
        task = await self._task_of_upload(request, below_a_job=True)
        task_id, job_id = task.task_id, COLLECTION_JOB.id_of(request)
        database = self._runtime.database
        job = await database.read(
            "job of upload", lambda tx: get_collection_job(tx, task_id.value, job_id)
        )
        if job is None or job.batch is None or job.state is CollectionJobState.DELETED:
            missing = UnrecognizedCollectionJob("no such collection job", task_id)
            missing.retry_after = POLL_SECONDS if job is None else None
            raise missing
        body = await self._reports_in(request, task)
        least = least_budget(task, decode(CollectionJobReq, job.request))
        batch = task.batching.job_extensions(job.batch.first)
        below = Below(batch) if least is None else Below(batch, least)
        errors = await self._uploads.take(task_id, body, below)
        if body:
            await database.run("note upload", lambda tx: note_upload(tx, task_id.value, job_id))
        return _told(request, errors)

    async def _task_of_upload(self, request: Request, *, below_a_job: bool) -> Task:
        task_id = task_id_of(request)
        task = (await self._upload_terms(request, task_id)).task
        if task.batching.collector_selects is not below_a_job:
            where = "to reports alone" if below_a_job else "below a collection job"
            raise InvalidMessage(f"reports of this task are uploaded {where}", task_id)
        return task

    async def _reports_in(self, request: Request, task: Task) -> bytes:
        largest = MAX_REPORTS * report_sizes(task).report
        limit = min(largest, self._settings.max_body_size)
        return await read_body(request, UploadRequest.message, limit)

    async def _upload_terms(self, request: Request, task_id: TaskId) -> UploadTerms:
        given, in_band = self._given(request), self._runtime.in_band
        if given is not None:
            check_id(task_id, given)
        try:
            return await self._runtime.upload_terms(task_id)
        except UnrecognizedTask:
            if given is None or in_band is None:
                raise
        await in_band.add(task_id, given, by_upload=True)
        return await self._runtime.upload_terms(task_id)

    async def create_collection_job(self, request: Request) -> Response:
        """Make a job of a collector's request, or find the job that has exactly this request."""
        served = await self._authorised(request)
        job = await self._collection(request, served)
        created = location(
            served.task.configuration.leader_aggregator_endpoint,
            "collection_job",
            task_id=served.task.task_id,
            collection_job_id=CollectionJobId(job.job_id),
        )
        return await self._state(served.task, job, created)

    async def put_collection_job(self, request: Request) -> Response:
        """Make a job of a collector's request under the id that it chose; it polls by GET."""
        served, job_id = await self._named(request, COLLECTION_JOB, where_collectors_select=True)
        await self._collection(request, served, job_id)
        return message_response(CollectionJobResp.message, b"", status_code=status.HTTP_201_CREATED)

    async def _collection(
        self, request: Request, served: ServedTask, job_id: bytes | None = None
    ) -> CollectionJob:
        body = await read_body(request, CollectionJobReq.message, MAX_SHORT_MESSAGE)
        batch = check_collection_request(
            served.task,
            decode(CollectionJobReq, body),
            self._runtime.clock.now(),
            self._runtime.clock_skew_seconds,
        )
        task_id, batching = served.task.task_id, served.task.batching

        def create(tx: Transaction) -> CollectionJob:
            found = (
                find_collection_job(tx, task_id.value, body)
                if job_id is None
                else _named_job(tx, task_id, job_id, body)
            )
            if found is not None:
                return found
            if (
                batch is not None
                and closed_batches(tx, task_id.value, batch).overall() is BatchState.COLLECTED
            ):
                raise BatchOverlap("a part of the batch was collected before", task_id)
            if pending_collections(tx, task_id.value) >= MOST_PENDING:
                raise TooManyCollections(
                    f"{MOST_PENDING}; another is accepted when one of them has ended", task_id
                )
            self._check_room_of_collector(tx, served.task)
            leader_selects, opens = batching.leader_selects, batching.collector_selects
            delete_fruitless_jobs(tx, task_id.value, leader_selects=leader_selects)
            asked = new_batch(tx.entropy) if opens else batch
            return create_collection_job(tx, task_id.value, body, asked, job_id, opens=opens)

        return await self._runtime.database.run("create collection job", create)

    def _check_room_of_collector(self, tx: Transaction, task: Task) -> None:
        """Refuse, as `TooManyCollections`, more than a collector of many tasks may have open."""
        agreed = self._runtime.agreed_collector(task)
        if agreed is not None and open_collections(tx, agreed.identity) >= agreed.max_open_jobs:
            raise TooManyCollections(
                f"{agreed.max_open_jobs} of this collector; another is accepted when one of them "
                "has ended",
                task.task_id,
            )

    async def get_collection_job(self, request: Request) -> Response:
        """Return the result of a collection job, or ask the collector to wait."""
        served, job = await self._found(request, COLLECTION_JOB, get_collection_job)
        if job.state is CollectionJobState.DELETED:
            raise COLLECTION_JOB.missing(served)
        linger = self._settings.bundle_linger_seconds
        if has_lingered(job, self._runtime.clock.now(), linger):
            await self._runtime.database.run(
                "close collection job",
                lambda tx: close_collection_job(tx, job.task_id, job.job_id, linger),
            )
        return await self._state(served.task, job, None)

    async def delete_collection_job(self, request: Request) -> Response:
        """Delete a collection job whose result the collector has saved or does not want."""
        answer = await self._deleted(request, COLLECTION_JOB, delete_collection_job)
        await self._runtime.journal_unshared_charges()
        await try_delete_leftovers(self._runtime.database)
        return answer

    async def answers_so_far(self, request: Request) -> Response:
        """Tell the task's collector how many answers there are, counted once an hour."""
        served = await self._authorised(request)
        found = await answers_so_far(self._runtime, served.task)
        return encoded_response(found, {"Cache-Control": "no-store"})

    async def _state(self, task: Task, job: CollectionJob, created: str | None) -> Response:
        if job.problem is not None:
            return stored_problem_response(job.problem)
        if job.result is None and task.profile.creator_names:
            wait = {"Retry-After": str(POLL_SECONDS)}
            return message_response(CollectionJobResp.message, b"", headers=wait)
        if job.result is None:
            return deferred_response(POLL_SECONDS, created=created)
        await self._runtime.before_share_leaves(TaskId(job.task_id), job.result.leader_share)
        body = encode(_collection_response(job.result))
        return message_response(CollectionJobResp.message, body, created=created)


def _told(request: Request, errors: UploadErrors) -> Response:
    if errors.status:
        return encoded_response(errors)
    request.scope[IS_TOLD_TOGETHER] = True  # by a line a second (`upload_log`)
    return empty_response()


def _named_job(
    tx: Transaction, task_id: TaskId, job_id: bytes, body: bytes
) -> CollectionJob | None:
    """Return the collection job with the id that a collector chose; None if the id is unused."""
    found = get_collection_job(tx, task_id.value, job_id)
    is_free = found is None and not is_job_named(tx, job_id)
    if is_free:
        return None
    if found is None or found.request != body or found.state is CollectionJobState.DELETED:
        raise NameTaken("another collection job has or had it", task_id)
    return found


def _collection_response(result: CollectionResult) -> CollectionJobResp:
    return CollectionJobResp(
        report_count=result.report_count,
        interval=result.interval,
        leader_encrypted_agg_share=decode(HpkeCiphertext, result.leader_share),
        helper_encrypted_agg_share=decode(HpkeCiphertext, result.helper_share),
    )
