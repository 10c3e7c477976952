"""Collects a batch: asks the leader, polls, opens both aggregate shares and adds them.

A library for a notebook or another service, without a server or a database:

    async with httpx.AsyncClient() as http:
        collector = TaskCollector(task, keypair, token, http)
        result = await collector.collect(collection_request(task, {"start": …, "end": …}))

Asking twice for the same batch gets the same job. A caller that must not lose a result stores the
`Collection` before the first poll and calls `forget` once the result is safe. Where the leader
selects the batches, it also gets the same job until it calls `forget`, and then the next batch.

Source: DAP, "Collecting Results".
"""

import dataclasses
from collections.abc import Awaitable, Callable, Sequence

import anyio
import httpx
from typing_extensions import override

from aggregator.codec import DecodeError, decode, encode
from aggregator.collector.results.result import Result, largest_result, open_result
from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.ids import CollectionJobId, ReportId
from aggregator.dap.messages import (
    CollectionJobReq,
    CollectionJobResp,
    Report,
    UploadErrors,
    UploadRequest,
)
from aggregator.dap.problems import BatchInvalid
from aggregator.dap.resources import media_type, path
from aggregator.entropy import SystemEntropy
from aggregator.errors import PeerError
from aggregator.protocol.answers_so_far import MOST_BYTES, AnswersSoFar
from aggregator.protocol.in_band import headers_of
from aggregator.protocol.task import Task
from aggregator.service.config.constants import WAIT_SECONDS
from aggregator.service.transport.creation import COLLECTION_JOB
from aggregator.service.transport.interpretation import Answer, PeerRefused, PeerUnreachable
from aggregator.service.transport.peer import Peer
from aggregator.written_times import duration

POLL_SECONDS = 2
"""How long to wait before the next poll if the leader does not say."""


class CollectionError(PeerError):
    """The leader answered with something that a collector cannot use."""


class CollectionTimeout(PeerError):
    """The batch was not ready in time; asking again goes on with the same job."""


@dataclasses.dataclass(frozen=True, slots=True)
class Collection:
    """A collection job at the leader.

    Attributes:
        request: The exact request; it is bound into both aggregate shares.
        location: Where the leader keeps the job.
    """

    request: bytes
    location: str


@dataclasses.dataclass(frozen=True, slots=True)
class Pending:
    """The batch is not ready; `retry_after` is in seconds."""

    retry_after: int


class TaskCollector:
    """Collects batches of one task.

    Shares made under any other view of the task than this one do not open.
    """

    def __init__(
        self,
        task: Task,
        keypair: HpkeKeypair,
        token: str,
        http: httpx.AsyncClient,
        *,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._task = task
        self._keypair = keypair
        endpoint = task.configuration.leader_aggregator_endpoint
        self._leader = Peer(
            http,
            endpoint,
            token,
            name="the leader",
            token_header=task.token_header,
            headers=headers_of(task),
        )
        self.sleep = sleep

    @override
    def __repr__(self) -> str:
        """Name the task, without key and token."""
        return f"TaskCollector({self._task.task_id})"

    async def start(
        self, request: CollectionJobReq, name: bytes | None = None
    ) -> tuple[Collection, Result | Pending]:
        """Ask for the batch of a request, which `collection_request` makes.

        Args:
            request: The request.
            name: 16 bytes that are ours alone, for a leader that lets us name the collection; use
                the same name to ask again for the same batch. Random if not given.

        Raises:
            PeerRefused: The leader refuses; its problem says why.
            PeerUnreachable: There is no answer; asking again is safe.
            UnusableResult: A share does not open under our view of the task.
        """
        collection, state = await self._ask(request, name)
        return collection, self._opened(collection, state)

    async def poll(self, collection: Collection) -> Result | Pending:
        """Ask for the state of a collection; raises as `start` does."""
        return self._opened(collection, await self._look(collection))

    async def wait_for(self, collection: Collection) -> Result:
        """Wait until a collection has its result, however long; raises as `start` does."""
        sealed = await self._ended(collection, await self._look(collection))
        return self._open(collection, sealed)

    async def forget(self, collection: Collection) -> None:
        """Tell the leader that the result is safe. Its batch cannot be collected again.

        If the leader no longer has the job, that is success: an earlier answer may have been lost.
        """
        try:
            await self._leader.delete(collection.location)
        except PeerRefused as error:
            if error.status not in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
                raise

    async def hand_in(
        self, collection: Collection, reports: Sequence[Report]
    ) -> dict[ReportId, str]:
        """Upload reports below a collection; return those that the leader refuses, and why.

        Raises `PeerRefused` or `PeerUnreachable`; asking again is safe while the job is pending.
        """
        job = CollectionJobId.parse(collection.location.split("?")[0].rsplit("/", 1)[-1])
        target = path("reports_of_job", task_id=self._task.task_id, collection_job_id=job)
        body, kind = encode(UploadRequest(tuple(reports))), media_type(UploadRequest.message)
        answer = await self._leader.send(target, kind, body, carrying=UploadErrors)
        try:
            refused = decode(UploadErrors, answer.carried(UploadErrors.message)).status
        except DecodeError as error:
            raise CollectionError(f"the leader's answer: {error}") from error
        name = self._task.profile.report_error
        return {each.id: name(each.error).draft_name for each in refused}

    async def answers_so_far(self) -> AnswersSoFar:
        """Return how many answers the leader says that windows have.

        Raises `PeerRefused` or `PeerUnreachable`, also if the leader is of another make.
        """
        target = path("answers_so_far", task_id=self._task.task_id)
        answer = await self._leader.get(target, limit=MOST_BYTES, carrying=AnswersSoFar)
        try:
            return decode(AnswersSoFar, answer.carried(AnswersSoFar.message))
        except DecodeError as error:
            raise CollectionError(f"the leader's answer: {error}") from error

    async def collect(
        self, request: CollectionJobReq, timeout_seconds: float = WAIT_SECONDS
    ) -> Result:
        """Ask for the batch of a request and wait for the result; raises as `start` does.

        It raises `CollectionTimeout` if the batch was not ready in time.
        """
        sealed = await self.collect_sealed(request, timeout_seconds)
        return open_result(self._task, self._keypair, request, sealed)

    async def collect_sealed(
        self, request: CollectionJobReq, timeout_seconds: float
    ) -> CollectionJobResp:
        """Collect like `collect`, but return both aggregate shares still sealed to us.

        Raises `PeerRefused`, `PeerUnreachable` or `CollectionTimeout`, as `collect` does.
        """
        with anyio.move_on_after(timeout_seconds):
            return await self._ended(*await self._ask(request))
        raise CollectionTimeout(f"the batch was not ready in {duration(timeout_seconds)}")

    async def _ask(
        self, request: CollectionJobReq, name: bytes | None = None
    ) -> tuple[Collection, CollectionJobResp | Pending]:
        body = encode(request)
        name = SystemEntropy().bytes(CollectionJobId.size) if name is None else name
        limit = largest_result(self._task)
        try:
            answer = await COLLECTION_JOB.ask(
                self._leader, self._task, name, body, limit=limit, carrying=CollectionJobResp
            )
        except PeerRefused as error:
            # Where we name collections, the leader has nothing to wait for until a batch is full.
            selects = self._task.profile.creator_names and self._task.batching.leader_selects
            if selects and isinstance(error.problem, BatchInvalid):
                raise PeerUnreachable("the leader has no batch that is full") from error
            raise
        if answer.location is None:
            raise CollectionError("the leader did not say where it keeps the collection job")
        return Collection(body, answer.location), _sealed(answer)

    async def _look(self, collection: Collection) -> CollectionJobResp | Pending:
        limit = largest_result(self._task)
        answer = await self._leader.get(
            collection.location, limit=limit, carrying=CollectionJobResp
        )
        return _sealed(answer)

    async def _ended(
        self, collection: Collection, state: CollectionJobResp | Pending
    ) -> CollectionJobResp:
        while isinstance(state, Pending):
            await self.sleep(state.retry_after)
            state = await self._look(collection)
        return state

    def _opened(
        self, collection: Collection, state: CollectionJobResp | Pending
    ) -> Result | Pending:
        return state if isinstance(state, Pending) else self._open(collection, state)

    def _open(self, collection: Collection, sealed: CollectionJobResp) -> Result:
        request = decode(CollectionJobReq, collection.request)
        return open_result(self._task, self._keypair, request, sealed)


def _sealed(answer: Answer) -> CollectionJobResp | Pending:
    body = answer.carried(CollectionJobResp.message)
    if not body:
        return Pending(POLL_SECONDS if answer.retry_after is None else answer.retry_after)
    try:
        return decode(CollectionJobResp, body)
    except DecodeError as error:
        raise CollectionError(f"the leader's answer: {error}") from error
