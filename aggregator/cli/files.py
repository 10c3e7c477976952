"""Files that commands are given, tasks and surveys; their errors name the file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.errors import ConfigurationError, ParameterError
from aggregator.untrusted_text import meant

if TYPE_CHECKING:
    from aggregator.protocol.task import Task


@contextmanager
def named(file: Path) -> Iterator[None]:
    """Name the file in errors about its contents."""
    try:
        yield
    except (ParameterError, ConfigurationError) as error:
        raise ParameterError(f"{file}: {error}") from error


def read_tasks(file: Path) -> "list[Task]":
    """Read a public task file, of one task or of several.

    If it is not a task file, a `ParameterError` names the file and the setting; see also
    `read_text`.
    """
    from aggregator.protocol.task_file import tasks_from_toml
    from aggregator.service.config import read_text

    text = read_text(file)
    with named(file):
        return tasks_from_toml(text)


def read_task(file: Path, which: str | None = None) -> "Task":
    """Read one task of a public task file; raises what `read_tasks` does.

    If there are several, `which` is the title of a survey, or a task id. If no task or several
    match, a `ParameterError` lists the tasks.
    """
    tasks = read_tasks(file)
    with named(file):
        return chosen(tasks, which)


def chosen(tasks: "Sequence[Task]", which: str | None) -> "Task":
    """Return the task that is named; see `read_task`."""
    if which is None and len(tasks) == 1:
        return tasks[0]
    names = [name_of(task) for task in tasks]
    if which is None:
        raise ParameterError(f"holds {len(tasks)} tasks; name one by --which: {_listed(names)}")
    found = [
        task for task, name in zip(tasks, names, strict=True) if which in (name, str(task.task_id))
    ]
    if not found:
        raise ParameterError(f"has no task {which!r}; it has {_listed(names)}{meant(which, names)}")
    if len(found) > 1:
        ids = _listed([str(task.task_id) for task in found])
        raise ParameterError(f"has {len(found)} tasks {which!r}; give one's id: {ids}")
    return found[0]


def name_of(task: "Task") -> str:
    """Return the title of a task's survey, or the task's id if it has no survey."""
    if not task.meaning:
        return str(task.task_id)
    from aggregator.steward.survey import Meaning

    return Meaning.of_task(task).title


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
