"""`prio survey upload`: uploads a table of answers to all questions."""

import json
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.client.sending import (
    PerRequest,
    Summary,
    check_sent,
    note_others,
    outbox_in,
    sender_to,
    summary_of,
    teller,
    with_progress,
)
from aggregator.cli.client.table_options import (
    DecimalMark,
    Delimiter,
    Encoding,
    Sheet,
    TableOptions,
)
from aggregator.cli.options import AsJson, EnvironmentProxy, InsecureHttp, Up
from aggregator.cli.requirements import takes_requirements
from aggregator.cli.steward.survey_read import check_taken, print_read, read_document
from aggregator.cli.steward.survey_tasks import Spelled, answerable
from aggregator.client.sender import REPORTS_PER_REQUEST
from aggregator.clock import SystemClock
from aggregator.errors import ParameterError
from aggregator.written_times import IN_UTC, zone_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aggregator.client import Row, SurveyClient
    from aggregator.client.sender import Sender
    from aggregator.client.survey.asked_survey import AskedSurvey
    from aggregator.client.survey.numbers import Grid
    from aggregator.client.table_files.table import Table
    from aggregator.client.text.beside_survey import AskedTexts
    from aggregator.protocol.requirements import Requirements
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Answers, Meaning, Question


@takes_requirements
def upload(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[task.toml] ANSWERS",
            help="The public file of the survey's task (not needed for the only survey of a "
            "`prio up`), and a table with one row per person: CSV, Parquet, a workbook of Excel or "
            "LibreOffice, or a file of SPSS or Stata; - is standard input.",
        ),
    ],
    time_column: Annotated[
        str | None,
        typer.Option(
            help="The column with each row's time; not needed if it is called time.",
            show_default=False,
        ),
    ] = None,
    person_column: Annotated[
        str | None,
        typer.Option(
            help="The column that says whose row it is; a person's second row in a window is "
            "refused. If not given, each row belongs to a different person."
        ),
    ] = None,
    link_column: Annotated[
        str | None,
        typer.Option(
            help="The column with each person's personal link, or its code, of a survey by "
            "invitation: one answer of each counts in a window, wherever else it is sent."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION=COLUMN",
            help="QUESTION=COLUMN, if a question's column does not have the question's name; "
            "for a vector all its columns, for several answers a column of each label, for text "
            "and a number both, joined by commas; a name with commas stands in quotation marks. "
            "Repeatable.",
        ),
    ] = None,
    delimiter: Delimiter = None,
    decimal_mark: DecimalMark = ".",
    encoding: Encoding = None,
    sheet: Sheet = None,
    time_format: Annotated[
        str | None,
        typer.Option(
            help='The format of times that are not ISO 8601, such as "%d.%m.%Y %H:%M"; or what '
            "bare numbers count: seconds, milliseconds, microseconds, excel, excel-1904, spss, "
            "stata, stata-days."
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help='A text or number that means no answer, such as "n/a". Repeatable.'),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file that keeps reports until they are settled, and for ever whose answers "
            "were sent, and for text questions each person's toss: a second call leaves these "
            "people out, and sends what an interrupted one did not. Needs --person-column or "
            "--link-column.",
        ),
    ] = None,
    time_zone: Annotated[
        str, typer.Option(help='The zone of times that name none, such as "Europe/Berlin".')
    ] = "UTC",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Read and check everything, say what was read, and send nothing.",
        ),
    ] = False,
    spelled: Spelled = None,
    per_request: PerRequest = REPORTS_PER_REQUEST,
    *,
    requirements: "Requirements",
    insecure_http: InsecureHttp = False,
    environment_proxy: EnvironmentProxy = False,
    up: Up = None,
    as_json: AsJson = False,
) -> None:
    """Upload a table of answers to all questions of a survey.

    Each row is one report, of the same size whatever is in it: a person who gave no answer to a
    question, or to any, is counted as having given none. Each text question has one more report, to
    the task that the person is in. With --state nobody's answers are counted twice, whenever a call
    is interrupted; without it, a second call counts every row again. Everything is read and checked
    before the first report is sent. The exit status is 1 if some reports were refused, 2 if the
    table is bad and nothing was sent, and 3 if an aggregator could not be reached.
    """
    from aggregator.cli.local.folder import public_file
    from aggregator.client import SurveyClient
    from aggregator.client.reporter import NO_AGE
    from aggregator.clock import SystemClock
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.protocol.requirements import check_requirements
    from aggregator.steward.survey import Columns, read_answers
    from aggregator.steward.survey.named_columns import named_columns

    *public, answers = files
    if len(public) > 1:
        raise ParameterError(f"answers: give one file of answers, not {len(public)}")
    place = public_file(public[0] if public else None, up)[0]
    asked, meaning = answerable(place)
    texts = _checked(asked, state, person_column, link_column)
    check_endpoints(asked.first, insecure_http=insecure_http)
    for each in asked.tasks:
        check_requirements(each, requirements, "this client")
    options = TableOptions(delimiter, encoding, sheet, decimal_mark)
    zone = zone_named(time_zone, "time-zone")
    questions = meaning.sheet.questions
    table = options.table_at(answers)
    of_question = named_columns(
        column or [], {each.name for each in questions} | texts.keys(), table
    )
    _check_people(table, questions, is_sent=not dry_run)
    time = _time_column(table) if time_column is None else time_column
    columns = Columns(
        time,
        link_column or person_column,
        of_question,
        decimal_mark,
        zone,
        time_format,
        missing or (),
        are_links=link_column is not None,
    )
    given = read_answers(
        table, questions, meaning.windows, columns, meaning.asked_texts, _beside(texts)
    )
    for code in given.unseen:
        print(f"missing: no cell is {code!r}", file=sys.stderr)
    if not as_json:
        print_read(meaning.windows, given, whole=dry_run)
    if dry_run:
        if as_json:
            print(json.dumps(_document(given)))
        check_taken(asked.tasks, meaning.windows, given, SystemClock().now())
        return
    _check_times(asked.first, given, meaning)
    with (
        closing(outbox_in(state)) as outbox,
        closing(sender_to(environment_proxy=environment_proxy)) as sender,
        closing(
            SurveyClient(
                place,
                outbox,
                spelled=spelled or (),
                max_age_seconds=NO_AGE,
                requirements=requirements,
                sender=sender,
                reports_per_request=per_request,
            )
        ) as survey,
    ):
        _check_taken(survey, given, meaning, sender)
        rows = _rows(meaning, given, are_links=link_column is not None)
        asked_tasks = _tasks_of(survey)
        total = given.count * len(asked_tasks)
        tell = teller(asked.first)
        found = with_progress(
            total, lambda settled: survey.upload(rows, settled=settled, tell=tell)
        )
        summaries = {
            name: summary_of(found, *tasks, total=given.count, is_kept=state is not None)
            for name, tasks in asked_tasks.items()
        }
    if as_json:
        print(json.dumps(_document(given, summaries)))
    else:
        for name, summary in summaries.items():
            summary.print(name)
    note_others(found, [task for tasks in asked_tasks.values() for task in tasks], state)
    check_sent(found, sum(each.waiting for each in summaries.values()), state, asked.first)
    if any(each.refused for each in summaries.values()):
        raise SystemExit(faults.PARTLY)


def _beside(texts: "AskedTexts") -> "dict[str, Grid | str]":
    """Return the numbers that text questions ask for, or by which question they are counted."""
    found: dict[str, Grid | str] = {}
    for name, (question, _) in texts.items():
        if question.amount is not None:
            found[name] = question.amount.grid
        elif question.by is not None:
            found[name] = question.by.question
    return found


def _check_people(table: "Table", questions: "Sequence[Question]", *, is_sent: bool) -> None:
    """Refuse to send rows that say themselves that they are no people's."""
    from aggregator.steward.survey.synthetic.tables import STAMP

    if is_sent and table.has(STAMP) and STAMP not in {each.name for each in questions}:
        raise ParameterError(
            f"answers: the column {STAMP} says that these rows are drawn from noised sums: they "
            "are nobody's answers, and only --dry-run reads them"
        )


def _check_times(task: "Task", answers: "Answers", meaning: "Meaning") -> None:
    """Refuse a table with rows of windows in which people are not asked."""
    others = {
        start: len(rows)
        for start, rows in answers.by_start.items()
        if start.timestamp() < task.opens
        or (task.closes is not None and start.timestamp() >= task.closes)
    }
    if others:
        asked = (
            "" if task.closes is None else f"; they are, {IN_UTC.period(task.opens, task.closes)}"
        )
        raise ParameterError(
            f"time: {sum(others.values()):,} of {answers.count:,} rows are of windows in which "
            f"people are not asked, the first {meaning.windows.describe(min(others))}{asked}"
        )


def _check_taken(
    survey: "SurveyClient", answers: "Answers", meaning: "Meaning", sender: "Sender"
) -> None:
    """Refuse a table with rows of the present window if the leader takes no more of them.

    What waits in the file of --state is sent all the same: it may have been taken before.
    """
    from aggregator.client.right_time import word_now

    now, _ = meaning.window(datetime.fromtimestamp(SystemClock().now(), UTC))
    if now not in answers.by_start or survey.reporter.waiting():
        return
    word = word_now(survey.task, sender)
    if word is not None:
        raise ParameterError(
            f"time: the leader takes no more reports of {meaning.windows.describe(now)} ({word}), "
            "so nothing was sent"
        )


def _tasks_of(survey: "SurveyClient") -> "dict[str, list[bytes]]":
    """Return the ids of each text question's tasks by its name; under "" that of all others."""
    asked = survey.asked
    tasks = {} if asked.task is None else {"": [asked.task]}
    tasks |= {name: survey.tasks_of(name) for name in asked.texts}
    return {name: [each.task_id.value for each in some] for name, some in tasks.items()}


def _rows(meaning: "Meaning", answers: "Answers", *, are_links: bool) -> "Iterator[Row]":
    """Yield what each person answered, window after window."""
    from aggregator.client import Row
    from aggregator.protocol.permit_codes import name_of, secret_of

    for start, of_window in sorted(answers.by_start.items()):
        seconds = int(start.timestamp())
        nobody = [None] * len(of_window)
        persons = answers.persons.get(start, nobody)
        texts = answers.written.get(start, nobody)
        for given, person, written in zip(of_window, persons, texts, strict=True):
            secret = secret_of(person) if are_links and person is not None else None
            named = person if secret is None else name_of(secret)
            entries = meaning.sheet.measurement(given)
            yield Row(entries, dict(written or {}), seconds, named, secret)


def _checked(
    asked: "AskedSurvey", state: Path | None, person: str | None, link: str | None
) -> "AskedTexts":
    """Return a survey's text questions, and refuse columns that do not say whose row is whose."""
    texts, permits = asked.texts, asked.first.permits
    if asked.first.issuer_keys is not None:
        raise ParameterError(
            "permits: the survey counts only answers of an application's people, whose permits its "
            "issuer signs: no table has those"
        )
    if link is not None:
        if permits is None:
            raise ParameterError(
                "link-column: the survey counts everybody's answers, without links"
            )
        if person is not None:
            raise ParameterError("person-column: a person is known by the link (--link-column)")
        return texts  # a link counts in one task of each, whoever uploads it and how often
    if permits is not None:
        raise ParameterError("link-column: missing; the survey counts only answers with a link")
    if texts and (state is None or person is None):
        raise ParameterError(
            f"state: the survey has text questions ({', '.join(texts)}), of whose tasks a person "
            "is in one: give --state and --person-column"
        )
    if state is not None and person is None:
        raise ParameterError("state: needs --person-column, which says whose row is whose")
    return texts


def _time_column(table: "Table") -> str:
    """Return the column of times if none is named.

    A missing column does not mean now: a table of earlier weeks would then count in this week.
    """
    if not table.has("time"):
        raise ParameterError(
            "time-column: give the column that says when each row was answered, one of "
            f"{table.said_names}; a table without one needs a column time, in "
            f"which a day of the window, such as 2026-11-04, is enough{table.hint}"
        )
    return "time"


def _document(
    answers: "Answers", summaries: "Mapping[str, Summary] | None" = None
) -> dict[str, object]:
    """Return what was read for each question and, unless it was a dry run, the outcome."""
    document = {"version": 2, "dry_run": summaries is None, **read_document(answers)}
    texts = []
    for name, each in (summaries or {}).items():
        if name:
            texts.append({"name": name, **each.to_json()})
        else:
            document |= each.to_json()
    return document | ({"texts": texts} if texts else {})
