"""`prio survey`: checks a survey file and makes its tasks; the other commands are beside it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.files import named
from aggregator.cli.options import InsecureHttp
from aggregator.cli.parties import check_endpoints
from aggregator.cli.survey_results import collect, results
from aggregator.cli.survey_tasks import TasksFile, tasks_of_survey
from aggregator.cli.survey_upload import upload
from aggregator.cli.tasks import collector_config_of, make_task, write_survey_files
from aggregator.config import read_text
from aggregator.dp.rationals import format_rational
from aggregator.survey import (
    PlannedQuestion,
    Survey,
    Way,
    plan,
    survey_from_toml,
    task_tables,
)
from aggregator.words import escaped

app = typer.Typer(
    no_args_is_help=True, help="Ask people a survey: check it, make its tasks, upload answers."
)

SurveyFile = Annotated[Path, typer.Argument(metavar="SURVEY.toml", help="The survey file.")]


def _read_survey(file: Path) -> Survey:
    text = read_text(file)
    with named(file):
        return survey_from_toml(text)


@app.command(epilog="Example: prio survey check survey.toml")
def check(
    file: SurveyFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check a survey file and print how each question would be asked, and with what error."""
    survey = _read_survey(file)
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

    Each party adds its file with `prio task add`; whoever uploads needs tasks.toml only, or
    tasks.json, which is the same for programs in any language.
    """
    survey = _read_survey(file)
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
    write_survey_files(tasks, out)
    _print_plan(survey, planned)
    print(
        "wrote tasks.toml and the same as tasks.json (public), and leader.toml, helper.toml, "
        f"collector.toml (secret) to {out}",
        file=sys.stderr,
    )


@app.command(epilog="Example: prio survey show made/tasks.toml")
def show(file: TasksFile) -> None:
    """Print what the tasks of a survey ask, and the fingerprints that all parties must agree on."""
    for task, meaning in tasks_of_survey(file):
        print(f"{meaning.question.name}  {task.task_id}  fingerprint {task.fingerprint}")
        print(escaped(f"  {meaning.title}; {meaning.asked}; asked as {meaning.design.name}"))
        described = meaning.question.model_dump(mode="json", by_alias=True, exclude={"name"})
        for name, value in described.items():
            if value not in ("", None, [], ()):
                print(escaped(f"  {name} = {json.dumps(value, ensure_ascii=False)}"))


app.command(
    epilog="Example: prio survey upload made/tasks.toml answers.csv --time-column visited_at"
)(upload)
app.command(
    epilog='Example: prio survey collect made/tasks.toml --config collector.toml --last "4 weeks"'
)(collect)
app.command(
    epilog="Example: prio survey results made/tasks.toml --config collector.toml --csv weekly.csv"
)(results)


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
        f"errors: 95 % intervals of the least precise figure with {survey.min_batch_size} answers; "
        "a mean's falls with more answers"
    )


def _way(way: Way) -> str:
    parameters = ", ".join(
        f"{name} {format_rational(value)}" for name, value in way.mechanism.parameters().items()
    )
    error = f"{way.shows} ± {float(way.error):.4g} {way.unit}".rstrip()
    return f"{way.design.name}, {error} ({way.mechanism.name}, {parameters})"


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
                        "shows": way.shows,
                        "unit": way.unit,
                        "error": float(way.error),
                    }
                    for way in (each.best, *each.others)
                ],
            }
            for each in planned
        ],
    }
