"""What a batch of an aggregator counts, job by job, beside what the other aggregator counts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.cli.service.parties import AggregatorParty
from aggregator.cli.service.task_states import task_of
from aggregator.codec import DecodeError
from aggregator.collector.documents import Document
from aggregator.dap.ids import TaskId
from aggregator.errors import ParameterError
from aggregator.protocol.batches import Batch
from aggregator.protocol.task import Task
from aggregator.service.storage.batches.sums import summarize_batch
from aggregator.service.storage.jobs.job_shares import CountedJob, list_counted_jobs

_VERSION = 1
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Difference:
    """A job of which the aggregators have counted different reports, by its request's SHA-256.

    `here` and `there` are how many we and the other have counted; None without the job.
    """

    job: str
    here: int | None
    there: int | None


def counted_in(party: AggregatorParty, task: Task, batch: Batch) -> Document:
    """Return our counts of a batch, job by job, for the other aggregator."""
    task_id = task.task_id.value
    totals, jobs = party.database.read_sync(
        "list counted jobs",
        lambda tx: (summarize_batch(tx, task_id, batch), list_counted_jobs(tx, task_id, batch)),
    )
    return {
        "version": _VERSION,
        "role": party.role.name.lower(),
        "task_id": str(task.task_id),
        "batch": {"first": batch.first.hex(), "last": batch.last.hex()},
        **task.batching.described(batch, task.time_precision),
        "report_count": totals.report_count,
        "checksum": totals.checksum.hex(),
        "jobs": [_counted(job) for job in jobs],
    }


def differences(party: AggregatorParty, theirs: Mapping[str, object]) -> list[Difference]:
    """Return the jobs for which the other aggregator has counted different reports.

    `theirs` is the result of `counted_in` there, unchecked. Raises `ParameterError` if it is
    something else, or our own result.
    """
    task_id, batch = batch_of(theirs)
    if theirs["role"] == party.role.name.lower():
        raise ParameterError(
            f"the list is a {theirs['role']}'s, as this party is; compare "
            "with the other aggregator's"
        )
    ours = counted_in(party, task_of(party, task_id), batch)
    here, there = _by_job(ours), _by_job(theirs)
    return [
        Difference(job, _count(here.get(job)), _count(there.get(job)))
        for job in sorted(here.keys() | there.keys())
        if here.get(job) != there.get(job)
    ]


def batch_of(document: Mapping[str, object]) -> tuple[TaskId, Batch]:
    """Return the task and the batch of a list of counted jobs, or raise `ParameterError`."""
    try:
        named, jobs = document["batch"], document["jobs"]
        if document["version"] != _VERSION or not isinstance(jobs, list):
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
