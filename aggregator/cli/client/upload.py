"""`prio upload`: uploads measurements from a shell."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.client.sending import (
    PerRequest,
    check_sent,
    note_others,
    outbox_in,
    sender_to,
    summary_of,
    with_progress,
)
from aggregator.cli.client.table_options import (
    DecimalMark,
    Delimiter,
    Encoding,
    Sheet,
    TableOptions,
)
from aggregator.cli.options import AsJson, EnvironmentProxy, InsecureHttp, WhichTask, parse_time
from aggregator.cli.requirements import takes_requirements
from aggregator.client.sender import REPORTS_PER_REQUEST
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aggregator.client import MeasurementReader
    from aggregator.client.bulk import Uploaded
    from aggregator.protocol.requirements import Requirements
    from aggregator.protocol.task import Task
    from aggregator.vdaf.circuits.measurements import Measurement


@takes_requirements
def upload(
    task_file: Annotated[Path, typer.Argument(metavar="TASK.toml", help="The public task file.")],
    measurements: Annotated[
        list[str] | None,
        typer.Argument(help="Measurements; a vector's coordinates are joined by commas."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            help="Read a measurement from each row of this table, in CSV or another format that "
            "`prio survey upload` reads; - for standard input."
        ),
    ] = None,
    delimiter: Delimiter = None,
    decimal_mark: DecimalMark = ".",
    encoding: Encoding = None,
    sheet: Sheet = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="The column with the measurement; for a vector, give one for each coordinate."
        ),
    ] = None,
    buckets: Annotated[
        str, typer.Option(help="Names of a histogram's buckets, in order, joined by commas.")
    ] = "",
    time: Annotated[
        str | None,
        typer.Option(
            help="Time of the reports: ISO 8601 or seconds since 1970; now if not given. Needed "
            "with --state and --person-column if the task has windows."
        ),
    ] = None,
    per_request: PerRequest = REPORTS_PER_REQUEST,
    person_column: Annotated[
        str | None,
        typer.Option(
            help="The column that says whose row it is; if one person has more rows than "
            "the task's max_reports_per_person, they are refused. If not given, each row belongs "
            "to a different person."
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            help="Whose measurements all of these are. With --state more reports than the task "
            "allows one person, over all uploads, are refused."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file that keeps the reports until they are settled, and for ever what each "
            "person has sent. If interrupted, the same command continues where it stopped, and "
            "nothing is counted twice; with --person, the command without measurements does.",
        ),
    ] = None,
    which: WhichTask = None,
    *,
    requirements: "Requirements",
    insecure_http: InsecureHttp = False,
    environment_proxy: EnvironmentProxy = False,
    as_json: AsJson = False,
) -> None:
    """Shard, seal and upload measurements, one report each.

    Everything is read and checked before the first report is sent. The exit status is 1 if some
    reports were refused, 2 if the input is bad and nothing was sent, and 3 if an aggregator could
    not be reached.
    """
    from aggregator.cli.files import read_task
    from aggregator.client import MeasurementReader, Reporter, bulk
    from aggregator.client.reporter import NO_AGE
    from aggregator.client.resuming import upload_list, upload_of_persons
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.protocol.groups import check_kept
    from aggregator.protocol.in_band import headers_of

    task = read_task(task_file, which)
    check_endpoints(task, insecure_http=insecure_http)
    reader = MeasurementReader(task.prio3.circuit, buckets.split(",") if buckets else ())
    if person_column is not None and (csv is None or person is not None):
        raise ParameterError("person-column: goes with --csv, and not with --person")
    if person is not None and state is None:
        raise ParameterError("person: needs --state, the file that keeps what a person has sent")
    is_rest = person is not None and csv is None and not measurements
    given, persons = (
        ([], [])
        if is_rest
        else _measurements(
            reader,
            measurements or [],
            csv,
            column or [],
            person_column,
            task.policy.max_reports_per_person,
            TableOptions(delimiter, encoding, sheet, decimal_mark),
        )
    )
    if person is None and (state is None or not persons):
        check_kept(task)  # nothing here keeps people to one place of a group
    seconds = _seconds(time, task, is_now=state is None or not persons)
    with (
        closing(outbox_in(state)) as outbox,
        closing(sender_to(environment_proxy=environment_proxy, headers=headers_of(task))) as sender,
    ):
        reporter = Reporter(
            task,
            outbox,
            sender=sender,
            requirements=requirements,
            max_age_seconds=NO_AGE,
            reports_per_request=per_request,
        )

        def send(settled: "Callable[[int], None]") -> "Uploaded":
            if person is not None:
                reporter.put_many(given, person=person, seconds=seconds)
                return bulk.upload(reporter, outbox, (), settled=settled)
            if persons:
                return upload_of_persons(reporter, outbox, given, persons, seconds, settled=settled)
            return upload_list(reporter, outbox, given, seconds, settled=settled)

        found = with_progress(len(given), send)
    is_list = person is None and not persons
    task_id = task.task_id.value
    summary = summary_of(
        found, task_id, total=len(given), is_list=is_list, is_kept=state is not None
    )
    if as_json:
        print(json.dumps({"version": 1, **summary.to_json()}))
    else:
        summary.print()
    is_done = not found.outcomes and not summary.waiting and found.reason is None
    if is_list and given and state is not None and is_done:
        print(
            f"nothing was sent: all of them were settled before, and {state} keeps nothing by "
            "which to tell others from them, which need another file",
            file=sys.stderr,
        )
    note_others(found, [task_id], state)
    check_sent(found, summary.waiting, state, task)
    if summary.refused:
        raise SystemExit(faults.PARTLY)


def _measurements(
    reader: "MeasurementReader",
    arguments: list[str],
    csv: Path | None,
    columns: list[str],
    person_column: str | None,
    max_reports_per_person: int,
    options: TableOptions,
) -> "tuple[list[Measurement], list[str]]":
    if (csv is None) == (not arguments):
        raise ParameterError("measurements: give them as arguments or with --csv, not both")
    if csv is None:
        return reader.read_arguments(arguments), []
    if not columns:
        raise ParameterError("column: --csv needs --column")
    mark = options.decimal_mark
    return reader.read_table(
        options.table_at(csv), columns, person_column, max_reports_per_person, mark
    )


def _seconds(time: str | None, task: "Task", *, is_now: bool) -> int:
    """Return the time of the reports; now if none is given, if the task has no windows or `is_now`.

    Raises `ParameterError` if a time is needed.
    """
    from aggregator.clock import SystemClock

    given = parse_time(time, "time")
    if given is None and not is_now and task.policy.window is not None:
        raise ParameterError(
            "time: give one, as the task has windows: without it the same command, called again in "
            "the next window, would count everybody there, too"
        )
    return SystemClock().now() if given is None else given
