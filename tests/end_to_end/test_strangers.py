"""What a stranger sends costs the services no more than a bound, and keeps nobody else waiting.

Small here; at the sizes at which the old services gave in with `-m bench`.
"""

import itertools
import resource
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from aggregator.dap.profile import Role
from aggregator.dap.resources import resources_of
from tests.support import hostile
from tests.support.flat import repeat_until_flat
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import Processes

pytestmark = pytest.mark.slow

MIB = 2**20
BATCH = ("--min-batch-size", "2", "--max-reports", "1000")
SMALL, FULL = 1, 16
SIZES = [
    pytest.param(SMALL, id="small"),
    pytest.param(FULL, id="full", marks=pytest.mark.bench),
]
LIMIT = 600
"""MiB that a service may ever have."""

GROWTH = 100
"""MiB that it may grow by where little is sent."""


REQUESTS, CONNECTIONS = 100_000, 1_000
"""What each resource has to bear."""

FLOODS = 4
"""In how many parts, at least: memory is compared from one to the next."""


class Attacked(NamedTuple):
    """A method of a resource of a service; the path has the task in braces."""

    service: str
    method: str
    path: str


RESOURCES = (
    *(
        Attacked(role.name.lower(), each.method, each.template.removeprefix("/"))
        for role in (Role.LEADER, Role.HELPER)
        for each in resources_of(role)
    ),
    Attacked("collector", "GET", "api/tasks"),
    Attacked("collector", "GET", "api/tasks/{task_id}"),
    Attacked("collector", "GET", "api/tasks/{task_id}/collections"),
    Attacked("collector", "POST", "api/tasks/{task_id}/collections"),
    Attacked("collector", "GET", "api/collections/{collection_id}"),
)
ATTACKS = [
    *(
        pytest.param([each for each in RESOURCES if each.service == name], 200, 30, id=name)
        for name in ("leader", "helper", "collector")
    ),
    *(
        pytest.param([each], REQUESTS, CONNECTIONS, id="-".join(each), marks=pytest.mark.bench)
        for each in RESOURCES
    ),
]


class Line:
    """Three services with a task, and what each held before anything was sent."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        task_id, task_file = processes.make_task(
            "survey", "--vdaf", "Prio3Histogram", "--length", "256", "--epsilon", "1", *BATCH
        )
        secrets = tomllib.loads(task_file.with_name("leader.toml").read_text())["secrets"]
        self.leader_token: str = secrets["leader_token"]
        self.honest_id, self.honest_file = processes.make_task(
            *("honest", "--vdaf", "Prio3Count", "--epsilon", "1"),
            *("--min-batch-size", "2", "--max-reports", "1000000"),
        )
        self.uploaded = 0
        processes.start("helper", "leader", "collector")
        self.task_id = task_id
        self.tokens: dict[str, str] = {
            "leader": secrets["collector_token"],
            "helper": self.leader_token,
            "collector": processes.collector_token,
        }
        self.reports = f"{processes.urls['leader']}tasks/{task_id}/reports"
        self.jobs = f"{processes.urls['helper']}tasks/{task_id}/aggregation_jobs"
        processes.prio("upload", task_file, "1", "0", "1")
        self.seconds_of_honest_work()
        self.before: dict[str, int] = {}

    def config_of(self, name: str) -> str:
        """Return a URL at which everybody gets an answer, if only that something is missing."""
        return f"{self.processes.urls[name]}hpke_config"

    def url_of(self, attacked: Attacked) -> str:
        path = attacked.path.replace("{task_id}", self.task_id)
        ids = ("aggregation_job_id", "collection_job_id", "aggregate_share_id", "collection_id")
        for each in ids:
            path = path.replace(f"{{{each}}}", "A" * 22)
        return f"{self.processes.urls[attacked.service]}{path}"

    def seconds_of_honest_work(self) -> float:
        """Upload a few reports of another task; return when both have aggregated them."""
        began = time.monotonic()
        self.uploaded += 3
        self.processes.prio("upload", self.honest_file, "1", "0", "1")
        while self.aggregated() < self.uploaded:
            assert time.monotonic() < began + PATIENCE_SECONDS, self.aggregated()
            time.sleep(0.2)
        return time.monotonic() - began

    def aggregated(self) -> int:
        return self.processes.counts(self.honest_id)["aggregated"]

    def bear(self, name: str, scale: int, attack: Callable[[], object]) -> None:
        """Attack until memory is flat: the service is there and has not grown beyond its bound."""
        self.check(name, scale, repeat_until_flat(self.processes, name, attack))

    def check(self, name: str, scale: int, peak: int) -> None:
        """Whatever was sent, the service is there and has not grown beyond its bound."""
        assert hostile.answers(self.config_of(name))
        print(f"{name}: {self.before[name]} to {peak} MiB")  # noqa: T201 - a measurement, with -s
        assert peak < LIMIT
        if scale == SMALL:
            assert peak < self.before[name] + GROWTH


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with Processes(tmp_path_factory.mktemp("strangers")) as processes:
        processes.started_as = subprocess.Popen
        yield Line(processes)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def line(started: Line) -> Line:
    for name in ("leader", "helper", "collector"):
        started.processes.forget_peak_memory(name)
        started.before[name] = started.processes.peak_memory(name)
    return started


@pytest.mark.parametrize("scale", SIZES)
@pytest.mark.parametrize(
    "report", [hostile.report_of_extensions(), hostile.small_report()], ids=["extended", "smallest"]
)
def test_bytes_that_are_not_reports_cost_no_more_than_their_size(
    line: Line, report: bytes, scale: int
) -> None:
    count = 4 * MIB * scale // len(report)
    size = count * len(report)

    def attack() -> None:
        with hostile.connect(line.reports, 120) as connection:
            head = hostile.post(line.reports, "upload-req", size)
            hostile.send(connection, itertools.chain([head], hostile.repeated(report, size)))
            assert hostile.status_of(connection) in (200, 413, None)

    line.bear("leader", scale, attack)


@pytest.mark.parametrize("scale", SIZES)
@pytest.mark.parametrize("name", ["leader", "helper"])
def test_a_header_without_end_is_cut_off(line: Line, name: str, scale: int) -> None:
    url = line.config_of(name)

    def attack() -> None:
        with hostile.connect(url, 30) as connection:
            connection.sendall(hostile.head("GET", url) + b"X-Endless: ")
            sent = hostile.send(connection, hostile.repeated(b"x", 25 * MIB * scale))
            assert sent < 25 * MIB * scale

    line.bear(name, scale, attack)


@pytest.mark.parametrize("scale", SIZES)
def test_uploads_that_stop_short_hold_nobody_up(line: Line, scale: int) -> None:
    size = 4 * MIB

    def attack() -> None:
        with ExitStack() as stack:
            for _ in range(16 * scale):
                connection = stack.enter_context(hostile.connect(line.reports))
                head = hostile.post(line.reports, "upload-req", size)
                hostile.send(connection, itertools.chain([head], hostile.repeated(b"\0", size - 1)))
            task = line.processes.folder / "survey" / "task.toml"
            assert "2 of 2" in line.processes.prio("upload", task, "1", "1").stdout

    line.bear("leader", scale, attack)


@pytest.mark.parametrize("scale", SIZES)
def test_silent_connections_hold_nobody_up_and_do_not_stay(line: Line, scale: int) -> None:
    url = line.config_of("leader")
    with ExitStack() as stack:
        connections = [
            stack.enter_context(hostile.connect(url))
            for _ in range(600 if scale == SMALL else 1000)
        ]
        for connection in connections[::2]:
            hostile.send(connection, iter([hostile.head("GET", url)]))
        line.check("leader", scale, line.processes.peak_memory("leader"))
        wait_until(lambda: not any(hostile.is_open(each) for each in connections))


@pytest.mark.parametrize("scale", SIZES)
def test_a_leader_cannot_fill_its_helper_with_a_job(line: Line, scale: int) -> None:
    report = hostile.verify_init_of_extensions()
    size = 7 + 3 * MIB * scale // len(report) * len(report)
    head = hostile.post(
        line.jobs,
        "aggregation-job-init-req",
        size,
        f"Authorization: Bearer {line.leader_token}",
    )

    def attack() -> None:
        with hostile.connect(line.jobs, 120) as connection:
            body = hostile.repeated(report, size - 7)
            hostile.send(connection, itertools.chain([head, bytes(7)], body))
            assert hostile.status_of(connection) in (201, 400, 413, None)

    line.bear("helper", scale, attack)


@pytest.mark.parametrize(("resources", "requests", "connections"), ATTACKS)
def test_hostile_requests_and_slow_connections_stop_no_work_and_leave_no_growth(
    line: Line, resources: Sequence[Attacked], requests: int, connections: int
) -> None:
    """Small: all resources of a service at once. At full size: each by itself."""
    name = resources[0].service

    def attack() -> None:
        with ExitStack() as stack:
            floods = [
                stack.enter_context(
                    hostile.Flood(
                        each.method, line.url_of(each), line.tokens[name], requests // FLOODS
                    )
                )
                for each in resources
            ]
            began = time.monotonic()
            seconds = [line.seconds_of_honest_work()]
            while not all(flood.is_over for flood in floods):
                seconds.append(line.seconds_of_honest_work())
        print(f"honest work {len(seconds)} times, at most {max(seconds):.1f} s each")  # noqa: T201 - a measurement, with -s
        for each, flood in zip(resources, floods, strict=True):
            print(*each, f"{flood}; {time.monotonic() - began:.0f} s")  # noqa: T201 - as above
            assert flood.faults == {}

    with ExitStack() as stack:
        slow = []
        for url in map(line.url_of, resources):
            ways = itertools.cycle(hostile.slow_beginnings(url))
            for way in itertools.islice(ways, connections):
                slow.append(stack.enter_context(hostile.connect(url)))
                hostile.send(slow[-1], iter([way]))
        line.bear(name, SMALL, attack)
        if connections == CONNECTIONS:
            wait_until(lambda: not any(hostile.is_open(each) for each in slow))
    assert [each for each in line.processes.log(name) if each["level"] == "error"] == []
