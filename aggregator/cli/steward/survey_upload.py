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
from aggregator.cli.steward.survey_tasks import task_of_survey
from aggregator.client.requests import REPORTS_PER_REQUEST
from aggregator.errors import ParameterError, PeerError

if TYPE_CHECKING:
    from aggregator.client import UploadSummary
    from aggregator.protocol.floor import Floor
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Answers, Meaning


@takes_floor
def upload(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[task.toml] ANSWERS",
            help="The public file of the survey's task, which need not be given of the one survey "
            "of a `prio up`; and CSV or Parquet, one row per person, or - for CSV from standard "
            "input.",
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

    Each row is one report, of the same size whatever is in it: who gave no answer to a question, or
    to any, is counted as having given none. Everything is read and checked before the first report
    is sent. The exit status is 1 if some
    reports were refused, 2 if the table is bad and nothing was sent, and 3 if an aggregator could
    not be reached.
    """
    import anyio

    from aggregator.cli.client.upload import check_delimiter, csv_text
    from aggregator.cli.local.folder import public_file
    from aggregator.protocol.floor import check_floor
    from aggregator.service.transport.client import check_endpoints
    from aggregator.steward.survey import Columns, csv_table, read_answers, table_in

    *public, answers = files
    if len(public) > 1:
        raise ParameterError(f"answers: give one file of answers, not {len(public)}")
    task, meaning = task_of_survey(public_file(public[0] if public else None, up)[0])
    check_endpoints(task, insecure_http=insecure_http)
    check_floor(task, floor, "this client")
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
    questions = meaning.sheet.questions
    for name in columns.of_question.keys() - {question.name for question in questions}:
        raise ParameterError(f"column: the survey has no question {name!r}")
    if delimiter is not None:
        check_delimiter(delimiter)
    is_input = str(answers) == "-"
    table = csv_table(csv_text(answers), delimiter) if is_input else table_in(answers, delimiter)
    given = read_answers(table, questions, meaning.windows, columns)
    if not as_json:
        _print_answers(meaning, given)
    sent = None
    if not dry_run:
        http_options = {"insecure_http": insecure_http, "environment_proxy": environment_proxy}
        sent = anyio.run(_upload, task, meaning, given, per_request, floor, http_options)
    if as_json:
        print(json.dumps(_document(meaning, given, sent)))
    elif sent is not None:
        _print_sent(sent)
    if sent is not None and sent.refused:
        raise SystemExit(faults.PARTLY)


async def _upload(
    task: "Task",
    meaning: "Meaning",
    answers: "Answers",
    per_request: int,
    floor: "Floor",
    http_options: dict[str, bool],
) -> "UploadSummary":
    """Send all answers, and return how many reports were taken and refused."""
    from rich.console import Console
    from rich.progress import Progress

    from aggregator.client import Client, UploadSummary
    from aggregator.dap.report_errors import AnyReportError
    from aggregator.service.transport.client import open_client

    console = Console(stderr=True)
    accepted, refused, sent = 0, Counter[AnyReportError](), 0
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("uploading", total=answers.count)

        def advance(count: int) -> None:
            nonlocal sent
            sent += count
            progress.advance(bar, count)

        async with open_client(
            insecure_http=http_options["insecure_http"],
            environment_proxy=http_options["environment_proxy"],
        ) as http:
            client = Client(task, http, floor=floor)
            for start, of_window in sorted(answers.by_start.items()):
                try:
                    summary = await client.upload(
                        [meaning.sheet.measurement(given) for given in of_window],
                        time=start,
                        reports_per_request=per_request,
                        progress=advance,
                    )
                except PeerError:
                    console.print(
                        f"prio: {sent} reports are settled, window after window; it ended in "
                        f"{meaning.windows.describe(start)}"
                    )
                    raise
                accepted += summary.accepted
                refused.update(summary.refused)
    return UploadSummary(accepted, refused)


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


def _print_answers(meaning: "Meaning", answers: "Answers") -> None:
    windows = len(answers.by_start)
    print(
        f"{answers.count:,} rows in {windows} window{'' if windows == 1 else 's'}, each one report"
    )
    for question, _ in meaning.sheet.asked:
        name = question.name
        answered = answers.count - answers.missing.get(name, 0)
        print(
            f"{name}: {answered:,} answers, {answers.missing.get(name, 0):,} missing, "
            f"{answers.clipped.get(name, 0):,} clipped"
        )


def _print_sent(summary: "UploadSummary") -> None:
    from aggregator.cli.client.upload import MEANINGS

    print(f"{summary.accepted} of {summary.total} reports accepted")
    for error, count in summary.refused.items():
        said = f" ({MEANINGS[error]})" if error in MEANINGS else ""
        print(f"{count} refused: {error.draft_name}{said}")


def _document(
    meaning: "Meaning", answers: "Answers", sent: "UploadSummary | None"
) -> dict[str, object]:
    """Return what was read of each question and, unless it was a dry run, what became of it."""
    questions = [
        {
            "name": question.name,
            "answers": answers.count - answers.missing.get(question.name, 0),
            "missing": answers.missing.get(question.name, 0),
            "clipped": answers.clipped.get(question.name, 0),
        }
        for question, _ in meaning.sheet.asked
    ]
    document: dict[str, object] = {
        "version": 2,
        "dry_run": sent is None,
        "rows": answers.count,
        "windows": len(answers.by_start),
        "questions": questions,
    }
    if sent is not None:
        refused = {error.draft_name: count for error, count in sent.refused.items()}
        document |= {"accepted": sent.accepted, "refused": refused}
    return document
