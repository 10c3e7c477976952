"""The folder of a text question, as commands read it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.files import named, read_tasks
from aggregator.client.text import DESCRIPTION, SPELLING, TASKS, TASKS_OF_PAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aggregator.client.text.beside_survey import AskedTexts
    from aggregator.client.text.question import TextQuestion
    from aggregator.client.text.spelling import Spelling
    from aggregator.protocol.task import Task

QuestionFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help=f"What `prio text tasks` or `prio text spell` made; of its files {DESCRIPTION}, or "
        f"{SPELLING}, and {TASKS} are needed.",
    ),
]


def public_files(
    question: "TextQuestion | Spelling", tasks: "Sequence[Task]", description: str = DESCRIPTION
) -> dict[str, str]:
    """Return the public files of a question or a spelling, by name."""
    from aggregator.protocol.task_file import task_for_clients, tasks_to_toml

    return {
        TASKS: tasks_to_toml(tasks),
        TASKS_OF_PAGES: json.dumps([task_for_clients(each) for each in tasks]) + "\n",
        description: question.to_json(tasks),
    }


def texts_of(task_file: Path) -> "AskedTexts":
    """Return a survey's text questions by name, from the folder beside its task.

    Raises `ParameterError` if a question's files do not belong together, or not to the survey.
    """
    from aggregator.cli.steward.survey_tasks import task_of_survey
    from aggregator.client.text.beside_survey import texts_beside

    task, meaning = task_of_survey(task_file)
    return texts_beside(task_file, task, dict(meaning.texts))


def strings_in(lists: "Iterable[Path]") -> list[str]:
    """Return the candidates in some files, one on each line, or raise `ConfigurationError`."""
    from aggregator.service.config import read_text

    return [line for file in lists for line in read_text(file).splitlines()]


def read_asked(folder: Path) -> "tuple[TextQuestion | Spelling, list[Task]]":
    """Return the question or spelling in a folder, and its tasks, or raise `ParameterError`."""
    from aggregator.client.text.spelling import spelling_of_json
    from aggregator.service.config import read_text

    if not (folder / SPELLING).exists():
        return read_question(folder)
    tasks = read_tasks(folder / TASKS)
    text = read_text(folder / SPELLING)
    with named(folder):
        return spelling_of_json(text, tasks), tasks


def read_question(folder: Path) -> "tuple[TextQuestion, list[Task]]":
    """Return the question in a folder and its tasks, checked against each other.

    Raises `ParameterError` if they do not belong together.
    """
    from aggregator.client.text.question import question_of_json
    from aggregator.service.config import read_text

    tasks = read_tasks(folder / TASKS)
    text = read_text(folder / DESCRIPTION)
    with named(folder):
        return question_of_json(text, tasks), tasks
