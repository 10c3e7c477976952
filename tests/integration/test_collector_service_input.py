"""The collector service under bad input, and its driver under leaders that answer nonsense."""

import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from aggregator.collector import store
from aggregator.collector.driver import CONCURRENCY, RETRY_SECONDS, UNUSABLE_ANSWERS, Driver
from aggregator.collector.requests import new_collection
from aggregator.collector.results.result import collection_request
from aggregator.collector.service import MAX_QUERY_SIZE
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import CollectionJobResp
from aggregator.dap.problems import BatchOverlap
from aggregator.dap.profile import Role
from aggregator.dap.resources import media_type
from aggregator.protocol import provisioning
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState
from tests.support.between import refusal
from tests.support.collector_service import BEARER, CollectorService, put_task
from tests.support.commands import run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.pair import NOW, Pair
from tests.support.patience import PATIENCE_SECONDS
from tests.support.tasks import ATTRIBUTION, LAPLACE, TIME_PRECISION, collector_keypair, make_task

TASK = make_task(privacy=LAPLACE)
URL = f"/api/tasks/{TASK.task_id}/collections"
START = NOW // TIME_PRECISION * TIME_PRECISION
QUERY = b'{"start": %d, "end": %d}' % (START, START + TIME_PRECISION)
JSON = {"content-type": "application/json"}
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def service(tmp_path: Path) -> CollectorService:
    return CollectorService(tmp_path, TASK)


@pytest.fixture
def database(service: CollectorService) -> Database:
    return service.database


@pytest.fixture
async def api(service: CollectorService) -> AsyncIterator[httpx.AsyncClient]:
    async with service.client() as client:
        yield client


def pending(database: Database) -> list[store.StoredCollection]:
    return database.read_sync(
        "pending", lambda tx: store.list_collections(tx, state=CollectionState.PENDING)
    )


def driver_of(database: Database, handler: Handler) -> Driver:
    http = httpx.AsyncClient(transport=httpx.MockTransport(handler))
    return Driver(database, collector_keypair(), http)


def put_collection(database: Database, start: int = START, task: Task = TASK) -> bytes:
    request = collection_request(task, {"start": start, "end": start + TIME_PRECISION})
    new = new_collection(task, request, SeededEntropy(task.task_id.value + start.to_bytes(8)))
    database.run_sync("put collection", lambda tx: store.put_collection(tx, new))
    return new.collection_id


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "JSON"),
        (b"", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[1]", "object"),
        (b"{}", "start"),
        (b'{"start": "0", "end": 100}', "start"),
        (b'{"start": 0.5, "end": 100}', "start"),
        (b'{"start": true, "end": 100}', "start"),
        (b'{"start": -100, "end": 100}', "start"),
        (b'{"start": 0, "end": 100, "more": 1}', "more"),
        (b'{"start": 0, "end": 150}', "end"),
        (b'{"start": 100, "end": 100}', "end"),
        (b'{"start": 0, "end": %d00}' % 2**80, "units"),
        (b'{"start": 0, "end": ' + b"1" * 900 + b"}", "end"),
        (b"[" * 900, "JSON"),
    ],
)
async def test_an_invalid_query_is_a_problem_that_names_the_fault(
    api: httpx.AsyncClient, database: Database, body: bytes, named: str
) -> None:
    headers = JSON | BEARER
    answer = await api.post(URL, content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert named in answer.json()["detail"]
    assert pending(database) == []


@pytest.mark.parametrize(
    ("method", "url", "named"),
    [
        ("POST", f"{URL}?now=2", "now"),
        ("GET", "/api/collections/00?post_process=x", "post_process"),
    ],
)
async def test_an_invalid_parameter_is_a_problem_that_names_it(
    api: httpx.AsyncClient, method: str, url: str, named: str
) -> None:
    headers = BEARER
    answer = await api.request(method, url, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"].startswith(f"{named}: ")


async def test_a_query_is_read_after_the_token_was_checked_and_up_to_a_limit(
    api: httpx.AsyncClient,
) -> None:
    long = QUERY + b" " * MAX_QUERY_SIZE
    assert (await api.post(URL, content=long, headers=JSON)).status_code == 401
    headers = JSON | BEARER
    assert (await api.post(URL, content=long, headers=headers)).status_code == 413
    assert (await api.post(URL, content=QUERY, headers=headers)).status_code == 201


async def test_an_interval_that_is_not_over_is_collected_only_if_that_is_meant(
    api: httpx.AsyncClient, database: Database
) -> None:
    headers = BEARER
    end = (int(time.time()) // TIME_PRECISION + 2) * TIME_PRECISION
    query = {"start": end - 2 * TIME_PRECISION, "end": end}
    refused = await api.post(URL, json=query, headers=headers)
    assert refused.status_code == 400
    assert (
        "reports that come after their batch was collected are refused" in refused.json()["detail"]
    )
    assert pending(database) == []
    begun = await api.post(f"{URL}?now=true", json=query, headers=headers)
    again = await api.post(URL, json=query, headers=headers)
    assert (begun.status_code, again.json()) == (201, begun.json())


def test_the_command_refuses_an_interval_that_is_not_over(tmp_path: Path) -> None:
    config = service_file(tmp_path, "collector")
    public = run_here("collector", "config", "--config", config).stdout.strip()
    task = make_task(collector_hpke_config=public)
    file = provisioning.provision(task, SeededEntropy(b"secrets"))[Role.COLLECTOR]
    assert run_here("task", "add", "--config", config, "-", stdin=file).returncode == 0
    end = (int(time.time()) // TIME_PRECISION + 2) * TIME_PRECISION  # nor will it be in a moment
    interval = ("--start", str(end - 2 * TIME_PRECISION), "--end", str(end))
    done = run_here("collect", "--config", config, str(task.task_id), *interval)
    assert done.returncode == 2
    assert "--now" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "min_dp_budget: a collection of attribution needs this extension"),
        (("--epsilon", "3"), "epsilon may be 1/2 here, not 3"),
        (("--epsilon", "1/3"), "epsilon: must be a whole number of millionths"),
        (("--epsilon", "4295"), "min_dp_budget: must be from 1 to"),
    ],
)
def test_the_command_asks_for_no_noise_that_a_task_of_attribution_has_not(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    config = service_file(tmp_path, "collector")
    public = run_here("collector", "config", "--config", config).stdout.strip()
    task = make_task(privacy=LAPLACE, attribution=ATTRIBUTION, collector_hpke_config=public)
    file = provisioning.provision(task, SeededEntropy(b"secrets"))[Role.COLLECTOR]
    assert run_here("task", "add", "--config", config, "-", stdin=file).returncode == 0
    interval = ("--start", "0", "--end", str(TIME_PRECISION))
    done = run_here("collect", "--config", config, str(task.task_id), *interval, *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
async def test_a_form_of_another_site_collects_nothing(
    api: httpx.AsyncClient, database: Database, kind: str
) -> None:
    headers = BEARER | {"content-type": kind}
    assert (await api.post(URL, content=QUERY, headers=headers)).status_code == 415
    assert pending(database) == []


@pytest.mark.parametrize("sent", ["", "?now=true"])
async def test_a_batch_of_the_future_is_refused_whoever_means_it(
    api: httpx.AsyncClient, database: Database, sent: str
) -> None:
    start = (2**63 // TIME_PRECISION - 1) * TIME_PRECISION
    query = b'{"start": %d, "end": %d}' % (start, start + TIME_PRECISION)
    answer = await api.post(f"{URL}{sent}", content=query, headers=JSON | BEARER)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("start: ")
    assert "is in the future" in answer.json()["detail"]
    assert pending(database) == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"host": "collector:8003"}, 201),
        ({"host": "[::1]:8003"}, 201),
        ({"host": "collector:8003", "origin": "http://collector:8003"}, 201),
        ({"host": "collector", "origin": "https://collector"}, 201),
        ({"host": "127.0.0.1:8003", "origin": "http://127.0.0.1:1"}, 403),
        ({"host": "127.0.0.1:8003", "origin": "http://127.0.0.1"}, 403),
        ({"origin": "http://127.0.0.1:99999"}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": "collector.evil.example:8003"}, 421),
        ({"host": ""}, 421),
        ({"host": "["}, 421),
        ({"host": "[::1"}, 421),
        ({"origin": "http://["}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example", "origin": "http://evil.example"}, 421),
    ],
)
async def test_a_page_that_gave_our_address_its_own_name_collects_nothing(
    api: httpx.AsyncClient, database: Database, headers: dict[str, str], status: int
) -> None:
    """DNS rebinding: the token is right, as if the page had found it."""
    sent = JSON | BEARER | headers
    assert (await api.post(URL, content=QUERY, headers=sent)).status_code == status
    assert len(pending(database)) == (status == 201)


async def sealed_result(folder: Path) -> bytes:
    """Return what an honest leader answers to the collector's request: three reports."""
    pair = Pair(folder, TASK)
    await pair.provision()
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.ask()
    await pair.work_until_idle()
    body = (await pair.ask()).body
    await pair.close()
    return body


def answering(bodies: Iterator[bytes]) -> Handler:
    """Return a leader that gives one result after the other, and forgets what it is told to."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            return httpx.Response(204)
        headers = {"location": "/x", "content-type": media_type(CollectionJobResp.message)}
        return httpx.Response(201, content=next(bodies), headers=headers)

    return answer


COUNT_OF_REPORTS, START_OF_INTERVAL, LAST_BYTE = 7, 15, -1


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (COUNT_OF_REPORTS, "holds 2 reports"),
        (0, "reports; a batch of the task may hold from"),
        (START_OF_INTERVAL, "beyond what was asked for"),
        (LAST_BYTE, "the helper's aggregate share does not open"),
    ],
)
async def test_a_result_that_is_none_is_asked_for_again_before_the_collection_fails(
    tmp_path: Path, database: Database, place: int, said: str
) -> None:
    good = await sealed_result(tmp_path)
    false = bytearray(good)
    false[place] ^= 1
    asked = put_collection(database)
    driver = driver_of(database, answering(itertools.repeat(bytes(false))))
    for _ in range(UNUSABLE_ANSWERS - 1):
        assert await driver.ask(asked) == RETRY_SECONDS
        (waiting,) = pending(database)
        assert said in str(waiting.reason)
    assert await driver.ask(asked) is None
    failed = database.read_sync("get", lambda tx: store.get_collection(tx, asked))
    assert failed is not None
    assert (failed.state, said in str(failed.problem)) == (CollectionState.FAILED, True)


async def test_a_result_that_was_garbled_once_is_not_lost(
    tmp_path: Path, database: Database
) -> None:
    good = await sealed_result(tmp_path)
    garbled = good[:-1] + bytes([good[-1] ^ 1])
    asked = put_collection(database)
    driver = driver_of(database, answering(iter([garbled, good])))
    assert await driver.ask(asked) == RETRY_SECONDS
    assert await driver.ask(asked) is None
    finished = database.read_sync("get", lambda tx: store.get_collection(tx, asked))
    assert finished is not None
    assert (finished.state, finished.reason) == (CollectionState.FINISHED, None)


async def test_one_failing_collection_does_not_hold_up_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = put_collection(database), put_collection(database, START + TIME_PRECISION)
    driver = driver_of(database, lambda _: refusal(400, BatchOverlap.type_uri))
    ask = driver._ask

    async def fail_for_first(stored: store.StoredCollection) -> float | None:
        if stored.collection_id == first:
            raise MemoryError
        return await ask(stored)

    monkeypatch.setattr(driver, "_ask", fail_for_first)
    assert await driver.ask(first) == RETRY_SECONDS
    assert await ends(driver, database, second)
    assert [each.collection_id for each in pending(database)] == [first]


async def test_collections_of_a_leader_that_is_silent_hold_up_no_other(database: Database) -> None:
    """Far more of them than there are permits."""

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "leader.example":
            await anyio.sleep_forever()
        return refusal(400, BatchOverlap.type_uri)

    for number in range(2 * CONCURRENCY):
        put_collection(database, START + number * TIME_PRECISION)
    well = make_task(privacy=LAPLACE, id=str(TaskId(bytes(32))), leader="https://well.example/")
    put_task(database, well)
    last = put_collection(database, task=well)
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer), timeout=60)
    assert await ends(Driver(database, collector_keypair(), http), database, last)


async def ends(driver: Driver, database: Database, collection_id: bytes) -> bool:
    """Let the driver work; return whether the collection ends."""
    stop = anyio.Event()

    async def watch() -> None:
        while collection_id in {each.collection_id for each in pending(database)}:  # noqa: ASYNC110 - it is polled
            await anyio.sleep(0.01)
        stop.set()

    with anyio.move_on_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await driver.run(stop)
    return stop.is_set()
