"""Whether a spelling fits its question: the same windows, noise and aggregators.

In a window a client sends one report, to the question or to its spelling. With shorter windows, a
spelling would get several reports from one person in one window of the question. With other noise,
nobody could tell what a person pays.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from aggregator.client.text import SPELLING
from aggregator.client.text.question import read_described
from aggregator.client.text.spelling import Spelling, spelling_of_json
from aggregator.dap.times import Interval
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_table

_OWN = ("id", "task_info", "interval")
"""The settings in which the tasks of a spelling differ from those of its question."""


@dataclasses.dataclass(frozen=True)
class SpelledWindow:
    """A spelling and its tasks, which are asked instead of the question's for some time.

    Attributes:
        spelling: What is asked.
        tasks: Its tasks, by place.
    """

    spelling: Spelling
    tasks: Sequence[Task]

    def holds(self, seconds: int) -> bool:
        """Return whether reports of this time are for the spelling."""
        interval, unit = self.tasks[0].interval, self.tasks[0].time(seconds).units
        return interval is not None and interval.start.units <= unit < interval.end.units

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse a spelling that does not fit the tasks of its question.

        It must have their settings, and be asked for whole windows.
        """
        ours, theirs = (_settings(each[0]) for each in (self.tasks, tasks))
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                raise ParameterError(
                    f"{name}: the tasks of the spelling have another than the question's"
                )
        window, interval = self.tasks[0].policy.window, self.tasks[0].interval
        assert window is not None  # noqa: S101  as `Spelling.check` has seen
        of_question = tasks[0].interval
        if interval and of_question and not _is_within(interval, of_question):
            raise ParameterError(
                "interval: its tasks must take reports of a window in which the question is asked"
            )
        if interval is None or any(
            window.first_unit(each.units) != each.units for each in (interval.start, interval.end)
        ):
            raise ParameterError(
                "interval: its tasks must take reports of whole windows of the question only, "
                "which `prio survey spell` makes"
            )

    def meets(self, other: "SpelledWindow") -> bool:
        """Return whether some time belongs to both."""
        one, two = self.tasks[0].interval, other.tasks[0].interval
        assert one is not None  # noqa: S101  as `check` has seen
        assert two is not None  # noqa: S101  as `check` has seen
        return one.start.units < two.end.units and two.start.units < one.end.units


def read_spelling(folder: Path) -> tuple[Spelling, list[Task]]:
    """Return the spelling in a folder that `prio survey spell` made, and its tasks.

    Raises `ParameterError` if its files do not belong together, OSError if one cannot be read.
    """
    return read_described(folder, SPELLING, spelling_of_json, str(folder))


def _is_within(interval: Interval, other: Interval) -> bool:
    return other.start <= interval.start and interval.end <= other.end


def _settings(task: Task) -> Mapping[str, object]:
    """Return the settings that must be the same for both; those of the policy are not nested."""
    table = {name: each for name, each in task_to_table(task).items() if name not in _OWN}
    privacy = table.pop("privacy")
    assert isinstance(privacy, dict)  # noqa: S101  what a task file has
    return table | privacy
