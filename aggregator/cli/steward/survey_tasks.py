"""The public file of a survey, as commands read it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.files import named, read_task

if TYPE_CHECKING:
    from aggregator.client.survey.asked_survey import AskedSurvey
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Meaning

TaskFile = Annotated[
    Path,
    typer.Argument(
        metavar="task.toml",
        help="The public file of the survey's task; survey.json, if it has text questions only.",
    ),
]

MaybeTaskFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[task.toml]",
        help="The public file of the survey's task (survey.json, if it has text questions only); "
        "if not given, that of the only survey of a `prio up`.",
    ),
]


def task_of_survey(file: Path) -> "tuple[Task, Meaning]":
    """Return the task of a survey, and its meaning, or raise `ParameterError`."""
    from aggregator.steward.survey import Meaning

    task = read_task(file)
    with named(file):
        return task, Meaning.of_task(task)


def survey_of(file: Path) -> "tuple[AskedSurvey, Meaning]":
    """Return a survey with its text questions, and its meaning, or raise `ParameterError`."""
    from aggregator.client.survey.asked_survey import read_survey
    from aggregator.steward.survey import Meaning

    with named(file):
        asked = read_survey(file)
        return asked, Meaning.from_json(asked.meaning)
