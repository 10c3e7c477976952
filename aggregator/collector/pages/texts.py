"""The text questions of a collector: their groups of tasks, and of which windows all are collected.

Nothing is decoded here, and no result is read but those of the one window that is looked at.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from aggregator.codec import decode
from aggregator.collector import store
from aggregator.collector.documents import Document, collection_document
from aggregator.collector.pages.readings import SHOWN_WINDOWS, Asked, Readings
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import CollectionJobReq
from aggregator.service.storage.engine.database import Transaction
from aggregator.service.storage.engine.states import CollectionState
from aggregator.steward.text.asked import TextTasks, text_tasks_in

CostsOfTexts: TypeAlias = Mapping[str, Sequence[tuple[Asked, int]]]
"""By the meaning of a text question one of its tasks, and how many results that has."""


@dataclasses.dataclass(frozen=True)
class TextWindow:
    """An interval of which some tasks of a text question are collected.

    Attributes:
        start: Its first second.
        end: The one after its last.
        collections: By the place of the task, the id of the finished collection.
    """

    start: int
    end: int
    collections: Mapping[int, bytes]


@dataclasses.dataclass(frozen=True)
class AskedText:
    """A text question as a collector has it.

    Attributes:
        text: Its tasks.
        survey: The title of the survey that it belongs to; empty without one.
    """

    text: TextTasks
    survey: str = ""

    @property
    def meaning(self) -> str:
        """What stands for the question, hexadecimal."""
        return self.text.hashes.meaning.hex()

    @property
    def title(self) -> str:
        """What is asked, as far as its tasks say."""
        return self.text.title or "What people write"

    @property
    def path(self) -> str:
        """Where its page is."""
        return f"{self.first.path}/words"

    @cached_property
    def first(self) -> Asked:
        """The first of its tasks, whose windows and limits are those of all."""
        return Asked(self.text.tasks[0], None)

    def made(self, tx: Transaction) -> int:
        """Return how many results its tasks have, that of most."""
        return max(
            store.count_collections(tx, each.task_id.value, CollectionState.FINISHED)
            for each in self.text.tasks
        )

    def windows(self, tx: Transaction) -> list[TextWindow]:
        """Return the newest windows of which something is collected, the latest first."""
        tasks = {each.task_id.value: place for place, each in enumerate(self.text.tasks)}
        found: dict[tuple[int, int], dict[int, bytes]] = {}
        for task_id, collection_id, request in store.finished_requests(
            tx, list(tasks), SHOWN_WINDOWS * len(tasks)
        ):
            task = self.text.tasks[tasks[task_id]]
            query = decode(CollectionJobReq, request).query
            named = task.batching.named(query, task.time_precision)
            if "start" in named:  # or the leader selects: no two tasks have a batch in common
                places = found.setdefault((named["start"], named["end"]), {})
                places[tasks[task_id]] = collection_id
        newest = sorted(found.items(), reverse=True)[:SHOWN_WINDOWS]
        return [TextWindow(start, end, places) for (start, end), places in newest]

    def is_whole(self, window: TextWindow) -> bool:
        """Return whether all tasks have a result of a window."""
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
    """Return the text questions among the tasks of a collector.

    Args:
        asked: All its questions, as `Readings.asked` returns them.
    """
    tasks = {each.task.task_id: each.task for each in asked}
    surveys: dict[str, str] = {}
    for each in asked:
        if each.meaning is not None:
            surveys |= {meaning: each.survey for _, meaning in each.meaning.texts}
    return [
        AskedText(found, surveys.get(found.hashes.meaning.hex(), ""))
        for found in text_tasks_in(list(tasks.values()))
    ]


def text_of(texts: Sequence[AskedText], task_id: TaskId) -> AskedText | None:
    """Return the text question that a task belongs to, if it does to one."""
    for each in texts:
        if any(task.task_id == task_id for task in each.text.tasks):
            return each
    return None


def costs_of_texts(tx: Transaction, readings: Readings) -> CostsOfTexts:
    """Return by its meaning of each text question one task, and how many results that has.

    One that was asked again under the same title has a task more of the same place.
    """
    found: dict[str, list[tuple[Asked, int]]] = {}
    for each in texts_in(readings.asked(tx)):
        found.setdefault(each.meaning, []).append((each.first, each.made(tx)))
    return found
