"""`prio survey`: checks a survey file and makes its tasks; the other commands are beside it."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import InsecureHttp, Up
from aggregator.cli.steward.survey_form import form
from aggregator.cli.steward.survey_results import collect, results
from aggregator.cli.steward.survey_tasks import TasksFile, tasks_of_survey
from aggregator.cli.steward.survey_upload import upload
from aggregator.errors import ParameterError
from aggregator.words import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.cli.local.folder import LocalFolder
    from aggregator.dap.hpke import HpkeConfig
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Meaning, PlannedQuestion, Survey, Way

app = typer.Typer(
    no_args_is_help=True, help="Ask people a survey: check it, make its tasks, upload answers."
)

SurveyFile = Annotated[Path, typer.Argument(metavar="SURVEY.toml", help="The survey file.")]


def _survey_of(file: Path, text: str) -> "Survey":
    from aggregator.cli.files import named
    from aggregator.steward.survey import survey_from_toml

    with named(file):
        return survey_from_toml(text)


@app.command(epilog="Example: prio survey check survey.toml")
def check(
    file: SurveyFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check a survey file and print how each question would be asked, and with what error."""
    from aggregator.service.config import read_text
    from aggregator.steward.survey import plan

    survey = _survey_of(file, read_text(file))
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
    out: Annotated[
        Path | None, typer.Option(help="A folder that does not exist: the files go there.")
    ] = None,
    leader: Annotated[str | None, typer.Option(help="The leader's URL.")] = None,
    helper: Annotated[str | None, typer.Option(help="The helper's URL.")] = None,
    collector_config: Annotated[
        str | None, typer.Option(help="What `prio collector config` prints at the collector's.")
    ] = None,
    insecure_http: InsecureHttp = False,
    up: Up = None,
) -> None:
    """Make the tasks of a survey: the public tasks.toml and one secret file for each party.

    Each party adds its file with `prio task add`; whoever uploads needs tasks.toml only, or
    tasks.json, which is the same for programs in any language. With the folder of a `prio up`
    instead of --out, --leader, --helper and --collector-config, all three parties add theirs here.
    """
    from aggregator.cli.local import folder as local_folder
    from aggregator.cli.service.tasks import collector_config_of, write_survey_files
    from aggregator.service.config import read_text
    from aggregator.service.transport.client import check_endpoints
    from aggregator.steward.survey import plan

    given = {
        "out": out,
        "leader": leader,
        "helper": helper,
        "collector-config": collector_config,
    }
    text = read_text(file)
    survey = _survey_of(file, text)
    if up is not None or not any(given.values()):
        if any(given.values()):
            raise ParameterError("up: stands for --out, --leader, --helper and --collector-config")
        folder = local_folder.found(up)
        if folder is None:
            raise ParameterError(
                "out: give --out, --leader, --helper and --collector-config, or --up with the "
                "folder of a `prio up`"
            )
        _ask_here(folder, survey, text)
        return
    for name, value in given.items():
        if value is None:
            raise ParameterError(f"{name}: missing")
    assert out and leader and helper and collector_config  # noqa: S101, PT018  none is missing
    config = collector_config_of(collector_config)
    planned = plan(survey)
    tasks = _tasks_of(survey, planned, config, leader, helper)
    for task in tasks:
        check_endpoints(task, insecure_http=insecure_http)
    write_survey_files(tasks, out)
    _print_plan(survey, planned)
    print(
        "wrote tasks.toml and the same as tasks.json (public), and leader.toml, helper.toml, "
        f"collector.toml (secret) to {out}",
        file=sys.stderr,
    )


def _ask_here(folder: "LocalFolder", survey: "Survey", text: str) -> None:
    """Let all three parties of one machine take part in the tasks of a survey."""
    import shlex

    from aggregator.cli.local import folder as local_folder
    from aggregator.cli.local import tasks as local_tasks
    from aggregator.cli.service.tasks import write_survey_files
    from aggregator.steward.survey import plan

    place = local_tasks.place_of(folder, survey)
    if not local_tasks.is_asked(place, text):
        planned = plan(survey)
        config = local_tasks.collector_config(folder)
        tasks = _tasks_of(survey, planned, config, folder.url("leader"), folder.url("helper"))
        place.parent.mkdir(exist_ok=True)
        write_survey_files(tasks, place, {local_tasks.SURVEY_FILE: text})
        _print_plan(survey, planned)
    # Whatever was cut short before is made up for: who has its file already changes nothing.
    local_tasks.hand_out(folder, local_tasks.files_in(place))
    public = shlex.quote(str(place / "tasks.toml"))
    print(f"leader, helper and collector take part in {public}. {local_folder.WARNING} Next:")
    if not folder.is_up:
        print(f"  prio up {shlex.quote(str(folder.path))}")
    print(f"  prio survey upload {public} answers.csv --time-column time")
    print(f'  prio survey collect {public} --last "{escaped(survey.window)}"')


def _tasks_of(
    survey: "Survey",
    planned: "Sequence[PlannedQuestion]",
    config: "HpkeConfig",
    leader: str,
    helper: str,
) -> "list[Task]":
    """Make the tasks of a survey's questions."""
    from aggregator.cli.service.tasks import make_task
    from aggregator.steward.survey import task_tables

    tables = [task_tables(survey, each) for each in planned]
    return [
        make_task(config, each.vdaf, each.privacy, leader=leader, helper=helper, **each.settings)
        for each in tables
    ]


@app.command(epilog="Example: prio survey show made/tasks.toml")
def show(
    file: TasksFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print what the tasks of a survey ask, and the fingerprints that all parties must agree on."""
    if as_json:
        print(json.dumps({"version": 1, "tasks": [*map(_shown, tasks_of_survey(file))]}))
        return
    for task, meaning in tasks_of_survey(file):
        print(f"{meaning.question.name}  {task.task_id}  fingerprint {task.fingerprint}")
        print(escaped(f"  {meaning.title}; {meaning.asked}; asked as {meaning.design.name}"))
        described = meaning.question.model_dump(mode="json", by_alias=True, exclude={"name"})
        for name, value in described.items():
            if value not in ("", None, [], ()):
                print(escaped(f"  {name} = {json.dumps(value, ensure_ascii=False)}"))


app.command(epilog="Example: prio survey form made/tasks.toml --out form.html")(form)
app.command(
    epilog="Example: prio survey upload made/tasks.toml answers.csv --time-column visited_at"
)(upload)
app.command(
    epilog='Example: prio survey collect made/tasks.toml --config collector.toml --last "4 weeks"'
)(collect)
app.command(
    epilog="Example: prio survey results made/tasks.toml --config collector.toml --csv weekly.csv"
)(results)


def _shown(asked: "tuple[Task, Meaning]") -> dict[str, object]:
    task, meaning = asked
    return {
        "task_id": str(task.task_id),
        "fingerprint": task.fingerprint,
        "meaning": json.loads(meaning.to_json()),
    }


def _print_plan(survey: "Survey", planned: "Sequence[PlannedQuestion]") -> None:
    from aggregator.dp.rationals import format_rational

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


def _way(way: "Way") -> str:
    from aggregator.dp.rationals import format_rational

    parameters = ", ".join(
        f"{name} {format_rational(value)}" for name, value in way.mechanism.parameters().items()
    )
    error = f"{way.shows} ± {float(way.error):.4g} {way.unit}".rstrip()
    return f"{way.design.name}, {error} ({way.mechanism.name}, {parameters})"


def _plan_document(survey: "Survey", planned: "Sequence[PlannedQuestion]") -> dict[str, object]:
    from aggregator.dp.rationals import format_rational

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
