"""Collects the windows of surveys as they become ready, and tells a webhook of each.

A window is asked for once, after its end and the grace for late answers. If it fails, only a person
asks for it again. Windows that ended while the service was not running are caught up with. The
webhook learns that a collection ended and where to look, never a value.
"""

import json
import math
from collections.abc import Sequence
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
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.config import Schedule
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.telemetry.lines import log
from aggregator.steward.survey import Meaning

LOOK_SECONDS = 60
"""How often windows are looked for."""

WEBHOOK_SECONDS = 10
"""How long a webhook may take to answer, even if its answer trickles in."""

_MOST_WINDOWS = 200
"""The most windows of one task that are caught up with in one look."""

_FIRST_RETRY_SECONDS = 60
_LAST_RETRY_SECONDS = 3600
_GIVE_UP = timedelta(days=1)


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
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        added = 0
        for task, meaning, schedule, created_at in self._tasks(tx):
            length = timedelta(seconds=meaning.windows.seconds)
            start = meaning.windows.last(now - timedelta(seconds=schedule.grace_seconds))
            if task.closes is not None:
                start = min(start, datetime.fromtimestamp(task.closes, UTC) - length)
            since = max(created_at, task.opens)
            first = meaning.windows.start(datetime.fromtimestamp(since, UTC))
            looked = 0
            while start >= first and looked < _MOST_WINDOWS:
                named = {"start": int(start.timestamp()), "end": int((start + length).timestamp())}
                new = new_collection(task, collection_request(task, named), self._entropy)
                if not store.is_requested(tx, task.task_id.value, new.request):
                    store.put_collection(tx, new)
                    added += 1
                start -= length
                looked += 1
        return added

    def _tasks(self, tx: Transaction) -> list[tuple[Task, Meaning, Schedule, int]]:
        """Return the scheduled tasks, with the time at which each was added."""
        found = []
        for definition in store.list_definitions(tx):
            try:
                task = task_from_toml(definition)
                meaning = Meaning.of_task(task)
            except ParameterError:
                continue  # not of a survey, or unreadable
            schedule = self._schedules.get(meaning.title)
            if schedule is not None:
                added_at = store.task_added_at(tx, task.task_id.value)
                found.append((task, meaning, schedule, added_at))
        return found

    def _ended(self, tx: Transaction) -> list[tuple[Schedule, Meaning, StoredCollection]]:
        """Return collections that have ended and that no webhook has been told of."""
        return [
            (schedule, meaning, stored)
            for task, meaning, schedule, _ in self._tasks(tx)
            if schedule.webhook is not None
            for stored in store.list_unannounced_collections(tx, task.task_id.value)
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


def _event(meaning: Meaning, stored: StoredCollection) -> Document:
    return {
        "version": 2,
        "survey": meaning.title,
        "collection_id": stored.collection_id.hex(),
        "state": str(stored.state),
        "is_finished": stored.state is CollectionState.FINISHED,
    }
