"""`prio survey upload`: uploads a table of answers to all questions."""

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.client.sending import (
    NO_AGE,
    Summary,
    check_sent,
    note_others,
    outbox_in,
    sender_to,
    summary_of,
    with_progress,
)
from aggregator.cli.options import EnvironmentProxy, InsecureHttp, Up
from aggregator.cli.requirements import takes_requirements
from aggregator.cli.steward.survey_tasks import Spelled, survey_of
from aggregator.client.sender import REPORTS_PER_REQUEST
from aggregator.errors import ParameterError
from aggregator.written_times import zone_named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from aggregator.client import Row, SurveyClient
    from aggregator.client.text.beside_survey import AskedTexts
    from aggregator.protocol.requirements import Requirements
    from aggregator.steward.survey import Answers, Meaning
    from aggregator.steward.survey.written import Written


@takes_requirements
def upload(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[task.toml] ANSWERS",
            help="The public file of the survey's task (not needed for the only survey of a "
            "`prio up`), and a CSV or Parquet file with one row per person, or - for CSV from "
            "standard input.",
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
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION=COLUMN",
            help="QUESTION=COLUMN, if a question's column does not have the question's name; "
            "for a vector, all its columns, joined by commas. Repeatable.",
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help="The delimiter of CSV; if not given, the most frequent one in the first line."
        ),
    ] = None,
    decimal_mark: Annotated[
        str, typer.Option(help='The decimal mark in numbers of CSV: "." or ",".')
    ] = ".",
    time_format: Annotated[
        str | None,
        typer.Option(help='The format of times that are not ISO 8601, such as "%d.%m.%Y %H:%M".'),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help='A text that means no answer, such as "n/a". Repeatable.'),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file that keeps reports until they are settled, and for ever whose answers "
            "were sent, and for text questions each person's toss: a second call leaves these "
            "people out, and sends what an interrupted one did not. Needs --person-column.",
        ),
    ] = None,
    time_zone: Annotated[
        str, typer.Option(help='The zone of times that name none, such as "Europe/Berlin".')
    ] = "UTC",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check everything, and send nothing.")
    ] = False,
    spelled: Spelled = None,
    per_request: Annotated[
        int, typer.Option(min=1, help="How many reports one request carries.")
    ] = REPORTS_PER_REQUEST,
    *,
    requirements: "Requirements",
    insecure_http: InsecureHttp = False,
    environment_proxy: EnvironmentProxy = False,
    up: Up = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Upload a table of answers to all questions of a survey.

    Each row is one report, of the same size whatever is in it: a person who gave no answer to a
    question, or to any, is counted as having given none. Each text question has one more report, to
    the task that the person is in. With --state nobody's answers are counted twice, whenever a call
    is interrupted; without it, a second call counts every row again. Everything is read and checked
    before the first report is sent. The exit status is 1 if some reports were refused, 2 if the
    table is bad and nothing was sent, and 3 if an aggregator could not be reached.
    """
    from aggregator.cli.client.upload import check_delimiter, csv_text
    from aggregator.cli.local.folder import public_file
    from aggregator.client import SurveyClient
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.protocol.requirements import check_requirements
    from aggregator.steward.survey import Columns, csv_table, read_answers, table_in
    from aggregator.steward.survey.written import with_written

    *public, answers = files
    if len(public) > 1:
        raise ParameterError(f"answers: give one file of answers, not {len(public)}")
    place = public_file(public[0] if public else None, up)[0]
    asked, meaning = survey_of(place)
    texts = _checked(asked.texts, state, person_column)
    check_endpoints(asked.first, insecure_http=insecure_http)
    for each in asked.tasks:
        check_requirements(each, requirements, "this client")
    of_question = dict(_columns_of(text) for text in column or [])
    questions = meaning.sheet.questions
    _check_names(of_question, {question.name for question in questions} | texts.keys())
    mark, zone = _decimal_mark(decimal_mark), zone_named(time_zone, "time-zone")
    if delimiter is not None:
        check_delimiter(delimiter)
    is_input = str(answers) == "-"
    table = csv_table(csv_text(answers), delimiter) if is_input else table_in(answers, delimiter)
    time = _time_column(table.names) if time_column is None else time_column
    columns = Columns(time, person_column, of_question, mark, zone, time_format, missing or ())
    names = {name: ",".join(columns.of_question.get(name, [name])) for name in texts}
    table, written = with_written(table, names, meaning.windows, columns)
    given = read_answers(table, questions, meaning.windows, columns, meaning.asked_texts)
    if not as_json:
        _print_answers(meaning, given)
    if dry_run:
        if as_json:
            print(json.dumps(_document(meaning, given)))
        return
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
        rows, asked_tasks = _rows(meaning, given, written), _tasks_of(survey)
        total = given.count * len(asked_tasks)
        found = with_progress(total, lambda settled: survey.upload(rows, settled=settled))
        summaries = {
            name: summary_of(found, *tasks, total=given.count, is_kept=state is not None)
            for name, tasks in asked_tasks.items()
        }
    if as_json:
        print(json.dumps(_document(meaning, given, summaries)))
    else:
        for name, summary in summaries.items():
            summary.print(name)
    note_others(found, [task for tasks in asked_tasks.values() for task in tasks], state)
    check_sent(found, sum(each.waiting for each in summaries.values()), state, asked.first)
    if any(each.refused for each in summaries.values()):
        raise SystemExit(faults.PARTLY)


def _tasks_of(survey: "SurveyClient") -> "dict[str, list[bytes]]":
    """Return the ids of each text question's tasks by its name; under "" that of all others."""
    asked = survey.asked
    tasks = {} if asked.task is None else {"": [asked.task]}
    tasks |= {name: survey.tasks_of(name) for name in asked.texts}
    return {name: [each.task_id.value for each in some] for name, some in tasks.items()}


def _rows(meaning: "Meaning", answers: "Answers", written: "Written") -> "Iterator[Row]":
    """Yield what each person answered, window after window."""
    from aggregator.client import Row

    for start, of_window in sorted(answers.by_start.items()):
        seconds = int(start.timestamp())
        texts = written.get(start, {})
        persons = answers.persons.get(start)
        for place, given in enumerate(of_window):
            person = None if persons is None else persons[place]
            of_person = {name: of_name[person] for name, of_name in texts.items() if person}
            yield Row(meaning.sheet.measurement(given), of_person, seconds, person)


def _checked(texts: "AskedTexts", state: Path | None, person: str | None) -> "AskedTexts":
    """Return a survey's text questions, which need --state; that needs --person-column."""
    if texts and (state is None or person is None):
        raise ParameterError(
            f"state: the survey has text questions ({', '.join(texts)}), of whose tasks a person "
            "is in one: give --state and --person-column"
        )
    if state is not None and person is None:
        raise ParameterError("state: needs --person-column, which says whose row is whose")
    return texts


def _time_column(names: "Collection[str]") -> str:
    """Return the column of times if none is named.

    A missing column does not mean now: a table of earlier weeks would then count in this week.
    """
    if "time" not in names:
        raise ParameterError(
            "time-column: give the column that says when each row was answered, one of "
            f"{', '.join(names) or 'none'}; a table without one needs a column time, in which "
            "a day of the window, such as 2026-11-04, is enough"
        )
    return "time"


def _decimal_mark(given: str) -> str:
    if given not in (".", ","):
        raise ParameterError(f'decimal-mark: must be "." or ",", not {given!r}')
    return given


def _check_names(given: "Iterable[str]", known: "AbstractSet[str]") -> None:
    for name in given:
        if name not in known:
            raise ParameterError(f"column: the survey has no question {name!r}")


def _columns_of(text: str) -> tuple[str, list[str]]:
    question, equals, columns = text.partition("=")
    if not equals:
        raise ParameterError(f"column: must be QUESTION=COLUMN, not {text!r}")
    return question, columns.split(",")


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


def _document(
    meaning: "Meaning",
    answers: "Answers",
    summaries: "Mapping[str, Summary] | None" = None,
) -> dict[str, object]:
    """Return what was read for each question and, unless it was a dry run, the outcome."""
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
        "dry_run": summaries is None,
        "rows": answers.count,
        "windows": len(answers.by_start),
        "questions": questions,
    }
    texts = []
    for name, each in (summaries or {}).items():
        if name:
            texts.append({"name": name, **each.to_json()})
        else:
            document |= each.to_json()
    return document | ({"texts": texts} if texts else {})
