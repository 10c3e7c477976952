"""A disk that fills during uploads and between the steps of collections, in either database.

Over PostgreSQL on demand: `pytest -m bench tests/end_to_end/test_full_disk_at_any_moment.py`.
"""

import dataclasses
import shutil
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, TypeVar

import anyio
import httpx
import psycopg
import pytest
from typing_extensions import override

from aggregator.service.storage.opening import journal_at
from tests.support.empty_store import new_place
from tests.support.faulty_peer import Call, FaultyPeer
from tests.support.measured_task import HOUR, MeasuredTask, make_measured_task
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.postgresql import Server, execute
from tests.support.processes import Processes
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.sudden_death import LONGEST_SECONDS, Patient, explained, failures_in_logs

pytestmark = pytest.mark.slow

PARTIES = ("leader", "helper")
REPORTS, REPORTS_PER_REQUEST, LENGTH = 200, 20, 256
"""Of each of two tasks. A sealed share has 4 kB, for which a table needs room."""
DISK = 256 * 2**20
FULL_SECONDS = 4.0
"""For how long the disk stays full once it was noticed."""
EARLY = 4
"""Uploads that are accepted before the disk is full."""
SETTINGS = {
    "request_timeout_seconds": 5,
    "work_interval_seconds": 0.2,
    "aggregation_job_size": 100,
}
T = TypeVar("T")
Step: TypeAlias = Callable[[MeasuredTask, httpx.AsyncClient], Awaitable[T]]


@dataclasses.dataclass
class Place:
    """Two aggregators, and the disk on which something of theirs lies.

    Attributes:
        services: The aggregators.
        disk: The disk.
        journals: Where each keeps its journal of releases.
        server: The database server whose data lie on the disk, if any.
        has_stores: Whether the stores lie there, or the journals only.
        has_log: Whether the server's log lies there.
    """

    services: Processes
    disk: SmallDisk
    journals: dict[str, str]
    server: Server | None = None
    has_stores: bool = True
    has_log: bool = False

    def troubles(self) -> int:
        """Return how many failures the aggregators have logged so far."""
        return len(failures_in_logs(self.services, *PARTIES))

    def leader_could_not(self) -> bool:
        """Return whether the leader could not release, if it needs the disk for that."""
        said = self.services.log_path("leader").read_text()
        return not self.has_stores or "transaction 'release batch'" in said

    def fill(self) -> None:
        """Leave no room, not even in what SQLite has for its log already."""
        for store in self.disk.folder.glob("*.sqlite"):
            with closing(sqlite3.connect(store)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.disk.fill()

    def stay_full(self, troubles: int, then: Callable[[], None] = lambda: None) -> None:
        """Leave the disk full until there are more troubles and a while longer; make room.

        Args:
            troubles: How many there were before.
            then: To be done before there is room.
        """
        wait_until(lambda: self.troubles() > troubles)
        if self.server is not None and self.has_log:
            fill_log(self.server)
            wait_until(lambda: self.server is not None and not self.server.is_running)
        time.sleep(FULL_SECONDS)
        then()
        self.disk.make_room()
        if self.server is not None:
            revive(self.server)

    def releases(self, party: str) -> int:
        """Return how many releases are in a party's journal."""
        journal = journal_at(self.journals[party])
        try:
            return len(journal.releases())
        finally:
            journal.close()


def fill_log(server: Server) -> None:
    """Write to the server's log until it has no room, upon which the server ends connections."""
    message = "SELECT pg_logical_emit_message(false, '', repeat('x', 1000000))"
    with pytest.raises(psycopg.OperationalError):
        execute(server.url, *[message] * 1000)


def revive(server: Server) -> None:
    """Start a server if it has ended, and wait until it answers."""

    def answers() -> bool:
        if not server.is_running:
            server.start()
        with suppress(psycopg.OperationalError):
            execute(server.url, "SELECT 1")
            return True
        return False

    wait_until(answers)


class Gate:
    """Passes requests on to the helper, and fills the disk when a share is asked for.

    Attributes:
        moment: `before` the helper is asked or `after` it has answered; None to leave it be.
        filled: Set when the disk was filled.
        shares: What the helper answered to each request for a share.
    """

    def __init__(self, fill: Callable[[], None]) -> None:
        self.moment: str | None = None
        self.filled = threading.Event()
        self.shares: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self.statuses: list[int] = []
        self._fill = fill
        self._lock = threading.Lock()

    def __call__(self, call: Call) -> None:
        if not call.path.endswith("aggregate_shares"):
            call.pass_on()
            return
        self._fill_if("before")
        answer = call.ask_behind()
        with self._lock:
            self.statuses.append(answer.status_code)
            if answer.is_success:
                self.shares[call.body].append(answer.content)
        if answer.is_success:
            self._fill_if("after")
        call.repeat(answer)

    def _fill_if(self, moment: str) -> None:
        with self._lock:
            if self.moment == moment:
                self.moment = None
                self._fill()
                self.filled.set()

    def be(self) -> None:
        """Expect nothing any more."""
        self.moment = None

    def was_refused(self) -> bool:
        """Return whether the helper could not release."""
        return 503 in self.statuses

    def expect(self, moment: str) -> None:
        """Fill the disk at the next such moment."""
        self.filled.clear()
        self.moment = moment


class Uploading(Patient):
    """Lets a few uploads through, and all others once the disk is full.

    Attributes:
        accepted: How many were accepted.
        is_full: To be set then.
    """

    def __init__(self) -> None:
        super().__init__(0.2, through_outages=True)
        self.accepted = 0
        self.is_full = threading.Event()

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        while self.accepted >= EARLY and not self.is_full.is_set():  # noqa: ASYNC110 - a thread sets it
            await anyio.sleep(0.05)
        answer = await super().handle_async_request(request)
        self.accepted += request.method == "POST" and answer.is_success
        return answer


def all_at_once(
    tasks: list[MeasuredTask], step: Step[T], transport: httpx.AsyncBaseTransport | None = None
) -> list[T]:
    """Do the same for all tasks, in one event loop."""
    results: dict[str, T] = {}

    async def one(task: MeasuredTask, http: httpx.AsyncClient) -> None:
        results[task.task_id] = await step(task, http)

    async def run() -> None:
        with anyio.fail_after(LONGEST_SECONDS):
            async with (
                httpx.AsyncClient(transport=transport, timeout=PATIENCE_SECONDS) as http,
                anyio.create_task_group() as group,
            ):
                for task in tasks:
                    group.start_soon(one, task, http)

    anyio.run(run)
    return [results[task.task_id] for task in tasks]


def settle_in(services: Processes, disk: SmallDisk, kind: str = "") -> dict[str, str]:
    """Keep files of both aggregators on the disk, all or one kind; return those of journals."""
    for party in PARTIES:
        config = services.configs[party]
        name = f'"{party}.sqlite{kind}'
        there = name.replace('"', f'"{disk.folder}/')
        config.write_text(config.read_text().replace(name, there))
    return {party: f"{disk.folder}/{party}.sqlite.journal" for party in PARTIES}


@contextmanager
def in_files(folder: Path) -> Iterator[Place]:
    """Both stores, their journals and their keys are files on the disk."""
    with small_disk(DISK) as disk, Processes(folder, **SETTINGS) as services:
        yield Place(services, disk, settle_in(services, disk))


@contextmanager
def server_on(disk: SmallDisk, *, has_log: bool = True) -> Iterator[Server]:
    """Run a server whose data lie on the disk, with its log in small files or elsewhere."""
    with ExitStack() as stack:
        options = ["--wal-segsize=1"]
        if not has_log:
            log = stack.enter_context(TemporaryDirectory(prefix="prio-log-"))
            shutil.chown(log, "postgres")
            options.append(f"--waldir={log}/pg_wal")
        server = Server(disk.folder)
        server.make(*options)
        server.start()
        stack.callback(server.stop)
        yield server


@contextmanager
def on_a_server(folder: Path, *, has_log: bool) -> Iterator[Place]:
    """Both stores are on a server, whose data and perhaps log are on the disk, as the journals."""
    with small_disk(DISK) as disk, server_on(disk, has_log=has_log) as server:
        urls = dict.fromkeys(PARTIES, server.url)
        with Processes(folder, urls, **SETTINGS) as services:
            journals = settle_in(services, disk, ".journal")
            yield Place(services, disk, journals, server, has_log=has_log)


@contextmanager
def journals_on_a_server(folder: Path) -> Iterator[Place]:
    """Both stores are files elsewhere, and the journals on a server whose data are on the disk."""
    with (
        small_disk(DISK) as disk,
        server_on(disk) as server,
        Processes(folder, **SETTINGS) as services,
    ):
        journals = {party: new_place(folder / f"{party}.journal", server.url) for party in PARTIES}
        for party, url in journals.items():
            services.change(party, release_journal=url)
        yield Place(services, disk, journals, server, has_stores=False)


PLACES = [
    pytest.param(in_files, id="files"),
    *(
        pytest.param(place, id=name, marks=pytest.mark.bench)
        for name, place in (
            ("server", partial(on_a_server, has_log=False)),
            ("server-and-log", partial(on_a_server, has_log=True)),
            ("journals", journals_on_a_server),
        )
    ),
]


def upload_while_it_is_full(place: Place, tasks: list[MeasuredTask], threads: Executor) -> None:
    """Fill the disk when some reports are accepted; the rest are accepted when there is room."""
    transport = Uploading()
    troubles = place.troubles()
    uploading = threads.submit(
        all_at_once, tasks, lambda task, http: task.upload(http, REPORTS_PER_REQUEST), transport
    )
    wait_until(lambda: transport.accepted >= EARLY)
    place.fill()
    transport.is_full.set()
    if place.has_stores:
        wait_until(lambda: transport.statuses[503], "uploads are refused meanwhile")
        place.stay_full(troubles)
    else:
        time.sleep(FULL_SECONDS)
        place.disk.make_room()
    uploading.result()
    assert transport.failures == []


def collect_while_it_is_full(
    place: Place, tasks: list[MeasuredTask], gate: Gate, threads: Executor
) -> list[bytes]:
    """Fill the disk before the request, before the helper's release and before the leader's."""
    transport = Patient(0.2, through_outages=True)
    place.fill()
    collecting: Future[list[bytes]] = threads.submit(
        all_at_once, tasks, lambda task, http: task.collect(http), transport
    )
    time.sleep(FULL_SECONDS)  # what is small may be stored all the same
    gate.expect("before")
    place.disk.make_room()
    troubles = place.troubles()
    assert gate.filled.wait(PATIENCE_SECONDS)
    wait_until(gate.was_refused)
    place.stay_full(troubles, then=lambda: gate.expect("after"))
    is_seen = False
    while not is_seen:
        troubles = place.troubles()
        assert gate.filled.wait(PATIENCE_SECONDS)
        # On a slow machine the leader has given the step up, whose lease it cannot renew.
        time.sleep(2 * SETTINGS["request_timeout_seconds"])  # longer than a lease
        is_seen = place.leader_could_not()
        place.stay_full(troubles, then=gate.be if is_seen else lambda: gate.expect("after"))
    bodies = collecting.result()
    assert transport.failures == []
    return bodies


@pytest.mark.parametrize("place_in", PLACES)
def test_a_disk_that_fills_at_any_moment_loses_no_report_and_repeats_no_release(
    tmp_path: Path, place_in: Callable[[Path], AbstractContextManager[Place]]
) -> None:
    with ExitStack() as stack:
        place = stack.enter_context(place_in(tmp_path))
        services, gate = place.services, Gate(place.fill)
        helper = stack.enter_context(FaultyPeer(services.urls["helper"], gate))
        threads = stack.enter_context(ThreadPoolExecutor(1))
        start = int(time.time()) // HOUR * HOUR - HOUR
        tasks = [
            make_measured_task(
                services, name, REPORTS, LENGTH, start, privacy, f"--helper={helper.url}"
            )
            for name, privacy in (("exact", "--mechanism=None"), ("noised", "--epsilon=1"))
        ]
        stack.enter_context(explained(services))
        services.start(*PARTIES)
        upload_while_it_is_full(place, tasks, threads)
        bodies = collect_while_it_is_full(place, tasks, gate, threads)
        for task, body in zip(tasks, bodies, strict=True):
            task.assert_right(task.open(body))
            task.assert_counted_once()
        assert all_at_once(tasks, lambda task, http: task.collect(http)) == bodies
        said = {line.get("database_error") for party in PARTIES for line in services.log(party)}
        assert {"SQLITE_FULL: the disk is full", "SQLSTATE 53100"} & said
        assert [len(set(shares)) for shares in gate.shares.values()] == [1] * len(tasks)
        assert [place.releases(party) for party in PARTIES] == [len(tasks)] * len(PARTIES)
        assert [services.exit_status(party) for party in PARTIES] == [None] * len(PARTIES)
