"""`prio upload`: measurements in, from a shell."""

import dataclasses
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from aggregator.cli import faults
from aggregator.cli.floors import takes_floor
from aggregator.cli.options import (
    EnvironmentProxy,
    InsecureHttp,
    WhichTask,
    parse_time,
)
from aggregator.client.requests import REPORTS_PER_REQUEST
from aggregator.dap.report_errors import ReportError
from aggregator.errors import ParameterError, PeerError

if TYPE_CHECKING:
    import httpx

    from aggregator.client import Contributions, MeasurementReader, UploadSummary
    from aggregator.protocol.floor import Floor
    from aggregator.protocol.task import Task
    from aggregator.vdaf.circuits.measurements import Measurement

MEANINGS = {
    ReportError.BATCH_COLLECTED: "the batch of that time was collected, or is about to be",
    ReportError.REPORT_DROPPED: "the task has ended, or takes no more reports of that time",
    ReportError.REPORT_TOO_EARLY: "the time lies in the future",
}
"""What the leader's reasons mean to whoever uploads."""


@takes_floor
def upload(
    task_file: Annotated[Path, typer.Argument(metavar="TASK.toml", help="The public task file.")],
    measurements: Annotated[
        list[str] | None,
        typer.Argument(help="Measurements; a vector's coordinates are joined by commas."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            help="Read a measurement from each row of this CSV file; - for standard input."
        ),
    ] = None,
    delimiter: Annotated[str, typer.Option(help="Between the cells of a line of CSV.")] = ",",
    column: Annotated[
        list[str] | None,
        typer.Option(help="The CSV column; for a vector, once for each coordinate."),
    ] = None,
    buckets: Annotated[
        str, typer.Option(help="Names of a histogram's buckets, joined by commas.")
    ] = "",
    time: Annotated[
        str | None,
        typer.Option(help="Time of the reports: ISO 8601 or seconds since 1970; now if not given."),
    ] = None,
    per_request: Annotated[
        int, typer.Option(min=1, help="Reports in one request.")
    ] = REPORTS_PER_REQUEST,
    person_column: Annotated[
        str | None,
        typer.Option(
            help="The CSV column that says whose row it is: more rows of one person than "
            "the task's max_reports_per_person are refused. Without it each row is a different "
            "person's."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="For one person's measurements: the file that counts their reports over all "
            "uploads and refuses more than the task allows, in each window and in all."
        ),
    ] = None,
    which: WhichTask = None,
    *,
    floor: "Floor",
    insecure_http: InsecureHttp = False,
    environment_proxy: EnvironmentProxy = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Shard, seal and upload measurements, one report each.

    Everything is read and checked before the first report is sent. The exit status is 1 if some
    reports were refused, 2 if the input is bad and nothing was sent, and 3 if an aggregator could
    not be reached.
    """
    import anyio

    from aggregator.cli.files import read_task
    from aggregator.client import Contributions, MeasurementReader
    from aggregator.service.transport.client import check_endpoints, open_client

    task = read_task(task_file, which)
    check_endpoints(task, insecure_http=insecure_http)
    http = open_client(insecure_http=insecure_http, environment_proxy=environment_proxy)
    reader = MeasurementReader(task.prio3.circuit, buckets.split(",") if buckets else ())
    if person_column is not None and (csv is None or state is not None):
        raise ParameterError(
            "person-column: goes with --csv, and not with --state, which is for one person"
        )
    limits = _Limits(
        None if state is None else Contributions(state),
        floor,
    )
    values = _measurements(
        reader,
        measurements or [],
        csv,
        column or [],
        person_column,
        task.policy.max_reports_per_person,
        delimiter,
    )
    summary = anyio.run(_upload, task, http, values, parse_time(time, "time"), per_request, limits)
    if as_json:
        refused = {error.draft_name: count for error, count in summary.refused.items()}
        print(json.dumps({"version": 1, "accepted": summary.accepted, "refused": refused}))
    else:
        print(f"{summary.accepted} of {summary.total} reports accepted")
        for error, count in summary.refused.items():
            meaning = f" ({MEANINGS[error]})" if error in MEANINGS else ""
            print(f"{count} refused: {error.draft_name}{meaning}")
    if summary.refused:
        raise SystemExit(faults.PARTLY)


@dataclasses.dataclass(frozen=True, slots=True)
class _Limits:
    """What the client takes part in and how often."""

    contributions: "Contributions | None"
    floor: "Floor"


def _measurements(
    reader: "MeasurementReader",
    arguments: list[str],
    csv: Path | None,
    columns: list[str],
    person_column: str | None,
    max_reports_per_person: int,
    delimiter: str,
) -> "list[Measurement]":
    if (csv is None) == (not arguments):
        raise ParameterError("measurements: give them as arguments or with --csv, not both")
    if csv is None:
        return reader.read_arguments(arguments)
    if not columns:
        raise ParameterError("column: --csv needs --column")
    check_delimiter(delimiter)
    try:
        with csv_text(csv) as file:
            return reader.read_csv(file, columns, person_column, max_reports_per_person, delimiter)
    except UnicodeDecodeError:
        # `from None`: the cause has the bytes.
        raise ParameterError(f"{csv}: is not UTF-8 text") from None


def check_delimiter(delimiter: str) -> None:
    """Refuse what cannot stand between the cells of CSV.

    Raises:
        ParameterError: It is not one character.
    """
    if len(delimiter) != 1:
        raise ParameterError(f"delimiter: must be one character, not {delimiter!r}")


def csv_text(path: Path) -> TextIO:
    """Open UTF-8 text, with or without a byte order mark; - is standard input."""
    if str(path) == "-":
        return io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


async def _upload(
    task: "Task",
    client: "httpx.AsyncClient",
    measurements: "list[Measurement]",
    time: int | None,
    per_request: int,
    limits: _Limits,
) -> "UploadSummary":
    from rich.console import Console
    from rich.progress import Progress

    from aggregator.client import Client

    console = Console(stderr=True)
    settled = 0
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("uploading", total=len(measurements))

        def advance(count: int) -> None:
            nonlocal settled
            settled += count
            progress.advance(bar, count)

        try:
            async with client as http:
                uploads = Client(
                    task,
                    http,
                    contributions=limits.contributions,
                    floor=limits.floor,
                )
                return await uploads.upload(
                    measurements, time=time, reports_per_request=per_request, progress=advance
                )
        except PeerError:
            if settled:
                # Whoever repeats the command must know what was already counted.
                console.print(
                    f"prio: the first {settled} of {len(measurements)} measurements are settled; "
                    f"the next {min(per_request, len(measurements) - settled)} may or may not be"
                )
            raise
