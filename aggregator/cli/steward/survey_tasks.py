"""The public file of a survey, as commands read it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.files import named
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.client.survey.asked_survey import AskedSurvey
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


Spelled = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FOLDER",
        help="What `prio survey spell` made of a text question: in that window letters are asked "
        "for. Repeatable.",
    ),
]


def survey_of(file: Path) -> "tuple[AskedSurvey, Meaning]":
    """Return a survey with its text questions, and its meaning, or raise `ParameterError`."""
    from aggregator.client.survey.asked_survey import survey_in
    from aggregator.service.config import read_text
    from aggregator.steward.survey import Meaning

    text = read_text(file)
    with named(file):
        asked = survey_in(text, file)
        return asked, Meaning.from_json(asked.meaning)


def answerable(file: Path) -> "tuple[AskedSurvey, Meaning]":
    """Return a survey to which people may answer, or raise `ParameterError` for a rehearsal."""
    asked, meaning = survey_of(file)
    if asked.first.is_made_up:
        raise ParameterError(f"{file}: its answers are made up, and nobody else answers it")
    return asked, meaning
