"""What an aggregator's operator decides about its jobs."""

import json
from collections.abc import Sequence

from aggregator.cli.service.parties import AggregatorParty
from aggregator.cli.service.task_states import task_of
from aggregator.dap.ids import TaskId
from aggregator.dap.problems import CollectionFailed, problem_document
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.batches import Batch
from aggregator.protocol.buckets import merge_agg_shares
from aggregator.protocol.task import Task
from aggregator.service.storage.backup.reconciliation import write_down_without_share
from aggregator.service.storage.batches.selected import select_again
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs import job_shares
from aggregator.service.storage.operator import interventions
from aggregator.service.storage.operator.job_lists import AGGREGATION, ListedJob, find_job
from aggregator.vdaf.aggregation_parameter import NO_PARAMETER


def find(party: AggregatorParty, job: bytes) -> ListedJob:
    """Return a job by its id or the digest of its request, or raise `ParameterError`."""
    found = party.database.read_sync("find job", lambda tx: find_job(tx, job))
    if found is None:
        raise ParameterError(f"job: this party has no job {job.hex()}")
    return found


def retry(party: AggregatorParty, job: bytes) -> None:
    """Drive a job at once.

    Raises `ParameterError` if there is no such job, or it is the helper's; `Conflict` if it has
    ended.
    """
    found = _job_of_leader(party, job)
    verb = (
        interventions.retry_aggregation_job
        if found.kind == AGGREGATION
        else interventions.retry_collection_job
    )
    party.database.run_sync("retry job", lambda tx: verb(tx, found.job_id))


def abandon(party: AggregatorParty, job: bytes, *, returned: bool) -> ListedJob:
    """Give a job up, by its id or the digest of its request; return it as it was.

    If `returned`, its reports may be claimed again, or its batch collected again. Raises
    `ParameterError` if there is no such job, or it is the helper's; `Conflict` if it has ended.
    """
    found = _job_of_leader(party, job)
    task_id = TaskId(found.task_id)
    is_opened = returned and found.kind != AGGREGATION
    task = task_of(party, task_id) if is_opened else None

    def abandon(tx: Transaction) -> None:
        if found.kind == AGGREGATION:
            interventions.abandon_aggregation_job(tx, found.job_id, returned=returned)
        else:
            problem = CollectionFailed("the leader's operator gave the collection up")
            document = json.dumps(problem_document(problem, task_id))
            interventions.abandon_collection_job(tx, found.job_id, document, returned=returned)
            if task is not None and found.batch is not None:
                _reopen(tx, task, found.batch)

    party.database.run_sync("abandon job", abandon)
    write_down_without_share(party.database, party.journal)
    return found


def leave_out(
    party: AggregatorParty, task: Task, batch: Batch, jobs: Sequence[bytes]
) -> dict[str, int]:
    """Leave jobs out of a batch, counted or waiting; return how many reports each had here.

    They are named by the digests of their requests. Raises `BatchClosed` if the batch, or a
    part of it, is being or was collected.
    """
    vdaf = task.vdaf(NO_PARAMETER)

    def merge(shares: Sequence[bytes]) -> bytes:
        return vdaf.encode_agg_share(merge_agg_shares(vdaf, shares))

    def leave(tx: Transaction) -> dict[str, int]:
        task_id = task.task_id.value
        left = {
            job.hex(): job_shares.leave_out(tx, task_id, batch, job, merge)
            + interventions.drop_waiting_job(tx, task_id, batch, job)
            for job in jobs
        }
        _reopen(tx, task, batch)
        return left

    return party.database.run_sync("leave jobs out", leave)


def _job_of_leader(party: AggregatorParty, job: bytes) -> ListedJob:
    if party.role is not Role.LEADER:
        raise ParameterError(
            "job: nothing waits at a helper for its operator: its workers answer what was "
            "deferred, the leader's operator retries and abandons jobs, and `prio job "
            "leave-out` takes back what was counted"
        )
    return find(party, job)


def _reopen(tx: Transaction, task: Task, batch: Batch) -> None:
    """Let a batch be collected again after a failed collection."""
    if task.batching.leader_selects:  # otherwise the collector names the batch
        select_again(tx, task.task_id.value, batch)
