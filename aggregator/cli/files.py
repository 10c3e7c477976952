"""Files that commands are given: tasks and surveys, whose faults are named with the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aggregator.config import read_text
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.protocol.task import Task, task_from_toml, tasks_from_toml


@contextmanager
def named(file: Path) -> Iterator[None]:
    """Name the file in what is wrong with what it holds."""
    try:
        yield
    except (ParameterError, ConfigurationError) as error:
        raise ParameterError(f"{file}: {error}") from error


def read_task(file: Path) -> Task:
    """Read a public task file.

    Raises:
        ParameterError: It is not one; the message names the file and the setting.
        ConfigurationError, OSError: See `read_text`.
    """
    text = read_text(file)
    with named(file):
        return task_from_toml(text)


def read_tasks(file: Path) -> list[Task]:
    """Read the public task file of a survey; raises as `read_task`."""
    text = read_text(file)
    with named(file):
        return tasks_from_toml(text)
