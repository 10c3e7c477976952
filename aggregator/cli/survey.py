"""`prio survey`: tasks, uploads and results of a survey file."""

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import anyio
import typer
from rich.console import Console
from rich.progress import Progress

from aggregator.cli import faults
from aggregator.cli.measure import csv_text
from aggregator.cli.options import Config, EnvironmentProxy, InsecureHttp
from aggregator.cli.parties import check_endpoints
from aggregator.cli.tasks import collector_config_of, make_task, write_parties
from aggregator.client import Client
from aggregator.collector import Collected, Collector, survey_results
from aggregator.dap.report_errors import ReportError
from aggregator.dp.rationals import format_rational, parse_probability
from aggregator.errors import ParameterError, PeerError
from aggregator.protocol.task import Task, task_from_toml
from aggregator.results import Table, compare_all
from aggregator.results.comparisons import ONLY_NOISE
from aggregator.survey import (
    Answers,
    Columns,
    Meaning,
    PlannedQuestion,
    Survey,
    SurveyResults,
    Way,
    Windows,
    csv_rows,
    plan,
    read_answers,
    rows_of,
    split,
    survey_from_toml,
    task_tables,
)
from aggregator.transport.client import open_client

TIMEOUT_SECONDS = 60.0
DEFAULT_PER_REQUEST = 200

app = typer.Typer(
    no_args_is_help=True, help="Ask people a survey: check it, make its tasks, upload answers."
)

SurveyFile = Annotated[Path, typer.Argument(metavar="SURVEY.toml", help="The survey file.")]
TasksFile = Annotated[
    Path,
    typer.Argument(metavar="tasks.toml", help="The public file of all tasks of the survey."),
]


@app.command(epilog="Example: prio survey check survey.toml")
def check(
    file: SurveyFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check a survey file and print how each question would be asked, and with what error."""
    survey = survey_from_toml(file.read_text(encoding="utf-8"))
    planned = plan(survey)
    if as_json:
        print(json.dumps(_plan_document(survey, planned)))
    else:
        _print_plan(survey, planned)


@app.command(
    epilog="Example: prio survey new survey.toml --out made "
    "--leader https://… --helper https://… --collector-config …"
)
def new(
    file: SurveyFile,
    out: Annotated[Path, typer.Option(help="A folder that does not exist: the files go there.")],
    leader: Annotated[str, typer.Option(help="The leader's URL.")],
    helper: Annotated[str, typer.Option(help="The helper's URL.")],
    collector_config: Annotated[
        str, typer.Option(help="What `prio collector config` prints at the collector's.")
    ],
    insecure_http: InsecureHttp = False,
) -> None:
    """Make the tasks of a survey: the public tasks.toml and one secret file for each party.

    Each party adds its file with `prio task add`; whoever uploads needs tasks.toml only.
    """
    survey = survey_from_toml(file.read_text(encoding="utf-8"))
    config = collector_config_of(collector_config)
    planned = plan(survey)
    tasks = []
    for each in planned:
        tables = task_tables(survey, each)
        task = make_task(
            config, tables.vdaf, tables.privacy, leader=leader, helper=helper, **tables.settings
        )
        check_endpoints(task, insecure_http=insecure_http)
        tasks.append(task)
    write_parties(tasks, out, "tasks.toml")
    _print_plan(survey, planned)
    print(
        f"wrote tasks.toml (public) and leader.toml, helper.toml, collector.toml (secret) to {out}",
        file=sys.stderr,
    )


@app.command(epilog="Example: prio survey show made/tasks.toml")
def show(file: TasksFile) -> None:
    """Print what the tasks of a survey ask, and the fingerprints that all parties must agree on."""
    for task, meaning in _tasks(file):
        print(f"{meaning.question.name}  {task.task_id}  fingerprint {task.fingerprint}")
        print(f"  {meaning.title}; {meaning.asked}; asked as {meaning.design.name}")
        described = meaning.question.model_dump(mode="json", by_alias=True, exclude={"name"})
        for name, value in described.items():
            if value not in ("", None, [], ()):
                print(f"  {name} = {json.dumps(value, ensure_ascii=False)}")


@app.command(
    epilog="Example: prio survey upload made/tasks.toml answers.csv --time-column visited_at"
)
def upload(
    file: TasksFile,
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="CSV or Parquet, one row per person; - for CSV from standard input.",
        ),
    ],
    time_column: Annotated[str, typer.Option(help="The column of each row's time.")],
    person_column: Annotated[
        str | None,
        typer.Option(
            help="The column that says whose row it is: a second row of one person in a window is "
            "refused. Without it each row is another person's."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION=COLUMN",
            help="A question that stands in another column than its name's; of a vector one for "
            "each of its columns, joined by commas. Repeatable.",
        ),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Of CSV; the most frequent in its first line if not given.")
    ] = None,
    decimal_mark: Annotated[str, typer.Option(help='In numbers of CSV: "." or ",".')] = ".",
    time_zone: Annotated[
        str, typer.Option(help='Of times that name none, such as "Europe/Berlin".')
    ] = "UTC",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check everything, and send nothing.")
    ] = False,
    per_request: Annotated[
        int, typer.Option(min=1, help="Reports in one request.")
    ] = DEFAULT_PER_REQUEST,
    insecure_http: InsecureHttp = False,
    environment_proxy: EnvironmentProxy = False,
) -> None:
    """Upload a table of answers to all questions of a survey.

    Everything is read and checked before the first report is sent. The exit status is 1 if some
    reports were refused, 2 if the table is bad and nothing was sent, and 3 if an aggregator could
    not be reached.
    """
    tasks = _tasks(file)
    for task, _ in tasks:
        check_endpoints(task, insecure_http=insecure_http)
    if decimal_mark not in (".", ","):
        raise ParameterError(f'decimal-mark: must be "." or ",", not {decimal_mark!r}')
    columns = Columns(
        time_column,
        person_column,
        dict(_columns_of(text) for text in column or []),
        decimal_mark,
        _zone(time_zone),
    )
    questions = [meaning.question for _, meaning in tasks]
    for name in columns.of_question.keys() - {question.name for question in questions}:
        raise ParameterError(f"column: the survey has no question {name!r}")
    if delimiter is not None and len(delimiter) != 1:
        raise ParameterError(f"delimiter: must be one character, not {delimiter!r}")
    is_input = str(answers) == "-"
    rows = csv_rows(csv_text(answers), delimiter) if is_input else rows_of(answers, delimiter)
    given = read_answers(rows, questions, tasks[0][1].windows, columns)
    _print_answers(given)
    if dry_run:
        return
    http_options = {"insecure_http": insecure_http, "environment_proxy": environment_proxy}
    refused = anyio.run(_upload, [task for task, _ in tasks], given, per_request, http_options)
    for (question, error), count in refused.items():
        print(f"{count} refused of {question}: {error.draft_name}")
    if refused:
        raise SystemExit(faults.PARTLY)


@app.command(
    epilog='Example: prio survey collect made/tasks.toml --config collector.toml --last "4 weeks"'
)
def collect(
    file: TasksFile,
    config: Config = None,
    last: Annotated[
        str | None,
        typer.Option(help='The windows of the last while that are over: "week", "4 weeks".'),
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="The window that holds this time or date, ISO 8601.")
    ] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for all of it.")] = 300,
    shut_out_later_answers: Annotated[
        bool,
        typer.Option(
            "--shut-out-later-answers",
            help="Collect a window that is not over: every later answer of it is refused for good.",
        ),
    ] = False,
) -> None:
    """Collect all questions of one or more windows, and print what they say.

    What was collected before is found and not asked for again. The exit status is 3 if the leader
    refused, or something was not ready in time; what was ready is printed all the same.
    """
    tasks, now = _tasks(file), datetime.now(UTC)
    windows = tasks[0][1].windows
    starts = _starts(windows, last, window, now)
    for start in starts:
        if windows.end(start) > now and not shut_out_later_answers:
            raise ParameterError(
                f"window: {windows.describe(start)} is not over; --shut-out-later-answers collects "
                "it now and refuses every later answer of it"
            )
    collected, faults_found = list[Collected](), list[str]()
    deadline = time.monotonic() + wait
    console = Console(stderr=True)
    with (
        Collector.open(config) as collector,
        console.status("collecting") as status,
    ):
        for start in starts:
            for task, meaning in tasks:
                place = f"{meaning.question.name}, {windows.describe(start)}"
                status.update(f"collecting {place}")
                left = timedelta(seconds=max(0.0, deadline - time.monotonic()))
                length = timedelta(seconds=windows.seconds)
                try:
                    collected.append(
                        collector.collect(
                            task, start, length, wait=left, now=shut_out_later_answers
                        )
                    )
                except PeerError as error:
                    faults_found.append(f"{place}: {error}")
    print_table(SurveyResults([(each.task, each.batch()) for each in collected]).table())
    for fault in faults_found:
        print(f"prio: {fault}", file=sys.stderr)
    if faults_found:
        raise SystemExit(faults.PEER)


@app.command(
    epilog="Example: prio survey results made/tasks.toml --config collector.toml --csv weekly.csv"
)
def results(
    file: TasksFile,
    config: Config = None,
    confidence: Annotated[
        str, typer.Option(help='Of each interval by itself, exact: "0.95", "99/100".')
    ] = "0.95",
    jointly: Annotated[
        bool, typer.Option("--jointly", help="Let all intervals hold at once: they are wider.")
    ] = False,
    changes: Annotated[
        bool,
        typer.Option(
            "--changes",
            help="Print what can be concluded of the change from the window before to the last, "
            "all at once.",
        ),
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this CSV file.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write it to this Parquet file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print everything that was collected of a survey, with labels and intervals."""
    with Collector.open(config) as collector:
        found = [each for task, _ in _tasks(file) for each in collector.results(task)]
    probability = parse_probability(confidence, "confidence")
    if changes:
        for change in compare_all(survey_results(found).changes(), probability):
            print(change.can_be_concluded)
        print(ONLY_NOISE)
        return
    made = survey_results(found).table(confidence=probability, jointly=jointly)
    if csv is not None:
        made.to_csv(csv)
    if parquet is not None:
        made.to_parquet(parquet)
    if as_json:
        print(json.dumps({"version": 1, "rows": [_finite(row) for row in made.rows]}))
    elif csv is None and parquet is None:
        print_table(made)


def print_table(made: Table) -> None:
    """Print a table of a survey's figures, a heading for each window and question."""
    place: tuple[object, object] | None = None
    for row in made.rows:
        if (row["window"], row["question"]) != place:
            place = row["window"], row["question"]
            print(f"{row['question']}, {row['window']}: {row['reports']:,} answers")
        value = "no estimate" if row["value"] is None else f"{row['value']:,.6g}"
        name = " ".join(str(row[each]) for each in ("shows", "label") if row[each])
        print(
            f"  {name}: {value} {row['unit']}".rstrip()
            + f" ({row['low']:,.6g} to {row['high']:,.6g})"
        )
    if made.rows:
        confidence = 100 * float(made.confidence)
        how = "all at once" if made.jointly else "each by itself"
        print(f"intervals: {confidence:.6g} %, {how}")


def _starts(
    windows: Windows, last: str | None, window: str | None, now: datetime
) -> list[datetime]:
    """Return the beginnings of the windows to collect, the earliest first."""
    if (last is None) == (window is None):
        raise ParameterError("window: give either --last or --window")
    if window is not None:
        try:
            moment = datetime.fromisoformat(window)
        except ValueError:
            raise ParameterError(f"window: must be ISO 8601, not {window!r}") from None
        return [windows.start(moment if moment.tzinfo else moment.replace(tzinfo=UTC))]
    seconds = Windows.of(str(last), now.replace(microsecond=0)).seconds
    if seconds % windows.seconds:
        raise ParameterError(f"last: must be a whole number of the survey's windows, not {last!r}")
    newest, count = windows.last(now), seconds // windows.seconds
    return [newest - timedelta(seconds=windows.seconds * back) for back in range(count)][::-1]


def _finite(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row in which what has no bound is null: JSON has no infinity."""
    return {
        name: None if isinstance(cell, float) and not math.isfinite(cell) else cell
        for name, cell in row.items()
    }


async def _upload(
    tasks: Sequence[Task],
    answers: Sequence[Answers],
    per_request: int,
    http_options: dict[str, bool],
) -> Counter[tuple[str, ReportError]]:
    """Send all answers, and return how many reports were refused, by question and reason."""
    console = Console(stderr=True)
    refused: Counter[tuple[str, ReportError]] = Counter()
    sent = 0
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("uploading", total=sum(each.count for each in answers))

        def advance(count: int) -> None:
            nonlocal sent
            sent += count
            progress.advance(bar, count)

        async with open_client(TIMEOUT_SECONDS, **http_options) as http:
            for task, given in zip(tasks, answers, strict=True):
                client, design = Client(task, http), Meaning.of_task(task).design
                for start, of_window in sorted(given.by_start.items()):
                    try:
                        summary = await client.upload(
                            [design.measurement(answer) for answer in of_window],
                            time=int(start.timestamp()),
                            reports_per_request=per_request,
                            progress=advance,
                        )
                    except PeerError:
                        console.print(
                            f"prio: {sent} reports are settled, in the order of the survey's "
                            f"questions and windows; it ended in {given.question.name}"
                        )
                        raise
                    for error, count in summary.refused.items():
                        refused[given.question.name, error] += count
    print(f"{sent - refused.total()} of {sent} reports accepted")
    return refused


def _tasks(file: Path) -> list[tuple[Task, Meaning]]:
    """Return the tasks of a survey with what they mean.

    Raises:
        ParameterError: A task is of no survey, or of another than the first.
    """
    tasks = [task_from_toml(text) for text in split(file.read_text(encoding="utf-8"))]
    found = [(task, Meaning.of_task(task)) for task in tasks]
    first = found[0][1]
    for task, meaning in found:
        if (meaning.title, meaning.windows) != (first.title, first.windows):
            raise ParameterError(f"task {task.task_id}: is of another survey than the first")
    return found


def _columns_of(text: str) -> tuple[str, list[str]]:
    question, equals, columns = text.partition("=")
    if not equals:
        raise ParameterError(f"column: must be QUESTION=COLUMN, not {text!r}")
    return question, columns.split(",")


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ParameterError(f"time-zone: there is no {name!r}") from None


def _print_plan(survey: Survey, planned: Sequence[PlannedQuestion]) -> None:
    budget = survey.budget
    for each in planned:
        kind = each.question.model_dump()["kind"]
        print(f"{each.question.name} ({kind}): {_way(each.best)}")
        for other in each.others:
            print(f"    rather than {_way(other)}")
    name, value = ("epsilon", budget.epsilon) if budget.epsilon else ("rho", budget.rho)
    assert value is not None  # noqa: S101  the model demands one of them
    print(
        f"one person: {name} {format_rational(value)} per window, all questions together; at most "
        f"{budget.windows} windows, so {format_rational(value * budget.windows)} in all"
    )
    print(
        "errors: 95 % intervals of the least precise figure in the question's unit, with "
        f"{survey.min_batch_size} answers; a mean's falls with more answers"
    )


def _way(way: Way) -> str:
    parameters = ", ".join(
        f"{name} {format_rational(value)}" for name, value in way.mechanism.parameters().items()
    )
    return f"{way.design.name}, ± {float(way.error):.4g} ({way.mechanism.name}, {parameters})"


def _plan_document(survey: Survey, planned: Sequence[PlannedQuestion]) -> dict[str, object]:
    return {
        "version": 1,
        "title": survey.title,
        "questions": [
            {
                "name": each.question.name,
                "ways": [
                    {
                        "design": way.design.name,
                        "mechanism": way.mechanism.name,
                        **{k: format_rational(v) for k, v in way.mechanism.parameters().items()},
                        "error": float(way.error),
                    }
                    for way in (each.best, *each.others)
                ],
            }
            for each in planned
        ],
    }


def _print_answers(answers: Sequence[Answers]) -> None:
    for each in answers:
        windows = len(each.by_start)
        print(
            f"{each.question.name}: {each.count:,} answers in {windows} "
            f"window{'' if windows == 1 else 's'}, {each.missing:,} missing, "
            f"{each.clipped:,} clipped"
        )
