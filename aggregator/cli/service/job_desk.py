"""An aggregator's jobs, as its operator lists, compares and decides them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aggregator.codec import DecodeError
from aggregator.collector.documents import Document
from aggregator.dap.ids import TaskId
from aggregator.dap.problems import CollectionFailed, problem_document
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.batches import Batch
from aggregator.protocol.buckets import merge_agg_shares
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.storage.backup.reconciliation import write_down_without_share
from aggregator.service.storage.batches.selected import select_again
from aggregator.service.storage.batches.sums import summarize_batch
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.job_shares import CountedJob, leave_out, list_counted_jobs
from aggregator.service.storage.ledger.journal import Journal
from aggregator.service.storage.operator import interventions
from aggregator.service.storage.operator.job_lists import (
    AGGREGATION,
    ListedJob,
    find_job,
    list_waiting,
)
from aggregator.service.storage.tasks.tasks import get_task
from aggregator.vdaf.aggregation_parameter import NO_PARAMETER

_JOB_LIST_VERSION = 1
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Difference:
    """A job of which the aggregators have counted different reports, by its request's SHA-256.

    `here` and `there` are how many we and the other have counted; None without the job.
    """

    job: str
    here: int | None
    there: int | None


@dataclass(frozen=True, slots=True)
class JobDesk:
    """The jobs in the leader's or the helper's store."""

    role: Role
    database: Database
    journal: Journal

    def waiting(self, task_id: TaskId | None) -> list[ListedJob]:
        """Return the waiting jobs of one task or of all."""
        key = None if task_id is None else task_id.value
        return self.database.read_sync("list jobs", lambda tx: list_waiting(tx, key))

    def find(self, job: bytes) -> ListedJob:
        """Return a job by its id or the digest of its request, or raise `ParameterError`."""
        found = self.database.read_sync("find job", lambda tx: find_job(tx, job))
        if found is None:
            raise ParameterError(f"job: this party has no job {job.hex()}")
        return found

    def task(self, task_id: TaskId) -> Task:
        """Return a task that we take part in, or raise `ParameterError`."""
        stored = self.database.read_sync("task", lambda tx: get_task(tx, task_id.value))
        if stored is None:
            raise ParameterError(f"task: this party has no task {task_id}")
        return task_from_toml(stored.record.definition)

    def retry(self, job: bytes) -> None:
        """Drive a job at once.

        Raises `ParameterError` if there is no such job, or it is the helper's; `Conflict` if it has
        ended.
        """
        found = self._job_of_leader(job)
        verb = (
            interventions.retry_aggregation_job
            if found.kind == AGGREGATION
            else interventions.retry_collection_job
        )
        self.database.run_sync("retry job", lambda tx: verb(tx, found.job_id))

    def abandon(self, job: bytes, *, returned: bool) -> ListedJob:
        """Give a job up, by its id or the digest of its request; return it as it was.

        If `returned`, its reports may be claimed again, or its batch collected again. Raises
        `ParameterError` if there is no such job, or it is the helper's; `Conflict` if it has ended.
        """
        found = self._job_of_leader(job)
        is_opened = returned and found.kind != AGGREGATION
        task = self.task(TaskId(found.task_id)) if is_opened else None

        def abandon(tx: Transaction) -> None:
            if found.kind == AGGREGATION:
                interventions.abandon_aggregation_job(tx, found.job_id, returned=returned)
            else:
                problem = CollectionFailed("the leader's operator gave the collection up")
                document = json.dumps(problem_document(problem, TaskId(found.task_id)))
                interventions.abandon_collection_job(tx, found.job_id, document, returned=returned)
                if task is not None and found.batch is not None:
                    _reopen(tx, task, found.batch)

        self.database.run_sync("abandon job", abandon)
        write_down_without_share(self.database, self.journal)
        return found

    def batch(self, task: Task, batch: Batch) -> Document:
        """Return our counts of a batch, job by job, for the other aggregator."""
        task_id = task.task_id.value
        totals, jobs = self.database.read_sync(
            "list counted jobs",
            lambda tx: (summarize_batch(tx, task_id, batch), list_counted_jobs(tx, task_id, batch)),
        )
        return {
            "version": _JOB_LIST_VERSION,
            "role": self.role.name.lower(),
            "task_id": str(task.task_id),
            "batch": {"first": batch.first.hex(), "last": batch.last.hex()},
            **task.batching.described(batch, task.time_precision),
            "report_count": totals.report_count,
            "checksum": totals.checksum.hex(),
            "jobs": [_counted(job) for job in jobs],
        }

    def compare(self, theirs: Mapping[str, object]) -> list[Difference]:
        """Return the jobs for which the other aggregator has counted different reports.

        `theirs` is the result of `batch` there, unchecked. Raises `ParameterError` if it is
        something else, or our own result.
        """
        task_id, batch = batch_of(theirs)
        if theirs["role"] == self.role.name.lower():
            raise ParameterError(
                f"the list is a {theirs['role']}'s, as this party is; compare "
                "with the other aggregator's"
            )
        here, there = _by_job(self.batch(self.task(task_id), batch)), _by_job(theirs)
        return [
            Difference(job, _count(here.get(job)), _count(there.get(job)))
            for job in sorted(here.keys() | there.keys())
            if here.get(job) != there.get(job)
        ]

    def leave_out(self, task: Task, batch: Batch, jobs: Sequence[bytes]) -> dict[str, int]:
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
                job.hex(): leave_out(tx, task_id, batch, job, merge)
                + interventions.drop_waiting_job(tx, task_id, batch, job)
                for job in jobs
            }
            _reopen(tx, task, batch)
            return left

        return self.database.run_sync("leave jobs out", leave)

    def _job_of_leader(self, job: bytes) -> ListedJob:
        if self.role is not Role.LEADER:
            raise ParameterError(
                "job: nothing waits at a helper for its operator: its workers answer what was "
                "deferred, the leader's operator retries and abandons jobs, and `prio job "
                "leave-out` takes back what was counted"
            )
        return self.find(job)


def _reopen(tx: Transaction, task: Task, batch: Batch) -> None:
    """Let a batch be collected again after a failed collection."""
    if task.batching.leader_selects:  # otherwise the collector names the batch
        select_again(tx, task.task_id.value, batch)


def batch_of(document: Mapping[str, object]) -> tuple[TaskId, Batch]:
    """Return the task and the batch of a list of counted jobs, or raise `ParameterError`."""
    try:
        named, jobs = document["batch"], document["jobs"]
        if document["version"] != _JOB_LIST_VERSION or not isinstance(jobs, list):
            raise ParameterError("not a list of version 1")
        if not isinstance(named, dict) or not all(
            isinstance(job, dict) and {"job", "report_count", "checksum"} <= job.keys()
            for job in jobs
        ):
            raise ParameterError("a member has another type")
        # They end up on a terminal, in a command to be run.
        if not all(_DIGEST.fullmatch(str(job["job"])) for job in jobs):
            raise ParameterError("a job is not named by a SHA-256 in hexadecimal")
        batch = Batch(bytes.fromhex(named["first"]), bytes.fromhex(named["last"]))
        return TaskId.parse(str(document["task_id"])), batch
    except (KeyError, TypeError, ValueError, DecodeError) as error:
        raise ParameterError(
            f"not what `prio job list --task … --batch … --json` prints: {error}"
        ) from None


def _counted(job: CountedJob) -> Document:
    return {
        "job": job.job.hex(),
        "report_count": job.totals.report_count,
        "checksum": job.totals.checksum.hex(),
        "counted_at": job.counted_at,
    }


def _by_job(document: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    jobs = document["jobs"]
    rows = jobs if isinstance(jobs, list) else []
    return {str(row["job"]): (row["report_count"], row["checksum"]) for row in rows}


def _count(row: tuple[object, object] | None) -> int | None:
    return row[0] if row is not None and isinstance(row[0], int) else None
