"""A collection whose leader never comes back can be given up, and no noise is drawn twice."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest

from aggregator.collector import store
from aggregator.collector.abandoning import MEANING, abandon
from aggregator.collector.documents import problem_text
from aggregator.collector.driver import RETRY_SECONDS, TELL_SECONDS, Driver
from aggregator.collector.requests import new_collection
from aggregator.collector.results.result import collection_request
from aggregator.collector.service import create_collector_app
from aggregator.dap.auth import bearer_header, hash_token
from aggregator.dap.problems import InvalidMessage, UnrecognizedCollectionJob
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState, LedgerState
from aggregator.service.storage.ledger.charges import LedgerEntry, list_ledger
from aggregator.service.storage.secrets.crypter import Crypter
from tests.support.commands import run_here, service_text
from tests.support.empty_store import upgraded
from tests.support.entropy import SeededEntropy
from tests.support.pair import COLLECTOR_TOKEN, NOW, Died, Pair, nothing_happens
from tests.support.patience import PATIENCE_SECONDS
from tests.support.tasks import LAPLACE, LEADER_URL, TIME_PRECISION, collector_keypair, make_task

START = NOW // TIME_PRECISION * TIME_PRECISION
NOT_RELEASED, BY_THE_HELPER_ONLY, BY_BOTH = "not released", "by the helper only", "by both"
HOW_FAR = (NOT_RELEASED, BY_THE_HELPER_ONLY, BY_BOTH)


class Line(httpx.AsyncBaseTransport):
    """The way from the collector to the pair's leader, which can be cut."""

    def __init__(self, pair: Pair) -> None:
        self._leader = httpx.ASGITransport(pair.leader)
        self.is_cut = False
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_cut:
            raise httpx.ConnectError("nobody is there", request=request)
        self.asked.append(request.method)
        return await self._leader.handle_async_request(request)


class World:
    """A pair with three reports, and a collector of it whose leader can go away."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.task = make_task(privacy=LAPLACE, batch_mode=mode)
        self.pair = Pair(folder, self.task)
        self.line = Line(self.pair)
        url = f"sqlite:///{folder / 'collector.sqlite'}"
        upgraded(url)
        self.database = Database.open(url, Crypter([bytes(32)]), self.pair.clock)
        self.http = httpx.AsyncClient(transport=self.line)
        self.driver = Driver(self.database, collector_keypair(), self.http)
        self.asked = 0

    def ask(self) -> bytes:
        """Store a collection of the batch, as every door of the collector does."""
        self.asked += 1
        named = {} if self.task.batching.leader_selects else {"start": START, "end": self.end}
        request = collection_request(self.task, named)
        new = new_collection(self.task, request, SeededEntropy(b"%d" % self.asked))
        return self.database.run_sync("put", lambda tx: store.put_collection(tx, new)).collection_id

    @property
    def end(self) -> int:
        return START + TIME_PRECISION

    def stored(self, collection_id: bytes) -> store.StoredCollection:
        found = self.database.read_sync("get", lambda tx: store.get_collection(tx, collection_id))
        assert found is not None
        return found

    async def bring(self, how_far: str) -> None:
        """Let the aggregators work on the collection until the leader is lost."""
        if how_far == NOT_RELEASED:
            return

        def die(transaction: str, moment: str) -> None:
            if (how_far, transaction, moment) == (BY_THE_HELPER_ONLY, "release batch", "begin"):
                raise Died

        self.pair.leader.on_moment = die
        try:
            await self.pair.work_until_idle()
        except* Died:
            self.pair.leader.restart()
        self.pair.leader.on_moment = nothing_happens

    async def finish(self, collection_id: bytes) -> store.StoredCollection:
        """Drive a collection to its end, with a leader that works."""
        for _ in range(10):
            if await self.driver.ask(collection_id) is None:
                break
            self.pair.clock.advance(60)
            await self.pair.work_until_idle()
        return self.stored(collection_id)

    async def releases(self) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        leader = await self.pair.leader.database.read("ledger", list_ledger)
        return leader, await self.pair.helper.database.read("ledger", list_ledger)


@pytest.fixture
def mode() -> str:
    return "time_interval"


@pytest.fixture
async def world(tmp_path: Path, mode: str) -> AsyncIterator[World]:
    made = World(tmp_path, mode)
    await made.pair.provision()
    await made.pair.upload(await made.pair.reports([0, 1, 2]))
    record = store.CollectorTask(made.task.task_id.value, task_to_toml(made.task), COLLECTOR_TOKEN)
    made.database.run_sync("put task", lambda tx: store.put_collector_task(tx, record))
    yield made
    await made.http.aclose()
    made.database.close()
    await made.pair.close()


async def given_up(world: World, how_far: str) -> bytes:
    """Return a collection that was given up on its way; the leader has not heard of it."""
    asked = world.ask()
    await world.driver.ask(asked)
    await world.bring(how_far)
    world.line.is_cut = True
    await abandon(world.database, asked)
    assert await world.driver.ask(asked) == TELL_SECONDS
    return asked


async def test_a_collection_whose_leader_is_gone_ends_when_it_is_given_up(world: World) -> None:
    world.line.is_cut = True
    asked = world.ask()
    assert await world.driver.ask(asked) == RETRY_SECONDS
    stored = await abandon(world.database, asked)
    assert (stored.state, stored.ended_at) == (CollectionState.ABANDONED, world.pair.clock.now())
    assert problem_text(json.loads(stored.problem or "")).endswith(MEANING)
    assert await abandon(world.database, asked) == stored
    assert await world.driver.ask(asked) is None, "a leader that kept no job is told nothing"


async def test_only_what_is_pending_is_given_up(world: World) -> None:
    with pytest.raises(UnrecognizedCollectionJob):
        await abandon(world.database, b"none")
    asked = world.ask()
    finished = await world.finish(asked)
    assert finished.state is CollectionState.FINISHED
    with pytest.raises(InvalidMessage, match="it has finished"):
        await abandon(world.database, asked)
    assert world.stored(asked) == finished


@pytest.mark.parametrize("mode", ["time_interval", "leader_selected"])
@pytest.mark.parametrize("how_far", HOW_FAR)
async def test_asked_for_again_before_the_leader_heard_a_batch_has_the_same_answer(
    world: World, how_far: str
) -> None:
    first = await given_up(world, how_far)
    second = world.ask()
    assert second != first
    world.line.is_cut = False
    assert await world.driver.ask(first) is None, "its job is the other collection's"
    assert world.line.asked == ["POST"]
    finished = await world.finish(second)
    assert finished.state is CollectionState.FINISHED
    assert finished.location == world.stored(first).location
    for ledger in await world.releases():
        assert [entry.state for entry in ledger] == [LedgerState.CHARGED]


@pytest.mark.parametrize("how_far", HOW_FAR)
async def test_a_leader_that_comes_back_hears_of_it_and_releases_nothing_twice(
    world: World, how_far: str
) -> None:
    first = await given_up(world, how_far)
    assert str(world.stored(first).reason).startswith("the leader has not heard")
    world.line.is_cut = False
    location = str(world.stored(first).location).removeprefix(LEADER_URL.rstrip("/"))
    assert await world.driver.ask(first) is None
    assert (world.stored(first).location, world.stored(first).reason) == (None, None)
    assert (await world.pair.poll(location)).status == 404
    again = await world.finish(world.ask())
    leader, helper = await world.releases()
    if how_far == NOT_RELEASED:
        assert again.state is CollectionState.FINISHED
    else:
        assert again.state is CollectionState.FAILED
        assert "batchOverlap" in str(again.problem)
    assert len(leader) == len(helper) == 1


async def test_the_service_tells_a_leader_that_comes_back(world: World) -> None:
    asked = world.ask()
    await world.driver.ask(asked)
    await abandon(world.database, asked)
    stop = anyio.Event()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(world.driver.run, stop)
            while world.stored(asked).location is not None:  # noqa: ASYNC110 - it is polled
                await anyio.sleep(0.01)
            stop.set()
    assert world.line.asked[-1] == "DELETE"


async def test_a_service_at_rest_takes_up_what_a_command_has_begun(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `prio collect` that waits no longer leaves its collection to the service."""
    monkeypatch.setattr("aggregator.collector.driver.LOOK_SECONDS", 0.1)
    stop = anyio.Event()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(world.driver.run, stop)
            await anyio.sleep(0.3)  # it has seen that nothing waits
            asked = world.ask()  # without a word to the service
            while world.stored(asked).location is None:  # noqa: ASYNC110 - it is polled
                await anyio.sleep(0.01)
            stop.set()
    assert world.line.asked == ["POST"]


async def test_a_result_that_comes_as_it_is_given_up_is_not_kept(world: World) -> None:
    """Otherwise one batch could have two finished collections."""
    asked = world.ask()
    await world.driver.ask(asked)
    await world.bring(BY_BOTH)
    poll = world.line.handle_async_request

    async def give_up_meanwhile(request: httpx.Request) -> httpx.Response:
        answer = await poll(request)
        if request.method == "GET":
            await abandon(world.database, asked)
        return answer

    world.line.handle_async_request = give_up_meanwhile  # type: ignore[method-assign]  # the test's
    assert await world.driver.ask(asked) is None
    assert world.stored(asked).state is CollectionState.ABANDONED
    assert world.stored(asked).result is None
    assert "DELETE" not in world.line.asked


async def test_programs_give_up_by_the_api(world: World) -> None:
    app = create_collector_app(
        world.database,
        world.driver,
        SeededEntropy(b"api"),
        lambda: [hash_token(COLLECTOR_TOKEN)],
        {"collector"},
    )
    asked = world.ask()
    path = f"/api/collections/{asked.hex()}"
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://collector") as api:
        assert (await api.post(f"{path}/abandon")).status_code == 401
        api.headers["authorization"] = bearer_header(COLLECTOR_TOKEN)
        answer = await api.post(f"{path}/abandon")
        assert (answer.status_code, answer.json()["state"]) == (200, "abandoned")
        assert (await api.get(path)).json() == answer.json()
        assert (await api.post("/api/collections/00/abandon")).status_code == 404
        assert (await api.post("/api/collections/x/abandon")).status_code == 404


async def test_the_command_gives_up_and_says_what_that_means(world: World, tmp_path: Path) -> None:
    asked = world.ask()
    await world.driver.ask(asked)
    config = tmp_path / "collector.toml"
    key = tmp_path / "collector.key"
    key.write_text("A" * 43)  # 32 zero bytes
    key.chmod(0o600)
    config.write_text(service_text("collector"))

    async def command(collection: str) -> tuple[int, str]:
        done = await anyio.to_thread.run_sync(
            run_here, "collector", "abandon", "--config", config, collection
        )
        return done.returncode, done.stdout + done.stderr

    assert world.stored(asked).location is not None
    status, said = await command(asked.hex())  # nobody is at leader.example
    assert (status, MEANING in said) == (0, True)
    assert "the leader has not heard of it: the leader https://leader.example" in said
    assert world.stored(asked).state is CollectionState.ABANDONED
    shown = await anyio.to_thread.run_sync(run_here, "status", "--config", config)
    assert "0 pending\n  1 given up, of which the leader has not heard\n" in shown.stdout
    for wrong in ("none", "00"):
        status, said = await command(wrong)
        assert (status, said.count("\n")) == (2, 1), said
