"""What a stranger sends costs the services no more than a bound, and keeps nobody else waiting.

Small here; at the sizes at which the old services gave in with `-m bench`.
"""

import itertools
import resource
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.support import hostile
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


class Line:
    """A leader and a helper with a task, and what they held before anything was sent."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        task_id, task_file = processes.make_task(
            "survey", "--vdaf", "Prio3Histogram", "--length", "256", "--epsilon", "1", *BATCH
        )
        secrets = tomllib.loads(task_file.with_name("leader.toml").read_text())["secrets"]
        self.leader_token: str = secrets["leader_token"]
        processes.start("helper", "leader")
        self.reports = f"{processes.urls['leader']}tasks/{task_id}/reports"
        self.jobs = f"{processes.urls['helper']}tasks/{task_id}/aggregation_jobs"
        processes.prio("upload", task_file, "1", "0", "1")
        self.before: dict[str, int] = {}

    def config_of(self, name: str) -> str:
        return f"{self.processes.urls[name]}hpke_config"

    def check(self, name: str, scale: int) -> None:
        """Whatever was sent, the service is there and has not grown beyond its bound."""
        assert hostile.seconds_to_answer(self.config_of(name)) < 5
        peak = self.processes.peak_memory(name)
        print(f"{name}: {self.before[name]} to {peak} MiB")  # noqa: T201 - a measurement, with -s
        assert peak < LIMIT
        if scale == SMALL:
            assert peak < self.before[name] + GROWTH


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with Processes(tmp_path_factory.mktemp("strangers")) as processes:
        yield Line(processes)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def line(started: Line) -> Line:
    for name in ("leader", "helper"):
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
    with hostile.connect(line.reports, 120) as connection:
        head = hostile.post(line.reports, "upload-req", size)
        hostile.send(connection, itertools.chain([head], hostile.repeated(report, size)))
        assert hostile.status_of(connection) in (200, 413, None)
    line.check("leader", scale)


@pytest.mark.parametrize("scale", SIZES)
@pytest.mark.parametrize("name", ["leader", "helper"])
def test_a_header_without_end_is_cut_off(line: Line, name: str, scale: int) -> None:
    url = line.config_of(name)
    with hostile.connect(url, 30) as connection:
        connection.sendall(hostile.head("GET", url) + b"X-Endless: ")
        sent = hostile.send(connection, hostile.repeated(b"x", 25 * MIB * scale))
        assert sent < 25 * MIB * scale
    line.check(name, scale)


@pytest.mark.parametrize("scale", SIZES)
def test_uploads_that_stop_short_hold_nobody_up(line: Line, scale: int) -> None:
    size = 4 * MIB
    with ExitStack() as stack:
        for _ in range(16 * scale):
            connection = stack.enter_context(hostile.connect(line.reports))
            head = hostile.post(line.reports, "upload-req", size)
            hostile.send(connection, itertools.chain([head], hostile.repeated(b"\0", size - 1)))
        line.check("leader", FULL)
        done = line.processes.prio(
            "upload", line.processes.folder / "survey" / "task.toml", "1", "1"
        )
        assert "2 of 2" in done.stdout


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
        line.check("leader", scale)
        time.sleep(12)
        assert not any(hostile.is_open(each) for each in connections)


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
    with hostile.connect(line.jobs, 120) as connection:
        body = hostile.repeated(report, size - 7)
        hostile.send(connection, itertools.chain([head, bytes(7)], body))
        assert hostile.status_of(connection) in (201, 400, 413, None)
    line.check("helper", scale)


@pytest.mark.parametrize("scale", [pytest.param(FULL, marks=pytest.mark.bench)])
def test_a_hundred_thousand_hostile_requests_leave_no_growth(line: Line, scale: int) -> None:
    bodies = [b"", b"\xff" * 100, hostile.small_report(), bytes(5000)]
    media_type = {"Content-Type": "application/ppm-dap;message=upload-req"}
    address = urlsplit(line.reports)
    for _ in range(1000):
        with closing(HTTPConnection(address.netloc, timeout=10)) as connection:
            for body in itertools.islice(itertools.cycle(bodies), 100):
                connection.request("POST", address.path, body, media_type)
                assert connection.getresponse().read() is not None
    line.check("leader", SMALL)
    line.check("helper", scale)
