"""Leases a collection job and finishes it in two transactions, or leaves it for later.

    T1  the batch is ready, large enough and paid for: freeze it, reserve the cost, store the
        exact request to the helper; where the leader selects batches, it takes the oldest full one
    ──  send the helper those bytes until it has given the same answer twice
    ──  only if it succeeds: add up the buckets, in steps that only read
    T2  draw our noise, seal, store both shares, charge, mark the batch collected, destroy the
        un-noised shares

If the helper refuses, the batch reopens: no noise was drawn. A crash before T1 or T2 commits leaves
nothing of that transaction, a crash after leaves all of it, and the next driver carries on with the
same bytes.

Source: DAP, "Collection Job Initialization" and "Obtaining Aggregate Shares".
"""

import dataclasses
import hashlib
import json

import anyio
from typing_extensions import override

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.ids import AggregateShareId, TaskId
from aggregator.dap.messages import AggregateShare, CollectionJobReq
from aggregator.dap.problems import BatchOverlap, InvalidBatchSize, Problem, problem_document
from aggregator.dap.profile import Role
from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.protocol.collection import (
    aggregate_share_request,
    check_totals,
    release,
    sealed_share_size,
)
from aggregator.protocol.helper_answers import Refusal, after_refused_collection, retry_delay
from aggregator.protocol.task import Task
from aggregator.protocol.witness import HEADER, from_header, to_header
from aggregator.service.leader.lease_driver import LeaseDriver
from aggregator.service.runtime import ServedTask, charge_of, check_limits
from aggregator.service.runtime.release_steps import merge_batch, try_delete_leftovers
from aggregator.service.runtime.witness import check_witness, released
from aggregator.service.storage.batches.closed import closed_batches
from aggregator.service.storage.batches.lost_keys import why_unreadable
from aggregator.service.storage.batches.selected import next_batch, select_again
from aggregator.service.storage.batches.sums import (
    buckets_without_key,
    check_unchanged,
    report_count,
    summarize_batch,
)
from aggregator.service.storage.engine import locks
from aggregator.service.storage.engine.states import BatchState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.collection_jobs import (
    COLLECTION_JOBS,
    CollectionJob,
    CollectionResult,
    fail_collection_job,
    finish_collection_job,
    freeze_collection_job,
    note_refusal,
    select_batch,
    selected_batch,
    store_share_location,
)
from aggregator.service.storage.jobs.leases import Leased
from aggregator.service.storage.reports.reports import has_reports
from aggregator.service.storage.reports.waiting import waiting_in_batch
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.metrics import COLLECTION_SECONDS, Outcome, note_outcome
from aggregator.service.telemetry.tracing import span
from aggregator.service.transport.creation import AGGREGATE_SHARE
from aggregator.service.transport.interpretation import Answer, PeerRefused, PeerUnreachable
from aggregator.vdaf.aggregation_parameter import AggregationParameter

LONGEST_POLL_SECONDS = 10
"""The longest wait before a batch that is not ready is looked at again."""

SHARE_ATTEMPTS = 6
"""How many times to ask the helper for its share until two answers agree."""

_POLL_SECONDS = 1
"""The shortest wait before a batch that is not ready is looked at again. Later the wait is a tenth
of the job's age, since each look is written to disk."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    """A batch that is ready, its totals, and why any of its sums cannot be read."""

    batch: Batch
    totals: BatchTotals
    unreadable: str | None


class CollectionDriver(LeaseDriver[CollectionJob]):
    """Drives the collection jobs of all tasks of the leader."""

    jobs = COLLECTION_JOBS

    @override
    async def _step(self, leased: Leased[CollectionJob]) -> None:
        job = leased.job
        served = await self._runtime.task(TaskId(job.task_id))
        request = job.aggregate_share_request
        if request is None:
            seen = await self._runtime.database.read(
                "look at batch", lambda tx: _batch_if_ready(tx, served.task, job)
            )
            request = await self._runtime.database.run(
                "freeze batch", lambda tx: self._freeze(tx, served, leased, seen)
            )
            if request is None:
                return
        try:
            answer = await self._ask(served, job, request)
            await self._hear(served.task, answer)
            body = answer.carried(AggregateShare.message)
            share = await self._confirmed(served, job, request, body) if body else None
        except PeerUnreachable as error:
            log.warning("helper unreachable", reason=str(error))
            note_outcome(Outcome.UNREACHABLE)
            await self._release(leased, str(error), error.retry_after)
        except PeerRefused as error:
            await self._refused(served.task, leased, error)
        except DecodeError as error:
            # The helper may have released its share, so the batch stays frozen.
            log.error("helper's aggregate share is unusable", reason=str(error))
            note_outcome(Outcome.UNUSABLE)
            await self._release(leased, f"the helper's answer: {error}")
        else:
            if share is None:
                await self._wait(
                    leased, answer, _POLL_SECONDS, "the helper has not released its share"
                )
            else:
                await self._finish(served, leased, share)

    def _freeze(
        self,
        tx: Transaction,
        served: ServedTask,
        leased: Leased[CollectionJob],
        seen: _Seen | None,
    ) -> bytes | None:
        """T1: freeze the batch and reserve its cost, or wait, or fail the job.

        Args:
            tx: The transaction.
            served: The task.
            leased: The job.
            seen: The batch as it was a moment ago; None if none was ready.

        Returns:
            The exact request to the helper, or None if the job waits or has failed.
        """
        job, task = leased.job, served.task
        locks.change_batches(tx, job.task_id)  # from here on we read exactly what we freeze
        batch = job.batch or next_batch(tx, job.task_id, task.min_batch_size)
        if batch is None:
            self._await_batch(tx, served, leased)
            return None
        closed = closed_batches(tx, job.task_id, batch).overall()
        if closed is BatchState.COLLECTED:
            problem = BatchOverlap("a part of the batch was collected before", task.task_id)
            self._fail(tx, leased, problem)
            return None
        if (
            seen is None
            or seen.batch != batch
            or not _is_ready(tx, task, batch)
            or report_count(tx, job.task_id, batch) != seen.totals.report_count
        ):
            reason = (
                "another collection of a part of the batch is under way"
                if closed is not None
                else f"{waiting_in_batch(tx, job.task_id, batch)} reports of the batch are not "
                "aggregated yet"
            )
            self._look_later(tx, leased, reason)
            return None
        if seen.unreadable:
            # Otherwise the helper would release and charge for a batch that we cannot release.
            log.error("a batch has lost its keys", job=job.job_id.hex(), reason=seen.unreadable)
            self._look_later(tx, leased, seen.unreadable)
            return None
        totals, asked = seen.totals, decode(CollectionJobReq, job.request)
        try:
            check_totals(task, asked, totals)
            check_limits(tx, task)
        except Problem as problem:
            self._fail(tx, leased, problem)
            return None
        request = encode(aggregate_share_request(task, asked, batch, totals))
        if job.batch is None:
            select_batch(tx, leased.lease, batch)
        freeze_collection_job(tx, leased.lease, request, charge_of(task, asked))
        return request

    def _await_batch(
        self, tx: Transaction, served: ServedTask, leased: Leased[CollectionJob]
    ) -> None:
        """Wait for a batch that can be selected, or fail the job if there will be none."""
        if served.is_ended and not has_reports(tx, leased.job.task_id):
            detail = "the task takes no more reports, and no other batch is full"
            self._fail(tx, leased, InvalidBatchSize(detail, served.task.task_id))
        else:
            self._look_later(tx, leased, "no batch that was not collected before is full")

    def _look_later(self, tx: Transaction, leased: Leased[CollectionJob], reason: str) -> None:
        """Give back a job whose batch is not ready."""
        note_outcome(Outcome.WAITS)
        waited = tx.now - leased.job.created_at
        delay = max(_POLL_SECONDS, min(waited // 10, LONGEST_POLL_SECONDS))
        # Not a failed attempt: a long wait must not lengthen the delays of a later outage.
        COLLECTION_JOBS.release(tx, leased.lease, delay, reason=reason, progressed=True)

    def _fail(self, tx: Transaction, leased: Leased[CollectionJob], problem: Problem) -> None:
        log.info("collection job failed", job=leased.job.job_id.hex(), reason=str(problem))
        note_outcome(Outcome.ENDED)
        fail_collection_job(tx, leased.lease, json.dumps(problem_document(problem)))

    async def _hear(self, task: Task, answer: Answer) -> None:
        """Release nothing while the helper knows of releases that we have forgotten."""
        witnessed = from_header(answer.headers.get(HEADER.lower()))
        await self._runtime.database.read(
            "hear a witness", lambda tx: check_witness(tx, task, witnessed, "helper")
        )

    async def _ask(self, served: ServedTask, job: CollectionJob, request: bytes) -> Answer:
        limit = sealed_share_size(served.task)
        ours = await self._runtime.database.read("witness", lambda tx: released(tx, served.task))
        with self._asking(served) as helper:
            if job.helper_location is not None:
                return await helper.get(job.helper_location, limit=limit)
            # Named by the request: after a failed collection, another job may send the same one.
            name = hashlib.sha256(b"aggregate share" + job.task_id + request).digest()
            name = name[: AggregateShareId.size]
            headers = {HEADER: to_header(ours)}
            return await AGGREGATE_SHARE.ask(
                helper, served.task, name, request, limit=limit, headers=headers
            )

    async def _confirmed(
        self, served: ServedTask, job: CollectionJob, request: bytes, body: bytes
    ) -> AggregateShare:
        """Return the helper's share, once two of its answers agree.

        The share is sealed to the collector, so we cannot see whether it was garbled in transit,
        and it is final once our own share is released. A helper stores its answer and repeats it.
        If the helper seals its share anew each time, we take the last answer.

        Raises:
            DecodeError: One answer at most is an aggregate share.
            PeerUnreachable: The same, and the helper went away. The batch stays frozen, and nothing
                is lost by asking again.
        """
        if served.task.profile.seals_anew:
            return decode(AggregateShare, body)
        shares: list[AggregateShare] = []
        fault = DecodeError("there is none")
        away: PeerUnreachable | None = None
        for _ in range(SHARE_ATTEMPTS):
            try:
                share = decode(AggregateShare, body)
            except DecodeError as error:
                fault = error
            else:
                if share in shares:
                    return share
                shares.append(share)
            try:
                body = (await self._ask(served, job, request)).carried(AggregateShare.message)
            except PeerUnreachable as error:
                away, body = error, b""
        if len(shares) <= 1:
            raise away if shares and away is not None else fault
        log.warning("helper's aggregate share came in several versions", versions=len(shares))
        return shares[-1]

    async def _finish(
        self, served: ServedTask, leased: Leased[CollectionJob], helper_share: AggregateShare
    ) -> None:
        """T2: release our own share with the helper's."""
        job, task, database = leased.job, served.task, self._runtime.database
        asked = decode(CollectionJobReq, job.request)
        vdaf = task.vdaf(AggregationParameter(asked.agg_param))
        batch = await database.read("selected batch", lambda tx: selected_batch(tx, leased.lease))
        merged = await merge_batch(database, task, vdaf, batch)

        def finish(tx: Transaction) -> None:
            locks.change_batches(tx, job.task_id)
            check_unchanged(tx, job.task_id, batch, merged.totals)
            leader_share = release(
                task, Role.LEADER, merged.agg_share, asked, self._runtime.entropy
            )
            finish_collection_job(
                tx,
                leased.lease,
                CollectionResult(
                    report_count=merged.totals.report_count,
                    interval=merged.totals.interval,
                    leader_share=encode(leader_share),
                    helper_share=encode(helper_share.encrypted_aggregate_share),
                ),
            )

        with span("release batch", reports=merged.totals.report_count):
            await database.run("release batch", finish)
        COLLECTION_SECONDS.observe(self._runtime.clock.now() - job.created_at)
        log.info("collection job finished", job=job.job_id.hex())
        # The lease ended with the job, so its renewal would now cancel this step.
        with anyio.CancelScope(shield=True):
            await try_delete_leftovers(database)

    async def _refused(self, task: Task, leased: Leased[CollectionJob], error: PeerRefused) -> None:
        """Act on a refusal as `protocol.helper_answers` says."""
        log.error("helper refused an aggregate share", reason=str(error))
        note_outcome(Outcome.REFUSED)
        was_located = leased.job.helper_location is not None
        refusal = Refusal(error.problem, error.status)

        def refused(tx: Transaction) -> None:
            if was_located and refusal.is_gone:
                store_share_location(tx, leased.lease, None)
            failure = after_refused_collection(
                refusal,
                was_located=was_located,
                refused_for=note_refusal(tx, leased.lease),
                refusal_seconds=self._settings.refusal_seconds,
            )
            if failure is None:
                delay = retry_delay(leased.lease.attempts)
                COLLECTION_JOBS.release(tx, leased.lease, delay, reason=str(error))
                log.info("job waits", next_in=f"{delay}s")
                return
            batch = selected_batch(tx, leased.lease)
            self._fail(tx, leased, failure.problem)
            if task.batching.leader_selects and not failure.is_of_the_batch:
                select_again(tx, leased.job.task_id, batch)

        await self._runtime.database.run("aggregate share refused", refused)


def _batch_if_ready(tx: Transaction, task: Task, job: CollectionJob) -> _Seen | None:
    batch = job.batch or next_batch(tx, job.task_id, task.min_batch_size)
    if batch is None or not _is_ready(tx, task, batch):
        return None
    totals = summarize_batch(tx, job.task_id, batch)
    return _Seen(batch, totals, why_unreadable(buckets_without_key(tx, job.task_id, batch)))


def _is_ready(tx: Transaction, task: Task, batch: Batch) -> bool:
    """Return whether the batch is open and none of its reports waits, or waiting would not help.

    A batch that cannot become large enough fails at once: while its job waits, it takes no uploads.
    """
    task_id = task.task_id.value
    if closed_batches(tx, task_id, batch).overall() is not None:
        return False
    waiting = waiting_in_batch(tx, task_id, batch)
    return not waiting or report_count(tx, task_id, batch) + waiting < task.min_batch_size
