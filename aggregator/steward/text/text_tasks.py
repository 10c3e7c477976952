"""The text questions among a party's tasks: each is a complete group of histograms.

A collector has tasks but no description (`text.json`), and needs none: the group's name is the
question's `meaning`, on which fingerprints and keys depend, and each task states its place. Both
are bound into every report with the policy.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from aggregator.client.text.hashing import FEWEST_TASKS, TextHashes
from aggregator.client.text.levels import Told, length_of, told_in, without_told
from aggregator.client.text.spelling import SPELLED
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.errors import ParameterError
from aggregator.protocol.summary import guarantee_in_short
from aggregator.protocol.task import Task
from aggregator.steward.text.released import released_tables

_MEANING = re.compile("[0-9a-f]{64}")
"""What the group of a text question's tasks is called."""


@dataclasses.dataclass(frozen=True, slots=True)
class TextTasks:
    """A text question, read from its tasks, which are in the order of their places.

    `told` is what people tell beside a string, if they are asked for anything.
    """

    tasks: tuple[Task, ...]
    hashes: TextHashes
    told: Told | None = None

    @classmethod
    def of(cls, tasks: Iterable[Task]) -> "TextTasks":
        """Return the one text question that these tasks make up, in any order.

        Raises `ParameterError` if the tasks do not make up one text question.
        """
        given = list(tasks)
        found = text_tasks_in(given)
        if len(found) != 1 or len(found[0].tasks) != len(given):
            raise ParameterError(
                f"tasks: these {len(given)} are not those of one text question, each place once"
            )
        return found[0]

    @property
    def title(self) -> str:
        """What the tasks are for, in the words of their `task_info`."""
        return without_told(self.tasks[0].title)

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of each task, and so of a person, who is in one task."""
        mechanism = self.tasks[0].policy.mechanism
        assert isinstance(mechanism, PureDpDiscreteLaplace)  # noqa: S101  as `text_tasks_in` says
        return mechanism.epsilon

    @property
    def guarantee(self) -> str:
        """What people are promised, in a few words."""
        return guarantee_in_short(self.tasks[0])

    def tables(self, documents: Iterable[object]) -> npt.NDArray[np.int64]:
        """Return each task's released histogram of one window as a row; see `released_tables`."""
        return released_tables(self.tasks, documents)


def is_of_letters(task: Task) -> bool:
    """Return whether a task belongs to a spelling."""
    return task.policy.group is not None and task.title.startswith(SPELLED)


def text_tasks_in(tasks: Sequence[Task]) -> list[TextTasks]:
    """Return the text questions among some tasks, in the order of their first tasks.

    A question that is asked again has new tasks with the same places: the first tasks of all places
    belong together, and so do the second. A question with a missing place is left out, and so are
    the tasks of a spelling, which have no hashes.
    """
    rounds: dict[tuple[str, int, Told | None, int], dict[int, Task]] = {}
    seen: dict[tuple[str, int], int] = {}
    for task in tasks:
        group, circuit = task.policy.group, task.prio3.circuit
        if (
            group is None
            or not _MEANING.fullmatch(group.name)
            or is_of_letters(task)
            or circuit.name != "Histogram"
            or not isinstance(task.policy.mechanism, PureDpDiscreteLaplace)
        ):
            continue
        place = group.name, group.place
        seen[place] = seen.get(place, 0) + 1
        key = group.name, circuit.output_len, told_in(task.title), seen[place]
        rounds.setdefault(key, {})[group.place] = task
    found = []
    for (meaning, entries, told, _), places in rounds.items():
        if len(places) < FEWEST_TASKS or max(places) != len(places) - 1:
            continue
        length = entries if told is None else length_of(entries, told.levels)
        try:
            hashes = TextHashes(bytes.fromhex(meaning), len(places), length)
        except ParameterError:
            continue  # too few or too many buckets for a text question
        of_question = tuple(task for _, task in sorted(places.items()))
        found.append(TextTasks(of_question, hashes, told))
    return found
