"""Windows are collected by themselves when they are over, once, and a webhook hears of each."""

import dataclasses
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx
import pytest
from sqlalchemy import insert

from aggregator.client.text.spelling import Spelling
from aggregator.collector import schedule, store
from aggregator.collector.driver import Driver
from aggregator.collector.schedule import Scheduler
from aggregator.dap.ids import TaskId
from aggregator.dap.times import Interval
from aggregator.errors import ConfigurationError
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.config import CollectorSettings, Schedule, read_settings_of
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.tables import collections
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import Crypter
from tests.support.clock import ManualClock
from tests.support.empty_store import upgraded
from tests.support.entropy import SeededEntropy
from tests.support.pair import COLLECTOR_TOKEN, NOW, Pair
from tests.support.patience import PATIENCE_SECONDS
from tests.support.steps import steps_of
from tests.support.surveys import IN_2023, VISITS, department, task_of
from tests.support.tasks import collector_keypair
from tests.support.text import spelling_tasks
from tests.support.texts import WORD, asked_in

ADDED = datetime(2026, 11, 4, 12, tzinfo=UTC)
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
HUSH = "hu" + "sh"
WEBHOOK = "https://hooks.example/prio"


class World:
    """A collector's store at a time, and what its webhook was sent."""

    def __init__(
        self,
        folder: Path,
        tasks: Sequence[Task] = (),
        clock: ManualClock | None = None,
        **settings: object,
    ) -> None:
        self.clock = clock or ManualClock(int(ADDED.timestamp()))
        url = f"sqlite:///{folder / 'collector.sqlite'}"
        upgraded(url)
        self.database = Database.open(url, Crypter([bytes(32)]), self.clock)
        self.task, *_ = tasks = tasks or [task_of(VISITS + department())]
        for task in tasks:
            self.put(task)
        self.status = 200
        self.trouble: Callable[[], Awaitable[None]] | None = None
        self.sent: list[httpx.Request] = []
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        scheduled = Schedule.model_validate({"survey": "Visits", **settings})
        self.scheduler = Scheduler(
            self.database,
            Driver(self.database, collector_keypair(), http),
            [scheduled],
            http,
            self.clock,
            SeededEntropy(b"schedule"),
        )

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        if self.trouble is not None:
            await self.trouble()
        return httpx.Response(self.status)

    def put(self, task: Task) -> None:
        record = store.CollectorTask(task.task_id.value, task_to_toml(task), COLLECTOR_TOKEN)
        self.database.run_sync("put task", lambda tx: store.put_collector_task(tx, record))

    async def step(self, moment: datetime) -> list[store.StoredCollection]:
        """Look at a time; return all collections that there are then."""
        self.clock.advance(int(moment.timestamp()) - self.clock.now())
        await self.scheduler.step()
        return self.database.read_sync("list", store.list_collections)

    def fail(self, collection: store.StoredCollection) -> None:
        self.database.run_sync(
            "fail", lambda tx: store.fail_collection(tx, collection.collection_id, "{}")
        )


async def test_a_window_is_asked_for_once_after_it_is_over_and_the_grace_has_passed(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    assert await world.step(ADDED) == []
    assert await world.step(MONDAY + WEEK) == []
    (asked,) = await world.step(MONDAY + WEEK + HOUR)
    assert await world.step(MONDAY + WEEK + 2 * HOUR) == [asked]


async def test_windows_that_ended_meanwhile_are_caught_up_with_and_none_before_the_task(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    assert len(await world.step(MONDAY + 3 * WEEK + HOUR)) == 3


async def test_a_window_that_failed_is_not_asked_for_again_by_itself(tmp_path: Path) -> None:
    world = World(tmp_path)
    (asked,) = await world.step(MONDAY + WEEK + HOUR)
    world.fail(asked)
    assert len(await world.step(MONDAY + WEEK + 2 * HOUR)) == 1


async def test_the_webhook_hears_once_of_each_end_with_its_token_and_without_a_value(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, webhook=WEBHOOK, webhook_token=HUSH)
    (asked,) = await world.step(MONDAY + WEEK + HOUR)
    assert world.sent == []
    world.fail(asked)
    for _ in range(2):
        await world.step(MONDAY + WEEK + 2 * HOUR)
    (request,) = world.sent
    assert request.headers["Authorization"] == "Bearer hush"
    assert json.loads(request.content) == {
        "version": 2,
        "survey": "Visits",
        "collection_id": asked.collection_id.hex(),
        "state": "failed",
        "is_finished": False,
    }


async def test_the_text_questions_of_a_survey_are_asked_for_with_it_and_no_other_tasks(
    tmp_path: Path,
) -> None:
    survey = asked_in(VISITS + department() + WORD)
    world = World(tmp_path, survey.tasks, webhook=WEBHOOK)
    # Of other people, who are asked the same.
    others = VISITS.replace('"Visits"', '"At work"').replace('"patients"', '"staff"')
    for each in asked_in(others + department() + WORD).tasks:
        world.put(dataclasses.replace(each, task_id=TaskId(each.task_id.value[::-1])))
    asked = await world.step(MONDAY + 2 * WEEK + HOUR)
    assert Counter(each.task_id for each in asked) == {
        each.task_id.value: 2 for each in survey.tasks
    }
    for each in asked:
        world.fail(each)
    assert len(await world.step(MONDAY + 2 * WEEK + 2 * HOUR)) == len(asked)
    # The webhook hears of windows, not of each place of what people wrote.
    assert len(world.sent) == 2


async def test_in_a_window_of_letters_these_are_asked_for_and_not_the_words(tmp_path: Path) -> None:
    survey = asked_in(VISITS + department() + WORD)
    question, words = survey.texts["word"]
    spelling = Spelling(question, (7,), "a", letters=8)
    unit = survey.first.time_precision
    week = Interval.of(int((MONDAY + WEEK).timestamp()) // unit, int(WEEK.total_seconds()) // unit)
    letters = spelling_tasks(spelling, words, week)
    world = World(tmp_path, [*survey.tasks, *letters])
    asked = await world.step(MONDAY + 3 * WEEK + HOUR)
    assert survey.task is not None
    assert Counter(each.task_id for each in asked) == {
        survey.task.task_id.value: 3,
        **{each.task_id.value: 2 for each in words},
        **{each.task_id.value: 1 for each in letters},
    }


async def test_no_answer_that_was_taken_is_left_where_nobody_asks_for_it(tmp_path: Path) -> None:
    """What is collected of one task is closed in all, and so the schedule asks for all."""
    hourly = IN_2023.replace('"week"', '"hour"').replace("= 3\n", "= 1\n")
    survey = asked_in(hourly.replace("= 52\n", "= 100\n") + department() + WORD)
    assert survey.task is not None
    pair = Pair(tmp_path, survey.task)
    await pair.provision(*survey.tasks)
    world = World(tmp_path, survey.tasks, pair.clock)
    told = {}
    for number, task in enumerate(survey.tasks):
        told[task.task_id.value] = number + 1
        answer = survey.sheet.entries({}) if task == survey.task else 0
        reports = await pair.reports([answer] * (number + 1), pair.clock.now(), task)
        assert not (await pair.upload(reports, task)).status
    over = datetime.fromtimestamp(NOW // 3600 * 3600, UTC) + 2 * HOUR
    asked = await world.step(over)
    driver = Driver(world.database, collector_keypair(), pair.http)
    # The survey's own is collected before anybody asks the leader for the others.
    for each in sorted(asked, key=lambda each: each.task_id != world.task.task_id.value):
        assert await driver.ask(each.collection_id) is not None
        await pair.work_until_idle()
        assert await driver.ask(each.collection_id) is None
    found = world.database.read_sync("list", store.list_collections)
    assert {
        each.task_id: json.loads(each.result or "{}").get("report_count") for each in found
    } == told
    await pair.close()


async def test_a_task_that_cannot_be_read_stops_no_schedule(tmp_path: Path) -> None:
    world = World(tmp_path)
    broken = store.CollectorTask(bytes(32), "no task", COLLECTOR_TOKEN)
    world.database.run_sync("put task", lambda tx: store.put_collector_task(tx, broken))
    assert len(await world.step(MONDAY + WEEK + HOUR)) == 1


async def test_a_look_takes_no_longer_after_years_of_collections(tmp_path: Path) -> None:
    world = World(tmp_path, webhook=WEBHOOK)
    await world.step(MONDAY + WEEK + HOUR)

    def look(tx: Transaction) -> None:
        assert world.scheduler._ask(tx) == 0
        assert len(world.scheduler._ended(tx)) == 0

    alone = steps_of(world.database, look)
    row = {"task_id": world.task.task_id.value, "state": CollectionState.FINISHED}
    row |= {"result": "{}", "created_at": 0, "ended_at": 0, "announced_at": 0}
    rows = [
        {**row, "collection_id": name, "request": name}
        for name in (number.to_bytes(16, "big") for number in range(5000))
    ]
    world.database.run_sync("put", lambda tx: tx.connection.execute(insert(collections), rows))
    assert steps_of(world.database, look) < 2 * alone


@pytest.mark.slow
async def test_a_webhook_that_does_not_answer_is_told_again_later_and_not_for_ever(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, webhook=WEBHOOK)
    (asked,) = await world.step(MONDAY + WEEK + HOUR)
    world.fail(asked)
    world.status = 500
    now = MONDAY + WEEK + 2 * HOUR
    for minutes in range(0, 30 * 60, 10):
        await world.step(now + timedelta(minutes=minutes))
    # After 1, 2, 4, ... minutes and then every hour, for a day: far from once a minute.
    assert 20 < len(world.sent) < 40
    count = len(world.sent)
    await world.step(now + timedelta(days=3))
    assert len(world.sent) == count


async def _broken() -> None:
    raise AttributeError("as libraries do where a peer is odd enough")


@pytest.mark.parametrize("trouble", [anyio.sleep_forever, _broken])
async def test_a_webhook_that_never_ends_its_answer_or_breaks_a_library_stops_no_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[], Awaitable[None]]
) -> None:
    monkeypatch.setattr(schedule, "WEBHOOK_SECONDS", 0.05)
    world = World(tmp_path, webhook=WEBHOOK)
    ended = await world.step(MONDAY + 3 * WEEK + HOUR)
    for each in ended:
        world.fail(each)
    world.trouble = trouble
    with anyio.fail_after(PATIENCE_SECONDS):
        assert len(await world.step(MONDAY + 4 * WEEK + HOUR)) == len(ended) + 1
    assert len(world.sent) == 1
    world.trouble = None
    await world.step(MONDAY + 4 * WEEK + 2 * HOUR)
    assert len({json.loads(each.content)["collection_id"] for each in world.sent}) == len(ended)


async def test_a_survey_that_is_not_scheduled_is_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path, survey="Another")
    assert await world.step(MONDAY + 3 * WEEK) == []


def test_schedules_stand_in_the_collector_s_file(tmp_path: Path) -> None:
    file = tmp_path / "collector.toml"
    text = (
        'service.role = "collector"\n'
        'service.database = "c.sqlite"\n[[schedule]]\nsurvey = "Visits"\n'
    )
    file.write_text(text + f'webhook = "{WEBHOOK}"\nwebhook_token = "hush"\n')
    with pytest.raises(ConfigurationError, match="lets others read"):
        read_settings_of(CollectorSettings, file)
    file.chmod(0o600)
    (schedule,) = read_settings_of(CollectorSettings, file).schedule
    assert (schedule.survey, str(schedule.webhook)) == ("Visits", WEBHOOK)
    assert "hush" not in repr(schedule)
    file.write_text(text + 'webhook = "ftp://hooks.example"\n')
    with pytest.raises(ConfigurationError, match=r"schedule 1\.webhook: must be http"):
        read_settings_of(CollectorSettings, file)
