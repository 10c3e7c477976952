"""The public file of a survey's tasks, as its commands read it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.files import read_tasks
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Meaning

TasksFile = Annotated[
    Path,
    typer.Argument(metavar="tasks.toml", help="The public file of all tasks of the survey."),
]

MaybeTasksFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[tasks.toml]",
        help="The public file of all tasks of the survey; if not given, that of the one survey of "
        "a `prio up`.",
    ),
]


def tasks_of_survey(file: Path) -> "list[tuple[Task, Meaning]]":
    """Return the tasks of a survey with what they mean.

    Raises:
        ParameterError: A task is of no survey, or of another than the first.
    """
    from aggregator.steward.survey import Meaning

    tasks = read_tasks(file)
    found = [(task, Meaning.of_task(task)) for task in tasks]
    first = found[0][1]
    for task, meaning in found:
        if (meaning.title, meaning.windows) != (first.title, first.windows):
            raise ParameterError(f"task {task.task_id}: is of another survey than the first")
    return found
