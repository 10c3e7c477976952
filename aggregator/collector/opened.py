"""A collector opened from its settings file: for a notebook, a script, or a schedule.

    with Collector.open("collector.toml") as collector:
        for task in collector.tasks():
            week = collector.collect(task, datetime(2026, 11, 2, tzinfo=UTC), timedelta(days=7))
            print(week.table())

It shares the store of the collector service, which may run at the same time: both see what either
has collected. `AsyncCollector` does the same for programs that use `await`.
"""

import dataclasses
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal
from typing_extensions import override

from aggregator.collector import store
from aggregator.collector.collect import CollectionError, CollectionTimeout
from aggregator.collector.documents import Document, collection_document, problem_text
from aggregator.collector.driver import Driver
from aggregator.collector.guarantee import conditions, promise
from aggregator.collector.keys import keypair_of
from aggregator.collector.requests import begin_collection
from aggregator.collector.results import Batch, Table
from aggregator.dap.ids import TaskId
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError
from aggregator.protocol.summary import paid_in_short
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import stored_task
from aggregator.service.config import CollectorSettings, read_settings_of
from aggregator.service.config.constants import WAIT_SECONDS
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.opening import open_database
from aggregator.service.transport.client import client_of
from aggregator.steward.survey import Meaning, SurveyResults
from aggregator.steward.text.text_tasks import text_tasks_in
from aggregator.written_times import counted, duration

T = TypeVar("T")

DEFAULT_WAIT = timedelta(seconds=WAIT_SECONDS)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Collected:
    """One collected batch, with the collection as the collector service shows it.

    The interval is what was asked for or, if the leader selected the batch, the reports'; its end
    is excluded.
    """

    task: Task
    start: datetime
    end: datetime
    document: Document

    @property
    def result(self) -> Mapping[str, object]:
        """The result's document."""
        result = self.document["result"]
        assert isinstance(result, dict)  # noqa: S101  only finished collections are made into this
        return result

    @property
    def promise(self) -> str:
        """What is guaranteed, in one line."""
        return promise(self.result)

    @property
    def conditions(self) -> list[tuple[str, str]]:
        """The conditions of that guarantee, each with its subject."""
        return conditions(self.result)

    @property
    def reports_between(self) -> tuple[datetime, datetime]:
        """The smallest interval that holds the reports, by the leader's word."""
        batch = self.batch()
        return _moment(batch.start), _moment(batch.end)

    @override
    def __repr__(self) -> str:
        """Show the batch and its promise."""
        reports = counted(self.batch().report_count, "report")
        return f"{self.promise}\n{self.start} to {self.end}, {reports}"

    def _repr_html_(self) -> str:
        """Return the table with the guarantee above it, for a notebook."""
        return self.table()._repr_html_()

    def batch(self) -> Batch:
        """Return the values to calculate with; for a survey's figures, use `survey`."""
        return Batch.of_document(self.task, self.document)

    def survey(self) -> SurveyResults:
        """Return the figures of a survey; a `ParameterError` if the task is of none."""
        return SurveyResults([(self.task, self.batch())], Meaning.of_task(self.task).title)

    def table(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> Table:
        """Return the batch's values with intervals; they have labels if the task is of a survey."""
        if self.task.meaning:
            return self.survey().table(by=None, confidence=confidence)
        return self.batch().table(confidence)


def survey_results(collected: Iterable[Collected]) -> SurveyResults:
    """Return what was collected of one survey, window by window, or raise `ParameterError`.

    A collection whose interval is not a window is left out: it is not a result of the survey.
    """
    found = [(each, Meaning.of_task(each.task)) for each in collected]
    kept = [
        (each, meaning)
        for each, meaning in found
        if (each.start, each.end) == meaning.window(each.start)
    ]
    kept.sort(key=lambda pair: pair[0].start)
    title = found[0][1].title if found else ""
    return SurveyResults([(each.task, each.batch()) for each, _ in kept], title)


class AsyncCollector:
    """A collector's tasks and results; `open` makes one."""

    def __init__(self, settings: CollectorSettings, database: Database) -> None:
        self._settings = settings
        self._database = database

    @classmethod
    @asynccontextmanager
    async def open(cls, config: Path | str | None = None) -> AsyncIterator[Self]:
        """Open the collector of a settings file.

        `config` is None if all settings are in the environment. Raises `ConfigurationError` if the
        settings or the store cannot be used.
        """
        settings = read_settings_of(CollectorSettings, None if config is None else Path(config))
        database = await anyio.to_thread.run_sync(partial(open_database, settings, may_make=False))
        try:
            yield cls(settings, database)
        finally:
            await anyio.to_thread.run_sync(database.close)

    @property
    def word_lists(self) -> list[Path]:
        """The operator's lists of strings for text questions, by name."""
        folder = self._settings.word_lists
        return [] if folder is None else sorted(folder.glob("*.txt"))

    async def tasks(self) -> list[Task]:
        """Return the tasks that this collector has, oldest first."""
        definitions = await self._database.read("list tasks", store.list_definitions)
        return [stored_task(each) for each in definitions]

    async def task(self, task_id: TaskId | str) -> Task:
        """Return one task; a `ParameterError` if the collector does not have it."""
        for task in await self.tasks():
            if str(task.task_id) == str(task_id):
                return task
        raise ParameterError(f"task: this collector has no task {task_id}")

    async def collect(
        self,
        task: Task,
        start: datetime,
        length: timedelta,
        *,
        wait: timedelta = DEFAULT_WAIT,
        now: bool = False,
        tell: Callable[[str | None], None] = lambda _: None,
    ) -> Collected:
        """Collect the reports of an interval, or return what was collected before.

        Args:
            task: One of `tasks`.
            start: With a time zone; a multiple of the task's time precision, like `length`.
            length: The length of the interval.
            wait: How long to wait for a batch that is not ready; a later call goes on with it.
            now: Whether to collect an interval that is not over; its later reports are refused.
            tell: Called each time the batch is not ready, with the reason if it is known.

        Raises:
            ParameterError: The interval is not whole units of the task's time.
            BatchInvalid: The interval is not over, and `now` is not set.
            CollectionTimeout: The batch was not ready in time; the message says why.
            CollectionError: The leader refused, with its own message; or the collection was given
                up.
        """
        if start.tzinfo is None:
            raise ParameterError("start: needs a time zone, such as datetime.UTC")
        named = {"start": _seconds(start), "end": _seconds(start + length)}
        return _ended(task, await self.ask(task, named, wait=wait, now=now, tell=tell), wait)

    async def collect_next(self, task: Task, *, wait: timedelta = DEFAULT_WAIT) -> Collected:
        """Collect the next batch of a task whose leader selects them; raises as `collect` does.

        If a batch was asked for before, by anyone, and is not ready yet, it is the next one.
        """
        return _ended(task, await self.ask(task, {}, wait=wait), wait)

    async def ask(
        self,
        task: Task,
        named: Mapping[str, int],
        *,
        wait: timedelta,
        now: bool = False,
        tell: Callable[[str | None], None] = lambda _: None,
    ) -> Document:
        """Ask for a batch; return its collection once that has ended or `wait` is over.

        Args:
            task: One of `tasks`.
            named: What names the batch; see `collection_request`.
            wait: How long to wait for a batch that is not ready.
            now: Whether to collect a batch that is not over.
            tell: Called each time the batch is not ready, with the reason if it is known.

        Raises:
            BatchInvalid: There is no such batch, or it is not over and `now` is not set.
        """
        stored = await begin_collection(self._database, task, named, SystemEntropy(), now=now)
        if stored.state is CollectionState.PENDING:
            keypair = await anyio.to_thread.run_sync(keypair_of, self._database)
            async with client_of(self._settings) as http:
                driver = Driver(self._database, keypair, http)
                with anyio.move_on_after(wait.total_seconds()):
                    while (pause := await driver.ask(stored.collection_id)) is not None:
                        stored = await self._stored(stored.collection_id)
                        if stored.state is not CollectionState.PENDING:
                            break  # given up meanwhile; the leader has not been told
                        tell(stored.reason)
                        await anyio.sleep(pause)
        return collection_document(task, await self._stored(stored.collection_id))

    async def _stored(self, collection_id: bytes) -> store.StoredCollection:
        stored = await self._database.read(
            "get collection", lambda tx: store.get_collection(tx, collection_id)
        )
        assert stored is not None  # noqa: S101 - no collection is ever deleted
        return stored

    async def reasons_for_waiting(self) -> list[str]:
        """Return why collections that were asked for have not ended, as far as that is known."""
        pending = await self._database.read(
            "list collections", lambda tx: store.list_collections(tx, state=CollectionState.PENDING)
        )
        return [each.reason for each in pending if each.reason]

    async def results(self, task: Task) -> list[Collected]:
        """Return everything that was collected of a task, by anyone, the earliest first."""
        stored = await self._database.read(
            "list collections",
            lambda tx: store.list_collections(
                tx, task.task_id.value, state=CollectionState.FINISHED
            ),
        )
        found = [_collected(task, collection_document(task, each)) for each in stored]
        return sorted(found, key=lambda each: (each.start, each.end))

    async def survey(self, title: str | None = None) -> SurveyResults:
        """Return everything that was collected of a survey's windows.

        Args:
            title: The survey's title; not needed if the collector has only one survey, besides
                those whose answers are made up.

        Raises:
            ParameterError: The collector has no survey of this title, or several and none is named.
        """
        tasks = [task for task in await self.tasks() if task.meaning]
        if title is None:
            tasks = [task for task in tasks if not task.is_made_up] or tasks
        titles = {task.task_id: Meaning.of_task(task).title for task in tasks}
        has = ", ".join(sorted(set(titles.values()))) or "none"
        if title is None and len(set(titles.values())) != 1:
            raise ParameterError(f"survey: must be named by its title; this collector has {has}")
        wanted = [task for task in tasks if title in (None, titles[task.task_id])]
        if not wanted:
            raise ParameterError(f"survey: there is no {title!r}; this collector has {has}")
        found = [each for task in wanted for each in await self.results(task)]
        return dataclasses.replace(
            survey_results(found), paid=_paid(wanted[-1], await self.tasks())
        )


class Collector:
    """An `AsyncCollector` for programs that do not use `await`; it works in a thread of its own."""

    def __init__(self, collector: AsyncCollector, portal: BlockingPortal) -> None:
        self._collector = collector
        self._portal = portal
        self._is_open = True

    @classmethod
    @contextmanager
    def open(cls, config: Path | str | None = None) -> Iterator[Self]:
        """Open the collector of a settings file; see `AsyncCollector.open`."""
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(AsyncCollector.open(config)) as collector,
        ):
            opened = cls(collector, portal)
            try:
                yield opened
            finally:
                opened._is_open = False

    def _call(self, work: Callable[..., Awaitable[T]], *arguments: object) -> T:
        if not self._is_open:
            raise ParameterError("collector: it is closed; ask it inside its `with` block")
        return self._portal.call(work, *arguments)

    @property
    def word_lists(self) -> list[Path]:
        """The operator's lists of strings for text questions, by name."""
        return self._collector.word_lists

    def tasks(self) -> list[Task]:
        """Return the tasks that this collector has, oldest first."""
        return self._call(self._collector.tasks)

    def task(self, task_id: TaskId | str) -> Task:
        """Return one task; see `AsyncCollector.task`."""
        return self._call(self._collector.task, task_id)

    def collect(
        self,
        task: Task,
        start: datetime,
        length: timedelta,
        *,
        wait: timedelta = DEFAULT_WAIT,
        now: bool = False,
    ) -> Collected:
        """Collect the reports of an interval; see `AsyncCollector.collect`."""
        collect = partial(self._collector.collect, task, start, length, wait=wait, now=now)
        return self._call(collect)

    def collect_next(self, task: Task, *, wait: timedelta = DEFAULT_WAIT) -> Collected:
        """Collect the next batch that the leader has; see `AsyncCollector.collect_next`."""
        return self._call(partial(self._collector.collect_next, task, wait=wait))

    def results(self, task: Task) -> list[Collected]:
        """Return everything that was collected of a task; see `AsyncCollector.results`."""
        return self._call(self._collector.results, task)

    def survey(self, title: str | None = None) -> SurveyResults:
        """Return everything that was collected of a survey; see `AsyncCollector.survey`."""
        return self._call(self._collector.survey, title)


def _paid(task: Task, tasks: Sequence[Task]) -> str:
    """Return what a person pays for a survey, with its text questions among a collector's tasks."""
    wanted = {meaning for _, meaning in Meaning.of_task(task).texts}
    texts = {each.hashes.meaning.hex(): each.tasks[0] for each in text_tasks_in(tasks)}
    known = [texts[meaning] for meaning in sorted(wanted & texts.keys())]
    return paid_in_short(task, known, is_all=len(known) == len(wanted))


def _ended(task: Task, document: Document, wait: timedelta) -> Collected:
    match document["state"]:
        case CollectionState.FINISHED:
            return _collected(task, document)
        case CollectionState.FAILED | CollectionState.ABANDONED:
            raise CollectionError(problem_text(document["problem"]))
        case _:
            why = f": {document['reason']}" if document["reason"] else ""
            seconds = duration(wait.total_seconds())
            raise CollectionTimeout(f"the batch was not ready in {seconds}{why}")


def _collected(task: Task, document: Document) -> Collected:
    batch = Batch.of_document(task, document)
    asked = document["query"]
    assert isinstance(asked, dict)  # noqa: S101  names a batch; empty if the leader selects
    start, end = asked.get("start", batch.start), asked.get("end", batch.end)
    return Collected(task, _moment(start), _moment(end), document)


def _seconds(moment: datetime) -> int:
    seconds = moment.timestamp()
    if seconds != int(seconds):
        raise ParameterError(f"start: must be a whole second, not {moment}")
    return int(seconds)


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
