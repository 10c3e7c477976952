"""The text questions of a collector: their groups of tasks, and which windows are collected.

Nothing is decoded here, and only the results of the window that is shown are read.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from aggregator.codec import decode
from aggregator.collector import store
from aggregator.collector.documents import Document, collection_document
from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.readings import SHOWN_WINDOWS, Readings
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import CollectionJobReq
from aggregator.dp.group import Group
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.steward.text.text_tasks import TextTasks, is_of_letters, text_tasks_in

CostsOfTexts: TypeAlias = Mapping[str, Sequence[tuple[Asked, int]]]
"""For each text question, by meaning: its tasks of one place, each with its number of results."""


@dataclasses.dataclass(frozen=True)
class TextWindow:
    """An interval of which some tasks of a text question are collected.

    `end` is the second after its last; collections are by the places of their tasks.
    """

    start: int
    end: int
    collections: Mapping[int, bytes]


@dataclasses.dataclass(frozen=True)
class AskedText:
    """A text question as a collector has it.

    Attributes:
        text: Its tasks.
        first: The first of them; all have its windows and limits.
        survey: The title of its survey, empty without one.
    """

    text: TextTasks
    first: Asked
    survey: str = ""

    @property
    def meaning(self) -> str:
        """The digest of the question, hexadecimal."""
        return self.text.hashes.meaning.hex()

    @property
    def title(self) -> str:
        """The question, as far as its tasks name it."""
        return self.text.title or "What people write"

    @property
    def path(self) -> str:
        """Where its page is."""
        return f"{self.first.path}/words"

    def made(self, tx: Transaction) -> int:
        """Return the largest number of results that one of its tasks has."""
        return max(_made(tx, each) for each in self.text.tasks)

    def windows(self, tx: Transaction) -> list[TextWindow]:
        """Return the newest windows that are at least partly collected, the latest first."""
        tasks = {each.task_id.value: place for place, each in enumerate(self.text.tasks)}
        found: dict[tuple[int, int], dict[int, bytes]] = {}
        for task_id, collection_id, request in store.finished_requests(
            tx, list(tasks), SHOWN_WINDOWS * len(tasks)
        ):
            task = self.text.tasks[tasks[task_id]]
            query = decode(CollectionJobReq, request).query
            named = task.batching.named(query, task.time_precision)
            if "start" in named:  # else the leader selects, and tasks have no batch in common
                places = found.setdefault((named["start"], named["end"]), {})
                places[tasks[task_id]] = collection_id
        newest = sorted(found.items(), reverse=True)[:SHOWN_WINDOWS]
        return [TextWindow(start, end, places) for (start, end), places in newest]

    def is_whole(self, window: TextWindow) -> bool:
        """Return whether all tasks have a result for a window."""
        return len(window.collections) == len(self.text.tasks)

    def documents(self, tx: Transaction, window: TextWindow) -> list[Document]:
        """Return the collections of a whole window, in the order of the tasks."""
        found = []
        for place, task in enumerate(self.text.tasks):
            stored = store.get_collection(tx, window.collections[place])
            assert stored is not None  # noqa: S101  no collection is ever deleted
            found.append(collection_document(task, stored))
        return found


def texts_in(asked: Sequence[Asked]) -> list[AskedText]:
    """Return the text questions among all that a collector asks."""
    tasks = {each.task.task_id: each for each in asked}
    surveys: dict[str, str] = {}
    for each in asked:
        if each.meaning is not None:
            surveys |= {meaning: each.survey for _, meaning in each.meaning.texts}
    return [
        AskedText(found, tasks[found.tasks[0].task_id], surveys.get(found.hashes.meaning.hex(), ""))
        for found in text_tasks_in([each.task for each in tasks.values()])
    ]


def text_of(texts: Sequence[AskedText], task_id: TaskId) -> AskedText | None:
    """Return the text question that a task belongs to, if any."""
    for each in texts:
        if any(task.task_id == task_id for task in each.text.tasks):
            return each
    return None


def costs_of_texts(tx: Transaction, readings: Readings) -> CostsOfTexts:
    """Return, for each text question by meaning, its tasks of one place and their results.

    A question has several tasks in one place if it was asked again under the same title, or if
    letters of it were asked for in some window.
    """
    found: dict[str, list[tuple[Asked, int]]] = {}
    asked = readings.asked(tx)
    for each in texts_in(asked):
        found.setdefault(each.meaning, []).append((each.first, each.made(tx)))
    for meaning, tasks in _letters_in(asked):
        if meaning in found:
            made = max(_made(tx, task) for task in tasks)
            found[meaning].append((Asked(tasks[0], None), made))
    return found


def _letters_in(asked: Sequence[Asked]) -> list[tuple[str, list[Task]]]:
    """Return the tasks of each spelling, with the meaning of its question.

    Each spelling has one task in a place; the order in which the collector got them tells which.
    """
    found: dict[tuple[str, int], list[Task]] = {}
    seen = Counter[Group]()
    for task in {each.task.task_id: each.task for each in asked}.values():
        group = task.policy.group
        if group is not None and is_of_letters(task):
            seen[group] += 1
            found.setdefault((group.name, seen[group]), []).append(task)
    return [(meaning, tasks) for (meaning, _), tasks in found.items()]


def _made(tx: Transaction, task: Task) -> int:
    return store.count_collections(tx, task.task_id.value, CollectionState.FINISHED)
