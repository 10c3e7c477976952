"""Collects the windows of surveys as they become ready, and tells a webhook of each.

A window is asked for once, after its end and the grace for late answers, in all tasks of the survey
together: what is collected of one of them is closed in all, so answers to a text question that
nobody asked for then would be lost. If it fails, only a person asks for it again. Windows that
ended while the service was not running are caught up with. The webhook learns that a collection of
the survey's own task ended and where to look, never a value.
"""

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import anyio
import httpx

from aggregator.clock import Clock
from aggregator.collector import store
from aggregator.collector.documents import Document
from aggregator.collector.driver import Driver
from aggregator.collector.requests import new_collection
from aggregator.collector.results.result import collection_request
from aggregator.collector.store import StoredCollection
from aggregator.entropy import Entropy
from aggregator.errors import AggregatorError, ParameterError
from aggregator.protocol.answers_so_far import is_place_beside
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.config import Schedule
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.telemetry.lines import log
from aggregator.steward.survey import Meaning
from aggregator.steward.text.text_tasks import is_of_letters

LOOK_SECONDS = 60
"""How often windows are looked for."""

WEBHOOK_SECONDS = 10
"""How long a webhook may take to answer, even if its answer trickles in."""

_MOST_WINDOWS = 200
"""The most windows of one task that are caught up with in one look."""

_FIRST_RETRY_SECONDS = 60
_LAST_RETRY_SECONDS = 3600
_GIVE_UP = timedelta(days=1)


@dataclasses.dataclass(frozen=True, slots=True)
class _Scheduled:
    """A scheduled survey: its own task, and those of its text questions and their letters."""

    task: Task
    texts: tuple[Task, ...]
    meaning: Meaning
    schedule: Schedule

    @property
    def asked(self) -> Iterator[tuple[Task, tuple[Task, ...]]]:
        """Its tasks, each with those of letters that people are asked for in its place."""
        letters = tuple(each for each in self.texts if is_of_letters(each))
        yield self.task, ()
        for each in self.texts:
            instead = () if is_of_letters(each) else letters
            yield each, tuple(one for one in instead if is_place_beside(one, each))


class Scheduler:
    """Asks for windows that are over by the clock, and tells webhooks.

    The caller runs the driver, which is woken when a collection is added.
    """

    def __init__(
        self,
        database: Database,
        driver: Driver,
        schedules: Sequence[Schedule],
        http: httpx.AsyncClient,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._database = database
        self._driver = driver
        self._schedules = {schedule.survey: schedule for schedule in schedules}
        self._http = http
        self._clock = clock
        self._entropy = entropy
        self._retries: dict[bytes, tuple[int, float]] = {}
        """For collections whose webhook did not answer: how often, and when to tell it again."""
        self._requested: set[tuple[bytes, int, int]] = set()
        """Windows that were asked for before: a task, when it was added, the window's start."""

    async def run(self, stop: anyio.Event) -> None:
        """Look for windows until `stop` is set."""
        while not stop.is_set():
            try:
                await self.step()
            except AggregatorError as error:
                log.exception("the schedule cannot go on yet", reason=str(error))
            with anyio.move_on_after(LOOK_SECONDS):
                await stop.wait()

    async def step(self) -> None:
        """Ask for every window that is due, and tell webhooks of what has ended."""
        if await self._database.run("ask for windows", self._ask):
            self._driver.wake()
        ended = await self._database.read("list ended", self._ended)
        silent: set[str] = set()  # webhooks that did not answer: skipped for the rest of this look
        for schedule, meaning, stored in ended:
            if schedule.survey not in silent and not await self._tell(schedule, meaning, stored):
                silent.add(schedule.survey)

    def _ask(self, tx: Transaction) -> int:
        """Store a collection for each window that is due; return how many."""
        asked = {
            task.task_id: (task, letters, each)
            for each in self._surveys(tx)
            for task, letters in each.asked
        }
        return sum(self._ask_for(tx, *each) for each in asked.values())

    def _ask_for(
        self, tx: Transaction, task: Task, letters: Sequence[Task], survey: _Scheduled
    ) -> int:
        """Store a collection for each window of a task that is due; return how many.

        Those in which people are asked for `letters` are left to these: a person pays for one.
        """
        added, looked, windows = 0, 0, survey.meaning.windows
        added_at = store.task_added_at(tx, task.task_id.value)
        length = timedelta(seconds=windows.seconds)
        due = self._clock.now() - survey.schedule.grace_seconds
        start = windows.last(datetime.fromtimestamp(due, UTC))
        if task.closes is not None:
            start = min(start, datetime.fromtimestamp(task.closes, UTC) - length)
        first = windows.start(datetime.fromtimestamp(max(added_at, task.opens), UTC))
        while start >= first and looked < _MOST_WINDOWS:
            seconds = int(start.timestamp())
            key = task.task_id.value, added_at, seconds
            if key not in self._requested and not any(_holds(each, seconds) for each in letters):
                named = {"start": seconds, "end": int((start + length).timestamp())}
                new = new_collection(task, collection_request(task, named), self._entropy)
                if store.is_requested(tx, task.task_id.value, new.request):
                    self._requested.add(key)
                else:
                    store.put_collection(tx, new)
                    added += 1
            start -= length
            looked += 1
        return added

    def _surveys(self, tx: Transaction) -> list[_Scheduled]:
        """Return the scheduled surveys that have a task of their own."""
        tasks, found = [], []
        for definition in store.list_definitions(tx):
            try:
                tasks.append(task_from_toml(definition))
            except ParameterError:
                continue  # unreadable
        for task in tasks:
            try:
                meaning = Meaning.of_task(task)
            except ParameterError:
                continue  # not of a survey
            schedule = self._schedules.get(meaning.title)
            if schedule is not None:
                names = {name for _, name in meaning.texts}
                texts = tuple(
                    each
                    for each in tasks
                    if each.policy.group is not None
                    and each.policy.group.name in names
                    and _is_within(each, task)
                )
                found.append(_Scheduled(task, texts, meaning, schedule))
        return found

    def _ended(self, tx: Transaction) -> list[tuple[Schedule, Meaning, StoredCollection]]:
        """Return collections that have ended and that no webhook has been told of."""
        return [
            (each.schedule, each.meaning, stored)
            for each in self._surveys(tx)
            if each.schedule.webhook is not None
            for stored in store.list_unannounced_collections(tx, each.task.task_id.value)
        ]

    async def _tell(self, schedule: Schedule, meaning: Meaning, stored: StoredCollection) -> bool:
        """Post to the webhook; retry for a day if it does not answer with success.

        Returns whether it may be told of other collections now.
        """
        assert schedule.webhook is not None  # noqa: S101  `_ended` returns no others
        identifier, now = stored.collection_id, self._clock.now()
        tries, due_at = self._retries.get(identifier, (0, -math.inf))
        if now < due_at:
            return True
        trouble = await self._post(schedule, _event(meaning, stored))
        ended_at = now if stored.ended_at is None else stored.ended_at
        if trouble and now - ended_at < _GIVE_UP.total_seconds():
            wait = min(_FIRST_RETRY_SECONDS * 2**tries, _LAST_RETRY_SECONDS)
            self._retries[identifier] = tries + 1, now + wait
            log.warning("the webhook did not answer", reason=trouble, next_in=f"{wait}s")
            return False
        if trouble:
            log.error("the webhook was never told", reason=trouble, collection=identifier.hex())
        self._retries.pop(identifier, None)
        await self._database.run(
            "announce collection", lambda tx: store.announce_collection(tx, identifier)
        )
        return not trouble

    async def _post(self, schedule: Schedule, event: Document) -> str:
        """Return why the webhook did not take an event; empty if it did."""
        headers = {"Content-Type": "application/json"}
        if schedule.webhook_token is not None:
            headers["Authorization"] = f"Bearer {schedule.webhook_token.get_secret_value()}"
        try:
            request = self._http.build_request(
                "POST", str(schedule.webhook), content=json.dumps(event), headers=headers
            )
            # The answer's body is not read: only its status counts.
            with anyio.fail_after(WEBHOOK_SECONDS):
                response = await self._http.send(request, stream=True, follow_redirects=False)
                await response.aclose()
        except (httpx.HTTPError, ParameterError) as error:
            return f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001  a stranger's answer must not end the schedule
            return type(error).__name__
        return "" if response.is_success else f"status {response.status_code}"


def _is_within(task: Task, other: Task) -> bool:
    """Return whether a task asks the people of another in its windows, or in some of them."""
    if (task.time_precision, task.policy.population, task.policy.window) != (
        other.time_precision,
        other.policy.population,
        other.policy.window,
    ):
        return False
    is_longer = other.closes is not None and (task.closes is None or task.closes > other.closes)
    return task.opens >= other.opens and not is_longer


def _holds(task: Task, seconds: int) -> bool:
    return task.opens <= seconds and (task.closes is None or seconds < task.closes)


def _event(meaning: Meaning, stored: StoredCollection) -> Document:
    return {
        "version": 2,
        "survey": meaning.title,
        "collection_id": stored.collection_id.hex(),
        "state": str(stored.state),
        "is_finished": stored.state is CollectionState.FINISHED,
    }
