"""A collector with a valid token makes no rows without bound at the leader."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from sqlalchemy import func, select

from aggregator.collector import store
from aggregator.collector.driver import Driver
from aggregator.collector.requests import new_collection
from aggregator.collector.results.result import collection_request
from aggregator.dap.problems import LONGEST_WAIT_SECONDS
from aggregator.dap.profile import Role
from aggregator.dap.times import Interval
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.leader import routes
from aggregator.service.leader.collections import LONGEST_POLL_SECONDS, CollectionDriver
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.jobs import collection_room
from aggregator.service.storage.jobs.collection_room import MOST_PENDING
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.transport.driver import DriverSettings
from tests.support.commands import run_here, service_file
from tests.support.empty_store import upgraded
from tests.support.entropy import SeededEntropy
from tests.support.pair import COLLECTOR_TOKEN, NOW, Answer, Pair
from tests.support.tasks import LAPLACE, TIME_PRECISION, collector_keypair, make_task

UNITS = NOW // TIME_PRECISION


@pytest.fixture
def mode() -> str:
    return "time_interval"


@pytest.fixture
async def pair(tmp_path: Path, mode: str) -> AsyncIterator[Pair]:
    async with Pair(tmp_path, make_task(privacy=LAPLACE, batch_mode=mode)) as made:
        yield made


async def jobs_of(pair: Pair) -> int:
    job = tables.collection_jobs
    return await pair.leader.database.read(
        "count", lambda tx: tx.connection.execute(select(func.count(job.c.id))).scalar_one()
    )


async def ask_distinctly(pair: Pair, number: int) -> Answer:
    """Ask for one of as many intervals as there are numbers, in the past."""
    return await pair.ask(Interval.of(UNITS - number - 1, 1 + number // 2))


async def test_more_pending_collections_than_a_task_may_have_are_refused(
    pair: Pair, tmp_path: Path
) -> None:
    answers = [await ask_distinctly(pair, number) for number in range(3 * MOST_PENDING)]
    assert [each.status for each in answers] == [201] * MOST_PENDING + [429] * 2 * MOST_PENDING
    refused = answers[-1]
    assert refused.problem_type == "too-many-collections"
    assert str(MOST_PENDING) in str(refused.problem["detail"])
    assert int(refused.headers["retry-after"]) > 0
    assert await jobs_of(pair) == MOST_PENDING
    again = await ask_distinctly(pair, 0)
    assert again.status == 201, "a job that there is is found, not made"
    assert again.headers["location"] == answers[0].headers["location"]
    health = await pair.leader.database.read(
        "health", lambda tx: read_aggregator_health(tx, Role.LEADER, 60)
    )
    (shown,) = health.document["tasks"]  # type: ignore[misc]  # a list
    assert shown["pending_collections"] == MOST_PENDING
    key = tmp_path / "leader.key"
    key.write_text("A" * 43)  # 32 zero bytes
    key.chmod(0o600)
    config = service_file(tmp_path, "leader")
    done = await anyio.to_thread.run_sync(run_here, "status", "--config", config)
    assert f"{pair.task.task_id} takes no more collections: {MOST_PENDING}" in done.stdout


async def test_a_collection_of_the_running_day_is_asked_for_again_and_made_when_it_is_over(
    pair: Pair,
) -> None:
    running = Interval.of(UNITS, 24)
    early = await pair.ask(running)
    assert (early.status, early.problem_type) == (429, "batch-not-over")
    assert 0 < int(early.headers["retry-after"]) <= LONGEST_WAIT_SECONDS
    assert await jobs_of(pair) == 0, "reports of the batch are still taken"
    pair.clock.advance(23 * TIME_PRECISION)
    assert (await pair.ask(running)).status == 201


@pytest.mark.parametrize("mode", ["time_interval", "leader_selected"])
async def test_collections_that_are_asked_for_and_deleted_leave_a_bounded_number_of_rows(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_room, "MOST_FRUITLESS", 10)
    for number in range(40):
        answer = await ask_distinctly(pair, number)
        assert answer.status == 201
        await pair.forget(answer.headers["location"])
    assert await jobs_of(pair) == 11


@pytest.mark.parametrize("mode", ["time_interval", "leader_selected"])
async def test_a_collection_that_has_waited_long_is_looked_at_every_ten_seconds(
    pair: Pair, mode: str
) -> None:
    interval = Interval.of(UNITS, 1)
    await pair.upload(await pair.reports([0] if mode == "leader_selected" else [0, 1, 2]))
    await pair.ask(interval)
    pair.clock.advance(10 * LONGEST_POLL_SECONDS)
    driver = CollectionDriver(pair.leader.runtime, pair.http, DriverSettings(1, 60, 5))
    looks = 0
    for _ in range(30):  # without a worker that aggregates what the batch waits for
        looks += await driver.run_once()
        pair.clock.advance(1)
    assert looks == 3


async def test_collections_that_fail_leave_a_bounded_number_of_rows_and_the_newest_say_why(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_room, "MOST_FRUITLESS", 10)
    for number in range(30):
        answer = await ask_distinctly(pair, number)
        await pair.work_until_idle()
        failed = await pair.poll(answer.headers["location"])
        assert failed.problem_type == "invalidBatchSize"
    assert await jobs_of(pair) == 11


async def test_a_collector_of_more_windows_than_may_be_pending_gets_all_of_them(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (routes, collection_room):
        monkeypatch.setattr(module, "MOST_PENDING", 2, raising=False)
    url = f"sqlite:///{tmp_path / 'collector.sqlite'}"
    upgraded(url)
    database = Database.open(url, Crypter([bytes(32)]), pair.clock)
    record = store.CollectorTask(pair.task.task_id.value, task_to_toml(pair.task), COLLECTOR_TOKEN)
    database.run_sync("put task", lambda tx: store.put_collector_task(tx, record))
    asked = []
    for number in range(4):
        moment = (UNITS - number) * TIME_PRECISION
        await pair.upload(await pair.reports([0, 1, 2], moment))
        named = {"start": moment, "end": moment + TIME_PRECISION}
        request = collection_request(pair.task, named)
        new = new_collection(pair.task, request, SeededEntropy(b"%d" % number))
        database.run_sync("put", lambda tx, new=new: store.put_collection(tx, new))
        asked.append(new.collection_id)
    driver = Driver(database, collector_keypair(), pair.http)

    def stored(collection_id: bytes) -> store.StoredCollection:
        found = database.read_sync("get", lambda tx: store.get_collection(tx, collection_id))
        assert found is not None
        return found

    for each in asked:
        assert await driver.ask(each) is not None
    assert [stored(each).location is None for each in asked] == [False, False, True, True]
    why = "The task has as many pending collections as it may have: 2; another is accepted"
    assert why in str(stored(asked[-1]).reason)
    for _ in range(3):
        await pair.work_until_idle()
        for each in asked:
            await driver.ask(each)
    assert {stored(each).state for each in asked} == {CollectionState.FINISHED}
    database.close()
