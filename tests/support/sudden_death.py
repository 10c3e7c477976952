"""Services that die at any moment, clients that go on regardless, and reports if they fail."""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import anyio
import anyio.to_thread
import httpx
from typing_extensions import override

from tests.support.measured_task import MeasuredTask
from tests.support.patience import PATIENCE_SECONDS
from tests.support.postgresql import Server
from tests.support.processes import Processes

Action: TypeAlias = Callable[[], object]
LONGEST_SECONDS = 3600.0
"""What stands still fails."""
_SUCCESSES = {200, 201, 202}
_LATER = 503
_OUTAGES = {"Unreachable", "Disconnected"}
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
        self.is_striking = False
        """Whether something is being broken, or is not mended yet."""
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
            name = self._next()
            self.is_striking = True
            self._strike(name)
            self.is_striking = False
            self.kills[name] += 1

    def _next(self) -> str:
        return self._random.choice(self._names)

    def _strike(self, name: str) -> None:
        self._services.kill(name)
        self._services.start(name)


class ReaperOfOne(Reaper):
    """Kills one of the equal processes of a service, in whose place its first one starts another.

    It takes the same arguments.
    """

    @override
    def _strike(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (children := self._services.children(name)):
            assert time.monotonic() < deadline, f"no process of the {name} is left"
            time.sleep(0.05)
        os.kill(self._random.choice(children), signal.SIGKILL)


class ReaperOfAll(ReaperOfOne):
    """Kills a process of a service, the only one of another, or a database's server.

    Each is killed once, in an order of the seed, before any is killed again.

    Args:
        services: Runs the services.
        servers: The servers of databases, by the names under which they are to be killed.
        names: All that are to be killed.
        single: Those of them that are services with one process.
        rest_seconds: As of `Reaper`.
        seed: As of `Reaper`.
    """

    def __init__(
        self,
        services: Processes,
        servers: Mapping[str, Server],
        names: Sequence[str],
        single: Sequence[str],
        rest_seconds: tuple[float, float],
        seed: int,
    ) -> None:
        super().__init__(services, names, rest_seconds, seed)
        self._servers = servers
        self._single = single

    @override
    def _next(self) -> str:
        fewest = min(self.kills[name] for name in self._names)
        return self._random.choice([each for each in self._names if self.kills[each] == fewest])

    @override
    def _strike(self, name: str) -> None:
        if name in self._servers:
            self._servers[name].kill()
            self._servers[name].start()
        elif name in self._single:
            Reaper._strike(self, name)
        else:
            super()._strike(name)


class Outage:
    """Something that begins a while after the first upload, and ends a while later.

    Args:
        begin: Begins it.
        end: Ends it.
        seconds: How long it lasts.
    """

    FIRST_SECONDS = 3.0

    def __init__(self, begin: Action, end: Action, seconds: float) -> None:
        self.was_over: bool | None = None
        """Whether everything was done before it ended: then it has shown nothing."""
        self._begin, self._end, self._seconds = begin, end, seconds

    def reap(self, _: int, is_over: Callable[[], bool]) -> None:
        """Let it begin and end."""
        time.sleep(self.FIRST_SECONDS)
        self._begin()
        time.sleep(self._seconds)
        self.was_over = is_over()
        self._end()


class Patient(httpx.AsyncHTTPTransport):
    """Repeats a request with the same bytes until there is an answer; records what happened.

    Args:
        pace_seconds: How long to wait before each request.
        through_outages: Whether an answer to come again later (503) is none either.
    """

    def __init__(self, pace_seconds: float = 0.0, *, through_outages: bool = False) -> None:
        super().__init__()
        self._through_outages = through_outages
        self.statuses = Counter[int]()
        self.broken_connections = Counter[str]()
        self.failures: list[str] = []
        self._pace_seconds = pace_seconds
        self.is_away: Callable[[], bool] = lambda: False
        """Whether a service may be away, for however long: then nobody loses patience."""

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
                if self.is_away():
                    deadline = time.monotonic() + PATIENCE_SECONDS
                elif time.monotonic() > deadline:
                    raise
                await anyio.sleep(0.1)
            else:
                self.statuses[response.status_code] += 1
                if self._through_outages and response.status_code == _LATER:
                    if self.is_away():
                        deadline = time.monotonic() + PATIENCE_SECONDS
                    else:
                        assert time.monotonic() < deadline, content
                    await anyio.sleep(0.3)
                    continue
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
    reaper: Reaper | Outage,
    kills: int,
    reports_per_request: int,
) -> list[bytes]:
    """Upload to all tasks at once, aggregators dying all the while, and collect each.

    Raises:
        TimeoutError: It took longer than `LONGEST_SECONDS`.
    """
    bodies: dict[str, bytes] = {}
    if isinstance(reaper, Reaper):
        transport.is_away = lambda: reaper.is_striking

    async def one(asked: MeasuredTask, http: httpx.AsyncClient) -> None:
        await asked.upload(http, reports_per_request)
        bodies[asked.task_id] = await asked.collect(http)

    with anyio.fail_after(LONGEST_SECONDS):
        async with (
            httpx.AsyncClient(transport=transport, timeout=30) as http,
            anyio.create_task_group() as group,
        ):
            for asked in tasks:
                group.start_soon(one, asked, http)
            await anyio.to_thread.run_sync(
                reaper.reap, kills, lambda: len(bodies) == len(tasks), abandon_on_cancel=True
            )
    return [bodies[asked.task_id] for asked in tasks]


def survive(
    services: Processes,
    names: Sequence[str],
    tasks: list[MeasuredTask],
    transport: Patient,
    fault: Reaper | Outage,
    *,
    reports_per_request: int,
    kills: int = 0,
) -> None:
    """Upload and collect while something goes wrong, and compare the books.

    Every report is counted once by both aggregators, each batch is released once, whoever asks
    again gets the same bytes, and nobody saw or logged a failure but that a store was away.

    Args:
        services: Runs the services.
        names: Those that run.
        tasks: What is uploaded and collected.
        transport: The clients' and the collector's.
        fault: What goes wrong.
        reports_per_request: How many reports a request carries.
        kills: How many deaths, if the fault is deaths.
    """
    with explained(services, fault, transport):
        services.start(*names)
        bodies = anyio.run(upload_and_collect, tasks, transport, fault, kills, reports_per_request)
        assert transport.failures == []
        assert failures_in_logs(services, *names, through_outages=True) == []
        stop_and_compare(services, names, tasks, bodies)


def stop_and_compare(
    services: Processes, names: Sequence[str], tasks: Sequence[MeasuredTask], bodies: list[bytes]
) -> None:
    """Compare the books of services that hold these answers to collections, and stop them."""
    for asked, body in zip(tasks, bodies, strict=True):
        asked.assert_right(asked.open(body))
        asked.assert_counted_once()

    async def again() -> list[bytes]:
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as http:
            return [await asked.collect(http) for asked in tasks]

    assert anyio.run(again) == bodies
    assert [services.stop(name) for name in names] == [0] * len(names)
    for party in ("leader", "helper"):
        journal = services.folder / f"{party}.sqlite.journal"
        assert len(journal.read_text().splitlines()) == 1 + len(tasks)


@contextmanager
def explained(services: Processes, *witnesses: Reaper | Outage | Patient) -> Iterator[None]:
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


def failures_in_logs(services: Processes, *names: str, through_outages: bool = False) -> list[str]:
    """Return the log lines that report an error of ours, or an answer of 500 and above.

    Args:
        services: Whose logs.
        names: Of which of them.
        through_outages: Whether those are left out that say that a store cannot be reached.
    """
    lines = [line for name in names for line in _lines(services, name) if _is_failure(line)]
    return [line for line in lines if not (through_outages and _is_of_outage(line))]


def _telling_lines(services: Processes, name: str) -> list[str]:
    """Return the failures in a log, and its last lines."""
    lines = _lines(services, name)
    failures = [line for line in lines[:-_REPORTED_LINES] if _is_failure(line)]
    return [*failures[-_REPORTED_LINES:], "...", *lines[-_REPORTED_LINES:]]


def _lines(services: Processes, name: str) -> list[str]:
    """Return a log's lines; what is being written is none yet."""
    text = services.log_path(name).read_text(errors="replace")
    return text.rpartition("\n")[0].splitlines()


def _is_of_outage(line: str) -> bool:
    try:
        said = json.loads(line)
    except ValueError:  # the last words of one that could not begin
        return line.startswith("prio: ") and "cannot be reached" in line
    return (
        said.get("status") == _LATER
        or said.get("exception") in _OUTAGES
        or said.get("event") == "the store cannot be reached"
    )


def _is_failure(line: str) -> bool:
    try:
        said = json.loads(line)
    except ValueError:
        return bool(line.strip())  # not our own line: a traceback, or a line cut off by a death
    return said.get("level") in {"error", "critical"} or str(said.get("status"))[0] == "5"
