"""Leases a collection job and finishes it in two transactions, or leaves it for later.

    T1  the batch is ready, large enough and paid for: freeze it, reserve the cost, store the
        exact request to the helper
    ──  ask the helper, with those bytes, until there is an answer
    T2  only on its success: draw our noise, seal, store both shares, charge, mark the batch
        collected, destroy the un-noised shares

A refusal by the helper reopens the batch: nothing was drawn. A crash before the commit of T1 or T2
leaves nothing of it, a crash after leaves all of it, and the next driver goes on with the same
bytes.

Source: DAP, "Collection Job Initialization" and "Obtaining Aggregate Shares".
"""

import json

import httpx
import structlog

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import AggregateShare, AggregateShareReq, CollectionJobReq
from aggregator.dap.problems import BatchOverlap, Problem, problem_document
from aggregator.dap.profile import Role
from aggregator.dap.resources import media_type, path
from aggregator.leader.helper_peer import helper_of, is_refusal, retry_delay
from aggregator.leader.job_driver import DriverSettings
from aggregator.leader.steps import step_all
from aggregator.protocol.buckets import merge_agg_shares
from aggregator.protocol.collection import (
    aggregate_share_request,
    check_size,
    release,
    sealed_share_size,
)
from aggregator.runtime import Runtime, ServedTask, charge_of, check_limits
from aggregator.storage.batches import closed_batches, read_shares, summarize_batch
from aggregator.storage.collection_jobs import (
    CollectionJob,
    CollectionResult,
    fail_collection_job,
    finish_collection_job,
    freeze_collection_job,
    lease_collection_jobs,
    release_collection_job,
    store_share_location,
)
from aggregator.storage.database import Transaction
from aggregator.storage.leases import Leased
from aggregator.storage.reports import pending_reports
from aggregator.storage.states import BatchState
from aggregator.transport.peer import Answer, PeerRefused, PeerUnreachable
from aggregator.vdaf.aggregation_parameter import AggregationParameter

log = structlog.get_logger()


class CollectionDriver:
    """Drives the collection jobs of all tasks of the leader."""

    def __init__(
        self,
        runtime: Runtime,
        http: httpx.AsyncClient,
        settings: DriverSettings,
        *,
        poll_seconds: int = 1,
    ) -> None:
        """Drive the jobs in the store of `runtime`.

        Args:
            runtime: The leader.
            http: Sends the requests to helpers.
            settings: How jobs are leased.
            poll_seconds: How soon a batch that was not ready is looked at again.
        """
        self._runtime = runtime
        self._http = http
        self._settings = settings
        self._poll_seconds = poll_seconds

    async def run_once(self) -> int:
        """Lease free jobs and step each of them; return how many."""
        leased = await self._runtime.database.run(
            "lease collection jobs",
            lambda tx: lease_collection_jobs(
                tx, self._settings.concurrency, self._settings.lease_seconds
            ),
        )
        await step_all("collection", leased, self._step)
        return len(leased)

    async def _step(self, leased: Leased[CollectionJob]) -> None:
        job = leased.job
        served = await self._runtime.task(TaskId(job.task_id))
        request = job.aggregate_share_request
        if request is None:
            request = await self._runtime.database.run(
                "freeze batch", lambda tx: self._freeze(tx, served, leased)
            )
            if request is None:
                return
        try:
            answer = await self._ask(served, job, request)
            body = answer.carried(AggregateShare.message)
            share = decode(AggregateShare, body) if body else None
        except PeerUnreachable as error:
            log.warning("helper unreachable", reason=str(error))
            await self._release_lease(leased, error.retry_after)
        except PeerRefused as error:
            await self._refused(leased, error)
        except DecodeError as error:
            # The helper may have released its share, so the batch stays frozen.
            log.error("helper's aggregate share is unusable", reason=str(error))  # noqa: TRY400 - the peer's fault, no trace of ours
            await self._release_lease(leased, None)
        else:
            if share is None:
                await self._wait(leased, answer)
            else:
                await self._finish(served, leased, share)

    def _freeze(
        self, tx: Transaction, served: ServedTask, leased: Leased[CollectionJob]
    ) -> bytes | None:
        """T1: freeze the batch and reserve its cost, or wait, or fail the job.

        Returns:
            The exact request to the helper, or None if the job waits or has failed.
        """
        job, task = leased.job, served.task
        closed = closed_batches(tx, job.task_id, job.batch).overall()
        if closed is BatchState.COLLECTED:
            problem = BatchOverlap("a part of the batch was collected before", task.task_id)
            self._fail(tx, leased, problem)
            return None
        pending = pending_reports(tx, job.task_id, job.batch)
        if closed is not None or pending.unclaimed or pending.claimed:
            # Not a failed attempt: a long wait must not lengthen the delays of a later outage.
            release_collection_job(tx, leased.lease, self._poll_seconds, progressed=True)
            return None
        totals = summarize_batch(tx, job.task_id, job.batch)
        try:
            check_size(task, totals.report_count)
            check_limits(tx, task)
        except Problem as problem:
            self._fail(tx, leased, problem)
            return None
        asked = decode(CollectionJobReq, job.request)
        request = encode(aggregate_share_request(task, asked, job.batch, totals))
        freeze_collection_job(tx, leased.lease, request, charge_of(task))
        return request

    def _fail(self, tx: Transaction, leased: Leased[CollectionJob], problem: Problem) -> None:
        log.info("collection job failed", job=leased.job.job_id.hex(), reason=str(problem))
        fail_collection_job(tx, leased.lease, json.dumps(problem_document(problem)))

    async def _ask(self, served: ServedTask, job: CollectionJob, request: bytes) -> Answer:
        helper = helper_of(served, self._http, self._settings.peer_attempts)
        limit = sealed_share_size(served.task)
        if job.helper_location is not None:
            return await helper.get(job.helper_location, limit=limit)
        return await helper.post(
            path("aggregate_shares", task_id=served.task.task_id),
            media_type(AggregateShareReq.message),
            request,
            limit=limit,
        )

    async def _finish(
        self, served: ServedTask, leased: Leased[CollectionJob], helper_share: AggregateShare
    ) -> None:
        """T2: release our own share with the helper's."""
        job, task = leased.job, served.task

        def finish(tx: Transaction) -> None:
            totals = summarize_batch(tx, job.task_id, job.batch)
            asked = decode(CollectionJobReq, job.request)
            vdaf = task.vdaf(AggregationParameter(asked.agg_param))
            agg_share = merge_agg_shares(vdaf, read_shares(tx, job.task_id, job.batch))
            leader_share = release(
                task,
                Role.LEADER,
                agg_share,
                asked,
                self._runtime.entropy,
            )
            finish_collection_job(
                tx,
                leased.lease,
                CollectionResult(
                    report_count=totals.report_count,
                    interval=totals.interval,
                    leader_share=encode(leader_share),
                    helper_share=encode(helper_share.encrypted_aggregate_share),
                ),
            )

        await self._runtime.database.run("release batch", finish)
        log.info("collection job finished", job=job.job_id.hex())

    async def _wait(self, leased: Leased[CollectionJob], answer: Answer) -> None:
        """Remember where the helper will answer, and ask again later."""
        delay = self._poll_seconds if answer.retry_after is None else answer.retry_after

        def wait(tx: Transaction) -> None:
            if answer.location is not None:
                store_share_location(tx, leased.lease, answer.location)
            release_collection_job(tx, leased.lease, delay, progressed=True)

        await self._runtime.database.run("await aggregate share", wait)

    async def _release_lease(self, leased: Leased[CollectionJob], asked: int | None) -> None:
        delay = retry_delay(leased.lease.attempts, asked)
        log.info("job waits", next_in=f"{delay}s")
        await self._runtime.database.run(
            "release collection job",
            lambda tx: release_collection_job(tx, leased.lease, delay),
        )

    async def _refused(self, leased: Leased[CollectionJob], error: PeerRefused) -> None:
        """Fail the job if the helper says why; otherwise ask again, for it may have released."""
        log.error("helper refused an aggregate share", reason=str(error))
        if is_refusal(error.problem):
            await self._runtime.database.run(
                "fail collection job", lambda tx: self._fail(tx, leased, error.problem)
            )
        else:
            await self._release_lease(leased, None)
