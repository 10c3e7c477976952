"""Any request to any resource: no fault of ours, and no change if it is refused."""

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp
from structlog.testing import capture_logs

from aggregator.codec import encode
from aggregator.collector import store
from aggregator.collector.requests import new_collection
from aggregator.collector.results.result import collection_request
from aggregator.dap.auth import bearer_header
from aggregator.dap.messages import (
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    CollectionJobReq,
    TimeIntervalQuery,
    TimeIntervalSelector,
    UploadRequest,
)
from aggregator.dap.profile import Role
from aggregator.dap.resources import media_type, path, resources_of
from aggregator.service.storage.engine.database import Database
from aggregator.service.telemetry.health import Health
from aggregator.service.telemetry.probe import Probe
from aggregator.service.web.health import create_health_app
from tests.support import raw_requests
from tests.support.collector_service import TOKEN, CollectorService
from tests.support.dap_messages import SAMPLES
from tests.support.entropy import SeededEntropy
from tests.support.pair import COLLECTOR_TOKEN, LEADER_TOKEN, NOW, Answer, Pair
from tests.support.raw_requests import Request
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

pytestmark = pytest.mark.slow

METHODS = ("GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS")
TASK = make_task({"type": "Prio3Count"}, {**LAPLACE, "max_releases": 100})
SMALL, FULL = 100, 20_000
SIZES = [
    pytest.param(SMALL, id="small"),
    pytest.param(FULL, id="full", marks=pytest.mark.bench),
]


class Door:
    """An application with a store, and requests like those that it is made for."""

    def __init__(
        self, app: ASGIApp, database: Path | None, requests: st.SearchStrategy[Request]
    ) -> None:
        self.app = app
        self.requests = requests
        self._database = database

    def rows(self) -> list[object]:
        """Return all that the store holds."""
        if self._database is None:
            return []
        with closing(sqlite3.connect(self._database)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return [
                (name, connection.execute(f"SELECT * FROM {name}").fetchall())  # noqa: S608  its own name
                for (name,) in names.fetchall()
            ]


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="module")
def doors(
    runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Door]]:
    folder = tmp_path_factory.mktemp("doors")
    pair = Pair(folder, TASK)
    leader, helper = runner.run(aggregators(pair, folder))
    collector, database = make_collector(folder)
    probe = Probe(lambda: Health([], {}, []), lambda: 0.0)  # nobody looks again
    probe.look()
    health = Door(
        create_health_app(probe),
        None,
        raw_requests.requests(
            METHODS,
            ("/health", "/metrics", "/healthz", "/readyz"),
            (),
            {b"host": [b"127.0.0.1", b"localhost:9001", b"127.0.0.1:9001", b"x"]},
        ),
    )
    yield {"leader": leader, "helper": helper, "collector": collector, "health": health}
    database.close()
    runner.run(pair.close())


async def aggregators(pair: Pair, folder: Path) -> tuple[Door, Door]:
    """Let both aggregate and release a batch, and make requests for it and for another."""
    await pair.provision()
    uploads = [encode(UploadRequest(tuple(await pair.reports(each)))) for each in ([1], [0, 1, 1])]
    await pair.upload(await pair.reports([1, 0, 1]))
    await pair.collect()
    collected = await pair.ask()
    later = NOW + TIME_PRECISION
    pair.clock.advance(TIME_PRECISION)
    job = await pair.job(await pair.reports([1, 1, 0], later), later)
    answered = await post(pair, "aggregation_jobs", AggregationJobInitReq.message, job)
    asked = [
        CollectionJobReq(TimeIntervalQuery(pair.interval(seconds))) for seconds in (NOW, later)
    ]
    shares = [
        encode(
            AggregateShareReq(each, TimeIntervalSelector(each.query.batch_interval), 3, bytes(32))
        )
        for each in asked
        if isinstance(each.query, TimeIntervalQuery)
    ]
    step = encode(AggregationJobContinueReq(1, ()))
    samples = [encode(sample) for sample in SAMPLES if hasattr(sample, "message")]
    return (
        door(
            pair.leader.app,
            folder / "leader.sqlite",
            Role.LEADER,
            [collected.headers["location"]],
            [*uploads, *map(encode, asked), *samples],
            COLLECTOR_TOKEN,
        ),
        door(
            pair.helper.app,
            folder / "helper.sqlite",
            Role.HELPER,
            [answered.headers["location"]],
            [job, *shares, step, *samples],
            LEADER_TOKEN,
        ),
    )


async def post(pair: Pair, resource: str, message: str, body: bytes) -> Answer:
    answer = await pair.send("POST", pair.url_of(resource), message, body, LEADER_TOKEN)
    assert answer.status == 201, answer.problem
    return answer


def door(
    app: ASGIApp,
    database: Path,
    role: Role,
    made: Sequence[str],
    bodies: Sequence[bytes],
    token: str,
) -> Door:
    served = resources_of(role)
    paths = [each.template.replace("{task_id}", str(TASK.task_id)) for each in served]
    messages = [each.request for each in served if each.request is not None]
    headers = {
        b"authorization": [bearer_header(token).encode(), b"Bearer another"],
        b"content-type": [media_type(message).encode() for message in messages],
        b"content-length": [b"10", b"9" * 5000],
        b"traceparent": [b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"],
        b"host": [b"x.example"],
    }
    known = [path("hpke_config"), *paths, *made]
    return Door(app, database, raw_requests.requests(METHODS, known, bodies, headers))


def make_collector(folder: Path) -> tuple[Door, Database]:
    """Make a collector's service with a task and a collection of it."""
    service = CollectorService(folder, TASK)
    begin = NOW // TIME_PRECISION * TIME_PRECISION
    collections = f"/api/tasks/{TASK.task_id}/collections"
    request = collection_request(TASK, {"start": begin, "end": begin + TIME_PRECISION})
    new = new_collection(TASK, request, SeededEntropy(b"collection"))
    service.database.run_sync("put collection", lambda tx: store.put_collection(tx, new))
    one = f"/api/collections/{new.collection_id.hex()}"
    requests = raw_requests.requests(
        METHODS,
        (
            "/api/tasks",
            f"/api/tasks/{TASK.task_id}",
            collections,
            one,
            f"{one}/abandon",
            f"/api/collections/{'00' * 16}",
        ),
        (
            b'{"start": %d, "end": %d}' % (begin, begin + TIME_PRECISION),
            b'{"start": 0, "end": 18446744073709551615}',
            b'{"start": 18446744073709551600, "end": 18446744073709551700}',
            b"{}",
            b"[" * 900,
        ),
        {
            b"authorization": [bearer_header(TOKEN).encode()],
            b"content-type": [b"application/json"],
            b"host": [b"collector:8003", b"[::1]", b"[", b"[x]", b"collector:port"],
            b"origin": [b"http://collector:8003", b"http://[", b"null"],
        },
        (b"now=true", b"now=2", b"post_process=clamp", b"post_process=simplex&now=1"),
    )
    return Door(service.app, service.file, requests), service.database


@pytest.mark.parametrize("examples", SIZES)
@pytest.mark.parametrize("name", ["leader", "helper", "collector", "health"])
def test_no_request_makes_us_fail_and_one_that_is_refused_changes_nothing(
    doors: dict[str, Door], runner: asyncio.Runner, name: str, examples: int
) -> None:
    opened, statuses = doors[name], set[int]()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(opened.requests)
    def try_one(request: Request) -> None:
        before = opened.rows()
        with capture_logs() as lines:
            answer = runner.run(raw_requests.send(opened.app, request))
        statuses.add(answer.status)
        assert answer.status < 500, lines
        assert [line for line in lines if line["log_level"] in ("error", "critical")] == []
        if answer.status >= 400:
            assert opened.rows() == before
            is_for_a_person = name == "collector" and not request.path.startswith("/api/")
            if not is_for_a_person:
                assert answer.headers[b"content-type"] == b"application/problem+json"

    try_one()
    assert statuses >= {200, 404, 405}
