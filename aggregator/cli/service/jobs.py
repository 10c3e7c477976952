"""`prio job`: the waiting jobs of an aggregator, with reasons, and the operator's decisions."""

import functools
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.options import AsJson, Config, not_yet, parse_time
from aggregator.errors import ParameterError
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from aggregator.collector.documents import Document
    from aggregator.protocol.batches import Batch
    from aggregator.protocol.task import Task
    from aggregator.service.storage.operator.job_lists import ListedJob

ID_SIZES = (16, 32)

app = typer.Typer(
    no_args_is_help=True, help="List what waits, and why; retry, abandon and compare jobs."
)

JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="The job's id, as in `prio job list` and in logs, or the SHA-256 of its request.",
    ),
]
TaskOption = Annotated[str | None, typer.Option(help="Only the task with this id.")]
BatchOption = Annotated[
    str | None,
    typer.Option(
        metavar="START/END",
        help="Print the jobs that this batch has counted; START/END as for `prio collect`.",
    ),
]


@app.command("list")
def list_(
    config: Config = None,
    task: TaskOption = None,
    batch: BatchOption = None,
    as_json: AsJson = False,
) -> None:
    """Print every waiting job with its reason; with --batch, the jobs that a batch counts."""
    from aggregator.cli.service.job_comparison import counted_in
    from aggregator.cli.service.parties import open_aggregator, task_id_of
    from aggregator.cli.service.task_states import task_of
    from aggregator.service.storage.operator.job_lists import list_waiting

    only = None if task is None else task_id_of(task)
    with open_aggregator(config, may_make=False) as party:
        if batch is None:
            key = None if only is None else only.value
            waiting = party.database.read_sync("list jobs", lambda tx: list_waiting(tx, key))
            document: Document = {"version": 1, "jobs": [_document(job) for job in waiting]}
            show_text = functools.partial(_print_waiting, waiting)
        elif only is None:
            raise ParameterError("task: missing; --batch needs --task")
        else:
            named = task_of(party, only)
            document = counted_in(party, named, _batch(named, batch))
            show_text = functools.partial(_print_counted, document)
    if as_json:
        print(json.dumps(document))
    else:
        show_text()


@app.command()
def show(job: JobArgument, config: Config = None) -> None:
    """Print a job as JSON, ended or not."""
    from aggregator.cli.service.job_decisions import find
    from aggregator.cli.service.parties import open_aggregator

    with open_aggregator(config, may_make=False) as party:
        print(json.dumps(_document(find(party, _job_id(job))), indent=2))


@app.command()
def retry(job: JobArgument, config: Config = None) -> None:
    """Continue a job at once with the same request, even if it is held."""
    from aggregator.cli.service import job_decisions
    from aggregator.cli.service.parties import open_aggregator

    with open_aggregator(config, may_make=False) as party:
        job_decisions.retry(party, _job_id(job))


@app.command()
def abandon(
    job: JobArgument,
    returned: Annotated[
        bool,
        typer.Option(
            "--return-reports/--drop-reports",
            help="Put the job's reports into other jobs and open a batch again, or give the "
            "reports up and close the batch.",
        ),
    ],
    config: Config = None,
) -> None:
    """Give up a job of the leader, return its reports or drop them, and tell the helper."""
    from aggregator.cli.service import job_decisions
    from aggregator.cli.service.job_helper import tell_helper
    from aggregator.cli.service.parties import open_aggregator

    with open_aggregator(config, may_make=False) as party:
        found = job_decisions.abandon(party, _job_id(job), returned=returned)
        print(_consequence(found, returned=returned), flush=True)
        told = tell_helper(party, found)
    if told is not None:
        print(told)


@app.command()
def compare(
    theirs: Annotated[
        Path,
        typer.Argument(
            help="The output of `prio job list --task … --batch … --json` at the other aggregator."
        ),
    ],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Name the jobs of a batch that the two aggregators have counted differently."""
    from aggregator.cli.service import job_comparison
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.cli.service.task_states import task_of
    from aggregator.service.config import read_text

    try:
        document = json.loads(read_text(theirs))
    except (ValueError, RecursionError) as error:  # RecursionError if lists are nested too deeply
        raise ParameterError(f"{theirs}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ParameterError(f"{theirs}: not a list of counted jobs")
    with open_aggregator(config, may_make=False) as party:
        differences = job_comparison.differences(party, document)
        task_id, batch = job_comparison.batch_of(document)
        named = _named(task_of(party, task_id), batch)
    if as_json:
        rows = [{"job": row.job, "here": row.here, "there": row.there} for row in differences]
        print(json.dumps({"version": 1, "differences": rows}))
    elif not differences:
        print("both aggregators have counted the same reports of the batch")
    else:
        for row in differences:
            print(f"{row.job}: {_reports(row.here)} here, {_reports(row.there)} there")
        print("to leave them out, at both aggregators, if both operators agree:")
        jobs = " ".join(row.job for row in differences)
        print(f"prio job leave-out --task={task_id} --batch {named} {jobs}")
    if differences:
        raise SystemExit(faults.PARTLY)


@app.command("leave-out")
def leave_out(
    jobs: Annotated[
        list[str],
        typer.Argument(metavar="JOB…", help="The SHA-256 of each job's request, in hexadecimal."),
    ],
    task: Annotated[str, typer.Option(help="The task's id.")],
    batch: Annotated[
        str, typer.Option(metavar="START/END", help="The batch, START/END as for `prio job list`.")
    ],
    config: Config = None,
) -> None:
    """Leave jobs out of an uncollected batch for ever; do it at both aggregators."""
    from aggregator.cli.service import job_decisions
    from aggregator.cli.service.parties import open_aggregator, task_id_of
    from aggregator.cli.service.task_states import task_of

    digests = [_job_id(job) for job in jobs]
    with open_aggregator(config, may_make=False) as party:
        named = task_of(party, task_id_of(task))
        left = job_decisions.leave_out(party, named, _batch(named, batch), digests)
    for job, reports in left.items():
        print(f"{job}: {reports} reports left out" if reports else f"{job}: not counted here")


def _job_id(text: str) -> bytes:
    from aggregator.codec import DecodeError
    from aggregator.dap.ids import decode_base64url

    for read in (bytes.fromhex, decode_base64url):
        try:
            job = read(text)
        except (ValueError, DecodeError):
            continue
        if len(job) in ID_SIZES:
            return job
    raise ParameterError(f"job: {text!r} is no job's id; `prio job list` prints them")


def _batch(task: "Task", text: str) -> "Batch":
    """Return the batch that START/END names, or the keys of its first and last bucket."""
    from aggregator.protocol.batches import Batch

    start, slash, end = text.partition("/")
    if not slash:
        raise ParameterError(f"batch: must be START/END, not {text!r}")
    batching = task.batching
    if batching.has_ids:
        return Batch(_key(start), _key(end))
    first, last = parse_time(start, "batch"), parse_time(end, "batch")
    if first is None or last is None:
        raise ParameterError("batch: must be START/END, both given")
    query = batching.query({"start": first, "end": last}, task.time_precision)
    found = batching.asked(query, task.time(last), task.time_precision)
    if found is None:
        raise ParameterError(f"batch: {text!r} is no batch of the task")
    return found


def _key(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ParameterError(f"batch: a key must be hexadecimal, not {text!r}") from None


def _named(task: "Task", batch: "Batch") -> str:
    own = task.batching.described(batch, task.time_precision)
    return f"{own.get('start', batch.first.hex())}/{own.get('end', batch.last.hex())}"


def _consequence(job: "ListedJob", *, returned: bool) -> str:
    from aggregator.service.storage.operator.job_lists import AGGREGATION

    if job.kind != AGGREGATION:
        if not job.may_be_counted:
            return "the collection failed; its batch was not touched"
        if returned:
            return (
                "the collection failed and its batch is open again; if the helper has released its "
                "share, only the same request gets it"
            )
        return "the collection failed; its batch is closed for ever and its cost is charged"
    if not returned:
        return f"{job.reports} reports dropped (dropped_by_operator)"
    if not job.may_be_counted:
        return f"{job.reports} reports will be counted in another job"
    return (
        f"{job.reports} reports will be asked about again, which DAP allows; if the helper has "
        "counted them it refuses them as replays, and the batch needs `prio job compare`"
    )


def _document(job: "ListedJob") -> "Document":
    from aggregator.dap.ids import TaskId

    return {
        "kind": job.kind,
        "job": job.job_id.hex(),
        "task_id": str(TaskId(job.task_id)),
        "state": job.state,
        "reports": job.reports,
        "batch": None if job.batch is None else f"{job.batch.first.hex()}/{job.batch.last.hex()}",
        "request_sha256": None if job.request_sha256 is None else job.request_sha256.hex(),
        "reason": job.reason,
        "attempts": job.attempts,
        "failures": job.failures,
        "may_be_counted": job.may_be_counted,
        "is_driven": job.is_driven,
        "next_at": job.next_at,
        "created_at": job.created_at,
        "ended_at": job.ended_at,
        "problem": None if job.problem is None else json.loads(job.problem),
    }


def _print_waiting(jobs: "list[ListedJob]") -> None:
    from aggregator.dap.ids import TaskId

    if not jobs:
        print("nothing waits", file=sys.stderr)
        return
    now = int(time.time())
    for job in jobs:
        # Print lines, not a table: an id that is folded into a cell cannot be copied.
        tries = max(job.attempts, job.failures)
        print(f"{job.kind} {job.job_id.hex()}".rstrip() + f", task {TaskId(job.task_id)}")
        print(
            f"  {job.state}"
            + ("" if job.reports is None else f", {_reports(job.reports)}")
            + f", made {_span(now - job.created_at)} ago, tried {tries} times"
        )
        print(f"  why: {job.reason or not_yet(is_driven=job.is_driven)}")
        print(f"  goes on {_goes_on(job, now)}")


def _goes_on(job: "ListedJob", now: int) -> str:
    if job.is_driven:
        return "now: a worker has it"
    if job.next_at is None:
        return "by `prio job retry` or `prio job abandon`"
    return f"in {_span(job.next_at - now)}" if job.next_at > now else "when a worker is free"


def _span(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{max(0, seconds)} s"


def _print_counted(document: "Document") -> None:
    jobs = document["jobs"]
    for job in jobs if isinstance(jobs, list) else ():
        counted = utc_text(job["counted_at"])
        print(f"{job['job']}: {_reports(job['report_count'])}, counted {counted}")
    print(f"{_reports(document['report_count'])} in all, checksum {document['checksum']}")


def _reports(count: object) -> str:
    return "not counted" if count is None else f"{count} reports"
