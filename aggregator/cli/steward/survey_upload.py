"""`prio survey upload`: a table of answers to all questions."""

import json
from collections import Counter
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from aggregator.cli import faults
from aggregator.cli.floors import takes_floor
from aggregator.cli.options import EnvironmentProxy, InsecureHttp, Up
from aggregator.cli.steward.survey_tasks import tasks_of_survey
from aggregator.client.requests import REPORTS_PER_REQUEST
from aggregator.errors import ParameterError, PeerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.client import UploadSummary
    from aggregator.protocol.floor import Floor
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Answers, Meaning


@takes_floor
def upload(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[tasks.toml] ANSWERS",
            help="The public file of all tasks of the survey, which need not be given of the one "
            "survey of a `prio up`; and CSV or Parquet, one row per person, or - for CSV from "
            "standard input.",
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
    time_format: Annotated[
        str | None,
        typer.Option(help='Of times that are not ISO 8601, such as "%d.%m.%Y %H:%M".'),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help='Text that means no answer, such as "n/a". Repeatable.'),
    ] = None,
    time_zone: Annotated[
        str, typer.Option(help='Of times that name none, such as "Europe/Berlin".')
    ] = "UTC",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check everything, and send nothing.")
    ] = False,
    per_request: Annotated[
        int, typer.Option(min=1, help="Reports in one request.")
    ] = REPORTS_PER_REQUEST,
    *,
    floor: "Floor",
    insecure_http: InsecureHttp = False,
    environment_proxy: EnvironmentProxy = False,
    up: Up = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Upload a table of answers to all questions of a survey.

    Everything is read and checked before the first report is sent. The exit status is 1 if some
    reports were refused, 2 if the table is bad and nothing was sent, and 3 if an aggregator could
    not be reached.
    """
    import anyio

    from aggregator.cli.client.upload import check_delimiter, csv_text
    from aggregator.cli.local.folder import public_file
    from aggregator.steward.survey import Columns, csv_table, read_answers, table_in

    *public, answers = files
    if len(public) > 1:
        raise ParameterError(f"answers: give one file of answers, not {len(public)}")
    tasks = tasks_of_survey(public_file(public[0] if public else None, up)[0])
    _check(tasks, floor, insecure_http=insecure_http)
    if decimal_mark not in (".", ","):
        raise ParameterError(f'decimal-mark: must be "." or ",", not {decimal_mark!r}')
    columns = Columns(
        time_column,
        person_column,
        dict(_columns_of(text) for text in column or []),
        decimal_mark,
        _zone(time_zone),
        time_format,
        missing or (),
    )
    questions = [meaning.question for _, meaning in tasks]
    for name in columns.of_question.keys() - {question.name for question in questions}:
        raise ParameterError(f"column: the survey has no question {name!r}")
    if delimiter is not None:
        check_delimiter(delimiter)
    is_input = str(answers) == "-"
    table = csv_table(csv_text(answers), delimiter) if is_input else table_in(answers, delimiter)
    given = read_answers(table, questions, tasks[0][1].windows, columns)
    if not as_json:
        _print_answers(given)
    sent = []
    if not dry_run:
        http_options = {"insecure_http": insecure_http, "environment_proxy": environment_proxy}
        asked = [task for task, _ in tasks]
        sent = anyio.run(_upload, asked, given, per_request, floor, http_options)
    if as_json:
        print(json.dumps(_document(given, sent)))
    elif not dry_run:
        _print_sent(given, sent)
    if any(summary.refused for summary in sent):
        raise SystemExit(faults.PARTLY)


def _check(tasks: "Sequence[tuple[Task, Meaning]]", floor: "Floor", *, insecure_http: bool) -> None:
    """Refuse a survey of which one question is below what this client takes part in."""
    from aggregator.protocol.floor import check_floor
    from aggregator.service.transport.client import check_endpoints

    for task, about in tasks:
        check_endpoints(task, insecure_http=insecure_http)
        try:
            check_floor(task, floor, "this client")
        except ParameterError as fault:
            raise ParameterError(f"{about.question.name}: {fault}") from None


async def _upload(
    tasks: "Sequence[Task]",
    answers: "Sequence[Answers]",
    per_request: int,
    floor: "Floor",
    http_options: dict[str, bool],
) -> "list[UploadSummary]":
    """Send all answers, and return how many reports of each question were taken and refused."""
    from rich.console import Console
    from rich.progress import Progress

    from aggregator.client import Client, UploadSummary
    from aggregator.dap.report_errors import AnyReportError
    from aggregator.service.transport.client import open_client
    from aggregator.steward.survey import Meaning

    console = Console(stderr=True)
    summaries = []
    sent = 0
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("uploading", total=sum(each.count for each in answers))

        def advance(count: int) -> None:
            nonlocal sent
            sent += count
            progress.advance(bar, count)

        async with open_client(**http_options) as http:
            for task, given in zip(tasks, answers, strict=True):
                client, design = Client(task, http, floor=floor), Meaning.of_task(task).design
                accepted, refused = 0, Counter[AnyReportError]()
                for start, of_window in sorted(given.by_start.items()):
                    try:
                        summary = await client.upload(
                            [design.measurement(answer) for answer in of_window],
                            time=start,
                            reports_per_request=per_request,
                            progress=advance,
                        )
                    except PeerError:
                        console.print(
                            f"prio: {sent} reports are settled, in the order of the survey's "
                            f"questions and windows; it ended in {given.question.name}"
                        )
                        raise
                    accepted += summary.accepted
                    refused.update(summary.refused)
                summaries.append(UploadSummary(accepted, refused))
    return summaries


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


def _print_answers(answers: "Sequence[Answers]") -> None:
    for each in answers:
        windows = len(each.by_start)
        print(
            f"{each.question.name}: {each.count:,} answers in {windows} "
            f"window{'' if windows == 1 else 's'}, {each.missing:,} missing, "
            f"{each.clipped:,} clipped"
        )


def _print_sent(answers: "Sequence[Answers]", sent: "Sequence[UploadSummary]") -> None:
    from aggregator.cli.client.upload import MEANINGS

    accepted, total = sum(each.accepted for each in sent), sum(each.total for each in sent)
    print(f"{accepted} of {total} reports accepted")
    for given, summary in zip(answers, sent, strict=True):
        for error, count in summary.refused.items():
            meaning = f" ({MEANINGS[error]})" if error in MEANINGS else ""
            print(f"{count} refused of {given.question.name}: {error.draft_name}{meaning}")


def _document(answers: "Sequence[Answers]", sent: "Sequence[UploadSummary]") -> dict[str, object]:
    """Return what was read of each question and, unless it was a dry run, what became of it."""
    questions: list[dict[str, object]] = [
        {
            "name": each.question.name,
            "answers": each.count,
            "windows": len(each.by_start),
            "missing": each.missing,
            "clipped": each.clipped,
        }
        for each in answers
    ]
    for question, summary in zip(questions, sent, strict=bool(sent)):
        question["accepted"] = summary.accepted
        question["refused"] = {error.draft_name: count for error, count in summary.refused.items()}
    return {"version": 1, "dry_run": not sent, "questions": questions}
