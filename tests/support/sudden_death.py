"""Services that die at any moment, clients that go on regardless, and reports if they fail."""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import anyio
import anyio.to_thread
import httpx
from typing_extensions import override

from tests.support.measured_task import MeasuredTask
from tests.support.processes import Processes

PATIENCE_SECONDS = 120.0
_SUCCESSES = {200, 201, 202}
_REPORTED_LINES = 25
_REPORTED_BYTES = 600


class Reaper:
    """Kills a service every now and then (SIGKILL), and starts it again on the same store.

    The number of deaths bounds it, not a time: on a busy machine a start takes longer, and a test
    must not become milder there.

    Args:
        services: Runs them.
        names: The services to kill.
        rest_seconds: The shortest and the longest time between a start and the next death.
        seed: The seed of the schedule, so that it can be repeated.
    """

    def __init__(
        self,
        services: Processes,
        names: Sequence[str],
        rest_seconds: tuple[float, float],
        seed: int = 20,
    ) -> None:
        self.kills = Counter[str]()
        self._services = services
        self._names = names
        self._rest_seconds = rest_seconds
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def reap(self, kills: int, is_over: Callable[[], bool]) -> None:
        """Kill and restart at most that many times; in the end all services run."""
        for _ in range(kills):
            time.sleep(self._random.uniform(*self._rest_seconds))
            if is_over():
                return
            name = self._random.choice(self._names)
            self._strike(name)
            self.kills[name] += 1

    def _strike(self, name: str) -> None:
        self._services.kill(name)
        self._services.start(name)


class ReaperOfOne(Reaper):
    """Kills one of the equal processes of a service, in whose place its first one starts another.

    It takes the same arguments.
    """

    @override
    def _strike(self, name: str) -> None:
        while not (children := self._services.children(name)):
            time.sleep(0.05)
        os.kill(self._random.choice(children), signal.SIGKILL)


class Patient(httpx.AsyncHTTPTransport):
    """Repeats a request with the same bytes until there is an answer; records what happened.

    Args:
        pace_seconds: How long to wait before each request.
    """

    def __init__(self, pace_seconds: float = 0.0) -> None:
        super().__init__()
        self.statuses = Counter[int]()
        self.broken_connections = Counter[str]()
        self.failures: list[str] = []
        self._pace_seconds = pace_seconds

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await anyio.sleep(self._pace_seconds)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                response = await super().handle_async_request(request)
                content = await response.aread()
            except httpx.TransportError as error:
                self.broken_connections[type(error).__name__] += 1
                if time.monotonic() > deadline:
                    raise
                await anyio.sleep(0.1)
            else:
                self.statuses[response.status_code] += 1
                if response.status_code not in _SUCCESSES:
                    self.failures.append(
                        f"{request.method} {request.url.path}: status {response.status_code}, "
                        f"{content[:_REPORTED_BYTES]!r}"
                    )
                return httpx.Response(
                    response.status_code, headers=response.headers, content=content
                )

    def assert_no_failure(self) -> None:
        """Check that repeated requests only saw successes, and that some connections broke."""
        assert not self.failures, self.failures
        assert set(self.statuses) <= _SUCCESSES, self.statuses
        assert self.broken_connections, "no request was ever interrupted"


async def upload_and_collect(
    tasks: list[MeasuredTask],
    transport: Patient,
    reaper: Reaper,
    kills: int,
    reports_per_request: int,
) -> list[bytes]:
    """Upload to all tasks at once, aggregators dying all the while, and collect each."""
    bodies: dict[str, bytes] = {}

    async def one(asked: MeasuredTask, http: httpx.AsyncClient) -> None:
        await asked.upload(http, reports_per_request)
        bodies[asked.task_id] = await asked.collect(http)

    async with (
        httpx.AsyncClient(transport=transport, timeout=30) as http,
        anyio.create_task_group() as group,
    ):
        for asked in tasks:
            group.start_soon(one, asked, http)
        await anyio.to_thread.run_sync(reaper.reap, kills, lambda: len(bodies) == len(tasks))
    return [bodies[asked.task_id] for asked in tasks]


@contextmanager
def explained(services: Processes, *witnesses: Reaper | Patient) -> Iterator[None]:
    """Add what the witnesses saw, and the ends of all logs, to any failure inside."""
    try:
        yield
    except BaseException as error:
        for witness in witnesses:
            seen = {name: value for name, value in vars(witness).items() if name[0] != "_"}
            error.add_note(f"{type(witness).__name__}: {seen}")
        for name in services.configs:
            if services.log_path(name).exists():
                error.add_note(f"the {name}'s log:\n" + "\n".join(_telling_lines(services, name)))
        raise


def failures_in_logs(services: Processes, *names: str) -> list[str]:
    """Return the log lines that report an error of ours, or an answer of 500 and above."""
    return [line for name in names for line in _lines(services, name) if _is_failure(line)]


def _telling_lines(services: Processes, name: str) -> list[str]:
    """Return the failures in a log, and its last lines."""
    lines = _lines(services, name)
    failures = [line for line in lines[:-_REPORTED_LINES] if _is_failure(line)]
    return [*failures[-_REPORTED_LINES:], "...", *lines[-_REPORTED_LINES:]]


def _lines(services: Processes, name: str) -> list[str]:
    return services.log_path(name).read_text(errors="replace").splitlines()


def _is_failure(line: str) -> bool:
    try:
        said = json.loads(line)
    except ValueError:
        return bool(line.strip())  # not our own line: a traceback, or a line cut off by a death
    return said.get("level") in {"error", "critical"} or str(said.get("status"))[0] == "5"
