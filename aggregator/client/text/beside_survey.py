"""Text questions beside a survey's task, whose reports are each bound to the list of them.

Their folders lie in the folder `text` beside the survey's file, by name, and hold a description and
tasks. The binding stops anyone who hands out files from leaving a question out, adding one, or
giving one tasks whose two aggregators are the same party.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from aggregator.client.text import DESCRIPTION, TEXTS
from aggregator.client.text.question import TextQuestion, question_of_json, read_described
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task

AskedTexts = Mapping[str, tuple[TextQuestion, Sequence[Task]]]
"""Each question with its tasks, by name."""

_SAME = ("leader", "helper", "time_precision", "profile", "window", "population", "max_releases")


def texts_beside(task_file: Path, task: Task, named: Mapping[str, str]) -> AskedTexts:
    """Return the text questions whose files lie beside that of a survey's task.

    Args:
        task_file: The survey's public file.
        task: Its task.
        named: As `check_bound`.

    Raises:
        ParameterError: The files of a question do not belong together, or not to the survey.
        OSError: A file cannot be read.
    """
    folder = task_file.parent / TEXTS
    places = sorted(folder.iterdir()) if folder.is_dir() else []
    found = {
        place.name: read_described(
            place, DESCRIPTION, question_of_json, f"text question {place.name}"
        )
        for place in places
    }
    check_bound(task, named, found)
    return found


def check_bound(task: Task, named: Mapping[str, str], texts: AskedTexts) -> None:
    """Refuse text questions that are not those of a survey's task, or have other settings.

    Those that its meaning names come each with its own `meaning`.
    """
    for name in sorted(named.keys() ^ texts.keys()):
        raise ParameterError(
            f"text question {name}: the survey has it, and its files are missing"
            if name in named
            else f"text question {name}: the survey has no such question"
        )
    for name, (question, tasks) in texts.items():
        if question.meaning.hex() != named[name]:
            raise ParameterError(f"text question {name}: is another one than the survey's")
        # All other tasks of the question have the settings of the first.
        for setting, ours, surveys in zip(_SAME, _settings(tasks[0]), _settings(task), strict=True):
            if ours != surveys:
                raise ParameterError(
                    f"text question {name}: its tasks have another {setting} than the survey's"
                )
        if tasks[0].min_batch_size < smallest_batch(task.min_batch_size, question.tasks):
            raise ParameterError(
                f"text question {name}: its tasks have a smaller min_batch_size than the survey's "
                "would have them"
            )


def smallest_batch(of_survey: int, tasks: int) -> int:
    """Return the `min_batch_size` of each task of a text question.

    About one in `tasks` people toss for each task; chance varies the number.
    """
    return max(1, of_survey // (2 * tasks))


def _settings(task: Task) -> tuple[object, ...]:
    """Return the settings that all tasks of a survey share, in the order of `_SAME`."""
    configuration, policy = task.configuration, task.policy
    return (
        configuration.leader_aggregator_endpoint,
        configuration.helper_aggregator_endpoint,
        configuration.time_precision,
        task.profile,
        policy.window,
        policy.population,
        policy.max_releases,
    )
