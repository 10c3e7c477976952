"""Text questions beside a survey's file, to whose list reports are bound.

Their folders lie in the folder `text` beside the survey's file, by name, and hold a description and
tasks. The survey's task binds the list, or, if there are text questions only, each of their tasks
does. This stops anyone who hands out files from leaving a question out, adding one, or giving one
tasks whose two aggregators are the same party.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from aggregator.client.text import DESCRIPTION, TEXTS
from aggregator.client.text.question import TextQuestion, question_of_json, read_described
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task

AskedTexts = Mapping[str, tuple[TextQuestion, Sequence[Task]]]
"""Each question with its tasks, by name."""

_SAME = (
    *("leader", "helper", "time_precision", "profile"),
    *("window", "population", "max_releases", "interval"),
)


def texts_beside(
    file: Path, task: Task | None, named: Mapping[str, str], survey: str = ""
) -> AskedTexts:
    """Return the text questions whose files lie beside that of a survey.

    Args:
        file: The survey's public file.
        task: Its task, if it has one.
        named: As in `check_bound`.
        survey: As in `check_bound`.

    Raises:
        ParameterError: The files of a question do not belong together, or not to the survey.
        OSError: A file cannot be read.
    """
    folder = file.parent / TEXTS
    places = sorted(folder.iterdir()) if folder.is_dir() else []
    found = {
        place.name: read_described(
            place, DESCRIPTION, question_of_json, f"text question {place.name}"
        )
        for place in places
    }
    check_bound(task, named, found, survey)
    return found


def check_bound(
    task: Task | None, named: Mapping[str, str], texts: AskedTexts, survey: str = ""
) -> None:
    """Refuse text questions that are not those of a survey, or have other settings than its task.

    Without a task they must have the same settings as each other.

    Args:
        task: The survey's task, if it has one.
        named: The text questions that the survey's meaning names, each with its own `meaning`.
        texts: Those that were found.
        survey: The meaning of a survey without a task, to which each of their tasks is bound.
    """
    for name in sorted(named.keys() ^ texts.keys()):
        raise ParameterError(
            f"text question {name}: the survey has it, and its files are missing"
            if name in named
            else f"text question {name}: the survey has no such question"
        )
    for name, (question, tasks) in texts.items():
        if question.meaning.hex() != named[name] or question.survey != survey:
            raise ParameterError(f"text question {name}: is another one than the survey's")
        first = next(iter(texts.values()))[1][0] if task is None else task
        # All other tasks of the question have the settings of the first.
        for setting, ours, surveys in zip(
            _SAME, _settings(tasks[0]), _settings(first), strict=True
        ):
            if ours != surveys:
                raise ParameterError(
                    f"text question {name}: its tasks have another {setting} than the survey's"
                )
        least = 1 if task is None else smallest_batch(task.min_batch_size, question.tasks)
        if tasks[0].min_batch_size < least:
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
        task.interval,
    )
