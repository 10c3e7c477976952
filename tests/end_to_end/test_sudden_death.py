"""Both aggregators killed again and again while reports are uploaded, verified and collected."""

import json
import random
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import httpx
import pytest
from typing_extensions import override

from aggregator.cli.parties import open_collector
from aggregator.client import Client, UploadSummary
from aggregator.codec import decode, encode
from aggregator.dap.auth import bearer_header
from aggregator.dap.messages import CollectionJobReq, CollectionJobResp
from aggregator.dap.resources import media_type, path
from aggregator.dap.times import Interval
from aggregator.protocol.results import collection_request, open_result
from aggregator.protocol.task import Task, task_from_toml
from tests.support.bounds import assert_near
from tests.support.processes import COMMANDS, Processes, run_prio

pytestmark = pytest.mark.slow

HOUR = 3600
REPORTS = 1500  # of each of two tasks
BUCKETS = 6
REPORTS_PER_REQUEST = 20
LEAST_KILLS = 6
REAPING_SECONDS = 35.0
PATIENCE_SECONDS = 240.0
PACE_SECONDS = 0.15
"""Between a client's requests, so that a quick machine has no fewer deaths in the middle."""


class Reaper:
    """Kills one of the aggregators every now and then, and starts it again on the same store."""

    def __init__(self, services: Processes) -> None:
        self.services = services
        self.kills = Counter[str]()
        self._random = random.Random(20)  # noqa: S311 - no secret

    def reap(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Kill and start again, for so long at most; in the end both aggregators run."""
        deadline = time.monotonic() + seconds
        while not is_over() and time.monotonic() < deadline:
            time.sleep(self._random.uniform(0.1, 0.8))
            name = self._random.choice(["leader", "helper"])
            self.services.kill(name)
            self.kills[name] += 1
            self.services.start(name)


class Patient(httpx.AsyncHTTPTransport):
    """Sends a request again, the same bytes, until there is an answer; keeps every status."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses = Counter[int]()
        self.broken_connections = 0

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await anyio.sleep(PACE_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                response = await super().handle_async_request(request)
                content = await response.aread()
            except httpx.TransportError:
                self.broken_connections += 1
                if time.monotonic() > deadline:
                    raise
                await anyio.sleep(0.1)
            else:
                self.statuses[response.status_code] += 1
                return httpx.Response(
                    response.status_code, headers=response.headers, content=content
                )


@dataclass(frozen=True)
class Asked:
    """A task with what was measured, as its clients and its collector know it."""

    task_id: str
    task_file: Path
    token: str
    measurements: list[int]
    truth: list[int]

    @property
    def task(self) -> Task:
        return task_from_toml(self.task_file.read_text())

    def request(self, start: int) -> CollectionJobReq:
        return collection_request(Interval.of(start // HOUR, 1))


def make(services: Processes, name: str, *privacy: str) -> Asked:
    """Make a histogram task and draw its measurements."""
    task_id, task_file = services.make_task(
        name,
        *("--vdaf", "Prio3Histogram", "--length", str(BUCKETS), *privacy),
        *("--min-batch-size", str(REPORTS), "--max-reports", "100000"),
    )
    secrets = tomllib.loads(task_file.with_name("collector.toml").read_text())["secrets"]
    draw = random.Random(name)  # noqa: S311 - no secret
    measurements = [min(draw.randrange(BUCKETS), draw.randrange(BUCKETS)) for _ in range(REPORTS)]
    truth = [measurements.count(bucket) for bucket in range(BUCKETS)]
    return Asked(task_id, task_file, secrets["collector_token"], measurements, truth)


async def upload(asked: Asked, http: httpx.AsyncClient, start: int) -> None:
    summary = await Client(asked.task, http).upload(
        asked.measurements, time=start, reports_per_request=REPORTS_PER_REQUEST
    )
    assert summary == UploadSummary(REPORTS, {})


async def collect(asked: Asked, http: httpx.AsyncClient, start: int) -> bytes:
    """Ask for the batch until it is there; return the leader's answer as it came."""
    leader = asked.task.configuration.leader_aggregator_endpoint.rstrip("/")
    headers = {
        "authorization": bearer_header(asked.token),
        "content-type": media_type(CollectionJobReq.message),
    }
    created = await http.post(
        leader + path("collection_jobs", task_id=asked.task.task_id),
        content=encode(asked.request(start)),
        headers=headers,
    )
    assert created.is_success, created.text
    body = created.content
    while not body:
        await anyio.sleep(0.2)
        answer = await http.get(leader + created.headers["location"], headers=headers)
        assert answer.is_success, answer.text
        body = answer.content
    return body


async def upload_and_collect(
    services: Processes, tasks: list[Asked], start: int, transport: Patient
) -> list[bytes]:
    """Upload to all tasks at once, aggregators dying all the while, and collect each."""
    bodies: dict[str, bytes] = {}

    async def one(asked: Asked, http: httpx.AsyncClient) -> None:
        await upload(asked, http, start)
        bodies[asked.task_id] = await collect(asked, http, start)

    async def all_of_them(http: httpx.AsyncClient) -> None:
        async with anyio.create_task_group() as group:
            for asked in tasks:
                group.start_soon(one, asked, http)

    reaper = Reaper(services)
    async with (
        httpx.AsyncClient(transport=transport, timeout=30) as http,
        anyio.create_task_group() as group,
    ):
        group.start_soon(all_of_them, http)
        await anyio.to_thread.run_sync(reaper.reap, REAPING_SECONDS, lambda: len(bodies) == 2)
    assert sum(reaper.kills.values()) >= LEAST_KILLS, reaper.kills
    return [bodies[asked.task_id] for asked in tasks]


def test_every_report_is_counted_once_whenever_an_aggregator_dies(tmp_path: Path) -> None:
    start = int(time.time()) // HOUR * HOUR - HOUR
    settings = {"lease_seconds": 2, "work_interval_seconds": 0.2, "aggregation_job_size": 40}
    with Processes(tmp_path, **settings) as services:
        exact = make(services, "exact", "--mechanism", "None")
        noised = make(services, "noised", "--epsilon", "1")
        services.start("leader", "helper")
        transport = Patient()
        bodies = anyio.run(upload_and_collect, services, [exact, noised], start, transport)

        assert set(transport.statuses) <= {200, 201, 202}, "a client that retries sees no failure"
        assert transport.broken_connections, "no request was ever interrupted"
        with open_collector(services.configs["collector"]) as desk:
            results = [
                open_result(
                    asked.task,
                    desk.keypair(),
                    asked.request(start),
                    decode(CollectionJobResp, body),
                )
                for asked, body in zip((exact, noised), bodies, strict=True)
            ]
        assert [result.report_count for result in results] == [REPORTS, REPORTS]
        assert list(results[0].values) == exact.truth
        assert_near(results[1].values, noised.truth, noised.task_file.read_text())
        for party in ("leader", "helper"):
            for asked in (exact, noised):
                shown = services.prio(
                    "task", "show", "--config", services.configs[party], asked.task_id
                )
                assert json.loads(shown.stdout)["reports"]["aggregation"] == {"aggregated": REPORTS}

        # Nothing is drawn again: after another death the sealed bytes are the same.
        for party in ("leader", "helper"):
            services.kill(party)
        services.start(*COMMANDS)

        async def again() -> list[bytes]:
            async with httpx.AsyncClient(timeout=30) as http:
                return [await collect(asked, http, start) for asked in (exact, noised)]

        assert anyio.run(again) == bodies
        interval = ("--start", str(start), "--end", str(start + HOUR))
        done = run_prio(
            "collect",
            *("--config", services.configs["collector"], noised.task_id, *interval, "--json"),
        )
        assert json.loads(done.stdout)["result"]["values"] == list(results[1].values)
