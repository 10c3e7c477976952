"""`prio upload`: uploads measurements from a shell."""

import dataclasses
import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from aggregator.cli import faults
from aggregator.cli.floors import takes_floor
from aggregator.cli.options import EnvironmentProxy, InsecureHttp, WhichTask, parse_time
from aggregator.client.sender import REPORTS_PER_REQUEST
from aggregator.dap.report_errors import ReportError
from aggregator.errors import ParameterError, PeerError

if TYPE_CHECKING:
    import httpx

    from aggregator.client import Contributions, MeasurementReader, UploadSummary
    from aggregator.protocol.requirements import Floor
    from aggregator.protocol.task import Task
    from aggregator.vdaf.circuits.measurements import Measurement

MEANINGS = {
    ReportError.BATCH_COLLECTED: "the batch of that time was collected, or is about to be",
    ReportError.REPORT_DROPPED: "the task has ended, or takes no more reports of that time",
    ReportError.REPORT_TOO_EARLY: "the time lies in the future",
    ReportError.VDAF_VERIFY_ERROR: "the aggregators found it invalid, and it does not count",
    ReportError.HPKE_DECRYPT_ERROR: "an aggregator could not open it, and it does not count",
}
"""What the leader's reasons mean to a client."""


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
    delimiter: Annotated[
        str, typer.Option(help="The character between the cells of a line of CSV.")
    ] = ",",
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="The CSV column with the measurement; for a vector, give one for each coordinate."
        ),
    ] = None,
    buckets: Annotated[
        str, typer.Option(help="Names of a histogram's buckets, in order, joined by commas.")
    ] = "",
    time: Annotated[
        str | None,
        typer.Option(help="Time of the reports: ISO 8601 or seconds since 1970; now if not given."),
    ] = None,
    per_request: Annotated[
        int, typer.Option(min=1, help="How many reports one request carries.")
    ] = REPORTS_PER_REQUEST,
    person_column: Annotated[
        str | None,
        typer.Option(
            help="The CSV column that says whose row it is; if one person has more rows than "
            "the task's max_reports_per_person, they are refused. If not given, each row belongs "
            "to a different person."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="For one person's measurements: the file that counts this person's reports "
            "over all uploads. More reports than the task allows, in a window or in all, are "
            "refused."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the reports in this file until they are settled. If interrupted, the "
            "same command continues where it stopped, and nothing is counted twice.",
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
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.service.transport.client import open_client

    task = read_task(task_file, which)
    check_endpoints(task, insecure_http=insecure_http)
    if resume is not None and (state is not None or environment_proxy):
        raise ParameterError("resume: goes neither with --state nor with --environment-proxy")
    reader = MeasurementReader(task.prio3.circuit, buckets.split(",") if buckets else ())
    if person_column is not None and (csv is None or state is not None):
        raise ParameterError(
            "person-column: goes with --csv, and not with --state, which is for one person"
        )
    limits = _Limits(None if state is None else Contributions(state), floor)
    values = _measurements(
        reader,
        measurements or [],
        csv,
        column or [],
        person_column,
        task.policy.max_reports_per_person,
        delimiter,
    )
    seconds = parse_time(time, "time")
    if resume is not None:
        _resumed(task, resume, values, seconds, per_request, floor, as_json=as_json)
        return
    http = open_client(insecure_http=insecure_http, environment_proxy=environment_proxy)
    summary = anyio.run(_upload, task, http, values, seconds, per_request, limits)
    refused = {error.draft_name: count for error, count in summary.refused.items()}
    _say(summary.accepted, summary.total, refused, as_json=as_json)
    if summary.refused:
        raise SystemExit(faults.PARTLY)


def _say(accepted: int, total: int, refused: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"version": 1, "accepted": accepted, "refused": refused}))
        return
    print(f"{accepted} of {total} reports accepted")
    meanings = {error.draft_name: meaning for error, meaning in MEANINGS.items()}
    for name, count in refused.items():
        meaning = f" ({meanings[name]})" if name in meanings else ""
        print(f"{count} refused: {name}{meaning}")


def _resumed(
    task: "Task",
    file: Path,
    measurements: "list[Measurement]",
    seconds: int | None,
    per_request: int,
    floor: "Floor",
    *,
    as_json: bool,
) -> None:
    """Send the unsettled reports, which wait in a file, and print what became of all of them."""
    from rich.console import Console
    from rich.progress import Progress

    from aggregator.client.outbox import State
    from aggregator.client.resuming import upload_from

    console = Console(stderr=True)
    seen: list[int] = []
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("uploading", total=len(measurements))

        def show(count: int) -> None:
            seen.append(count)
            progress.update(bar, completed=count)

        outcomes, reason = upload_from(
            file,
            task,
            measurements,
            seconds=seconds,
            per_request=per_request,
            floor=floor,
            settled=show,
        )
    counts = dict.fromkeys(State, 0)
    refused = Counter[str]()
    for outcome, count in outcomes.items():
        counts[outcome.state] += count
        if outcome.state in (State.LATE, State.REFUSED):
            refused[outcome.reason] += count  # some may be late here and refused there
    _say(counts[State.COUNTED], len(measurements), refused, as_json=as_json)
    if seen and seen[0] == len(measurements):
        print(
            f"nothing was sent: all of them were settled before, and {file} keeps nothing by which "
            "to tell others from them, which need another file",
            file=sys.stderr,
        )
    if counts[State.WAITING]:
        raise PeerError(
            f"{counts[State.WAITING]} reports wait in {file} ({reason}); the same command sends "
            "them"
        )
    if refused:
        raise SystemExit(faults.PARTLY)


@dataclasses.dataclass(frozen=True, slots=True)
class _Limits:
    """How often, and at what protection, the client takes part."""

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
        # `from None`: the cause contains the bytes.
        raise ParameterError(f"{csv}: is not UTF-8 text; save it as UTF-8") from None


def check_delimiter(delimiter: str) -> None:
    """Refuse a delimiter that cannot separate the cells of CSV."""
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
                uploads = Client(task, http, contributions=limits.contributions, floor=limits.floor)
                return await uploads.upload(
                    measurements, time=time, reports_per_request=per_request, progress=advance
                )
        except PeerError:
            if settled:
                # A person who repeats the command must know what was already counted.
                console.print(
                    f"prio: the first {settled} of {len(measurements)} measurements are settled; "
                    f"the next {min(per_request, len(measurements) - settled)} may or may not be"
                )
            raise
