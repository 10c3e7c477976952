"""The folder of a text question, as its commands read it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.files import named, read_tasks

if TYPE_CHECKING:
    from aggregator.protocol.task import Task
    from aggregator.steward.text.question import TextQuestion

DESCRIPTION = "text.json"
TASKS = "tasks.toml"
TASKS_OF_PAGES = "tasks.json"

QuestionFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help=f"What `prio text tasks` made; of its files {DESCRIPTION} and {TASKS} are needed.",
    ),
]


def read_question(folder: Path) -> "tuple[TextQuestion, list[Task]]":
    """Return the question of a folder and its tasks, each checked against the other.

    Raises:
        ParameterError: They do not belong together.
    """
    from aggregator.service.config import read_text
    from aggregator.steward.text.question import question_of_json

    tasks = read_tasks(folder / TASKS)
    text = read_text(folder / DESCRIPTION)
    with named(folder):
        return question_of_json(text, tasks), tasks
