"""Histogram reports of length 256 through the real services, on each database, with costs.

On demand: `pytest -m bench tests/load`. Says what it measured; asserts what must be right, and that
health listeners answer at full load.
"""

import json
import os
import random
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from aggregator.cli.local.load_client import configs
from aggregator.codec import encode
from aggregator.dap.messages import UploadRequest
from aggregator.dap.resources import media_type, path
from aggregator.entropy import SystemEntropy
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from tests.support.bounds import assert_near
from tests.support.empty_store import SERVER
from tests.support.patience import PATIENCE_SECONDS
from tests.support.postgresql import named
from tests.support.processes import COMMANDS, Processes
from tests.support.reports import make_reports
from tests.support.server_costs import ServerCosts

pytestmark = [pytest.mark.bench, pytest.mark.slow, pytest.mark.usefixtures("engine")]

LENGTH = 256
CONNECTIONS = 4
HOUR = 3600
HEALTH_SECONDS = 0.2
"""Within which 99 of 100 answers of a health listener come, whatever the service does."""


def database_costs() -> ServerCosts | None:
    server = os.environ.get(SERVER)
    return None if server is None else ServerCosts.of(named(server, "postgres"))


@contextmanager
def health_asked(services: Processes) -> Iterator[dict[str, list[float]]]:
    """Ask all listeners again and again; yield the seconds of each path.

    The collector's process does nothing meanwhile: its answers say what the machine takes.
    """
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    is_over = threading.Event()

    def ask() -> None:
        with httpx.Client(timeout=30) as http:
            while not is_over.wait(0.05):
                for party in COMMANDS:
                    for path in ("/healthz", "/readyz"):
                        asked = time.monotonic()
                        assert http.get(services.health_url(party) + path).status_code == 200
                        seconds[f"{party} {path}"].append(time.monotonic() - asked)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield seconds
    finally:
        is_over.set()
        asking.join()


def requests(task: Task, measurements: list[int], start: int, per_request: int) -> list[bytes]:
    """Make the bodies of all upload requests, of this many reports each."""
    keys = configs(task)
    return [
        encode(
            UploadRequest(
                tuple(
                    make_reports(
                        task,
                        *keys,
                        measurements[first : first + per_request],
                        task.time(start),
                        SystemEntropy(),
                    )
                )
            )
        )
        for first in range(0, len(measurements), per_request)
    ]


async def upload(task: Task, bodies: list[bytes]) -> Counter[int]:
    """Send all requests over a few connections; return how often each status came."""
    url = task.configuration.leader_aggregator_endpoint.rstrip("/")
    url += path("reports", task_id=task.task_id)
    headers = {"content-type": media_type(UploadRequest.message)}
    statuses: Counter[int] = Counter()
    waiting = iter(bodies)

    async def send(http: httpx.AsyncClient) -> None:
        for body in waiting:
            answer = await http.post(url, content=body, headers=headers)
            statuses[answer.status_code] += 1
            assert not answer.content, "a report was refused"

    async with httpx.AsyncClient(timeout=60) as http, anyio.create_task_group() as group:
        for _ in range(CONNECTIONS):
            group.start_soon(send, http)
    return statuses


def writing_seconds(services: Processes, transaction: str) -> float:
    """Return how long the leader's transactions of a name took together."""
    text = httpx.get(services.health_url("leader") + "/metrics", timeout=PATIENCE_SECONDS).text
    pattern = rf'^prio_transaction_seconds_sum\{{.*transaction="{transaction}".*\}} (\S+)$'
    return sum(map(float, re.findall(pattern, text, re.MULTILINE)))


@pytest.mark.parametrize(
    ("reports", "per_request"), [(20_000, 200), (2000, 1)], ids=["in-tables", "one-by-one"]
)
def test_every_report_is_counted_once(
    reports: int, per_request: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = int(time.time()) // HOUR * HOUR - HOUR
    draw = random.Random(256)  # noqa: S311 - no secret
    measurements = [min(draw.randrange(LENGTH), draw.randrange(LENGTH)) for _ in range(reports)]
    with Processes(tmp_path, linger_seconds=2) as services:
        task_id, task_file = services.make_task(
            "task",
            *("--vdaf", "Prio3Histogram", "--length", str(LENGTH), "--epsilon", "1"),
            *("--min-batch-size", str(reports), "--max-reports", "1000000"),
        )
        task = task_from_toml(task_file.read_text())
        services.start(*COMMANDS)

        before = {party: services.cpu_seconds(party) for party in ("leader", "helper")}
        server_before = database_costs()
        began = time.monotonic()
        bodies = requests(task, measurements, start, per_request)
        made = time.monotonic()
        with health_asked(services) as health:
            statuses = anyio.run(upload, task, bodies)
            uploaded = time.monotonic()
            done = services.prio(
                *("collect", "--config", services.configs["collector"], task_id),
                *("--start", str(start), "--end", str(start + HOUR), "--json"),
            )
        collected = time.monotonic()
        server = database_costs()
        writing = [writing_seconds(services, name) for name in ("upload", "finish aggregation job")]
        used = {party: services.cpu_seconds(party) - before[party] for party in before}

        assert set(statuses) == {200}
        result = json.loads(done.stdout)["result"]
        assert result["report_count"] == reports
        counts = Counter(measurements)
        truth = [counts[bucket] for bucket in range(LENGTH)]
        assert_near(result["values"], truth, task_file.read_text())
        for party in ("leader", "helper"):
            assert services.counts(task_id, party) == {"aggregated": reports}
            failed = [
                line
                for line in services.log(party)
                if line["level"] in {"error", "critical"} or str(line.get("status"))[0] == "5"
            ]
            assert failed == []
        sizes = {
            party: sum(path.stat().st_size for path in tmp_path.glob(f"{party}.sqlite*"))
            for party in ("leader", "helper")
        }
    with capsys.disabled():
        print(  # noqa: T201 - what a measurement is for
            f"\nsharded and sealed: {reports / (made - began):,.0f} reports/s"
            f"\nuploaded: {reports / (uploaded - made):,.0f} reports/s, "
            f"{sum(map(len, bodies)) / reports:,.0f} bytes each"
            f"\nfrom the first upload to the result: {collected - made:.1f} s, "
            f"{reports / (collected - made):,.0f} reports/s"
            f"\nprocessor: leader {1e6 * used['leader'] / reports:,.0f} us per report, "
            f"helper {1e6 * used['helper'] / reports:,.0f} us"
            f"\ntransactions that add to the task: uploads {1e6 * writing[0] / reports:,.0f} us "
            f"per report, jobs {1e6 * writing[1] / reports:,.0f} us"
        )
        if server is None or server_before is None:
            print(  # noqa: T201 - as above
                f"stores: leader {sizes['leader'] / 2**20:.0f} MiB, "
                f"helper {sizes['helper'] / 2**20:.0f} MiB"
            )
        else:
            cpu = server.cpu_seconds - server_before.cpu_seconds
            print(  # noqa: T201 - as above
                f"database of both, per report: {1e6 * cpu / reports:,.0f} us, "
                f"{(server.log - server_before.log) / reports:,.0f} bytes of log, "
                f"{(server.stored - server_before.stored) / reports:,.0f} bytes stored at the end"
            )
        for name, taken in health.items():
            p99 = sorted(taken)[len(taken) * 99 // 100]
            print(f"{name}: {len(taken)} answers, p99 {1000 * p99:.0f} ms")  # noqa: T201 - as above
    for name, taken in health.items():
        if not name.startswith("collector"):
            assert sorted(taken)[len(taken) * 99 // 100] < HEALTH_SECONDS, name
