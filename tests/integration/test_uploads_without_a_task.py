"""A lone report that comes whole is answered without a task, as it would be with one."""

import asyncio
import gc
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPResponse
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from anyio import to_thread
from structlog.testing import capture_logs

from aggregator.cli.service.running import Answering
from aggregator.codec import encode
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import UploadErrors, UploadRequest
from aggregator.dap.profile import Role
from aggregator.dap.resources import media_type, resources_of
from aggregator.service.leader.routes import LeaderResources
from aggregator.service.leader.upload_group import Upload
from aggregator.service.storage.engine.backends import Busy
from aggregator.service.storage.reports.counters import Stage, report_counts
from aggregator.service.storage.tasks.tasks import end_task
from aggregator.service.telemetry import metrics
from aggregator.service.web import app as web_app
from aggregator.service.web import prompt_connection
from aggregator.service.web.app import Edge, create_app
from aggregator.service.web.at_once import SHORT_BODY, WholeRequest
from aggregator.service.web.body_budget import BodyBudget
from aggregator.service.web.connections import BoundedConnection
from aggregator.service.web.cross_origin import CrossOrigin
from tests.support.pair import LEADER_SETTINGS, Pair, nothing_happens, pair_of
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.serving import serving
from tests.support.tasks import TASK_ID

pair = pair_of()

MEDIA_TYPE = media_type(UploadRequest.message)


class Told(NamedTuple):
    """An answer; its headers without those that differ each time."""

    status: int
    headers: dict[str, str]
    body: bytes


class Leader:
    """A leader's application on a socket, and how many requests had a task."""

    def __init__(self, pair: Pair, **limits: float) -> None:
        resources = LeaderResources(pair.leader.runtime, LEADER_SETTINGS)
        most = int(limits.pop("max_bytes_in_flight", 2**26))
        inside = create_app(
            "leader",
            [resources.router()],
            most,
            fast_routes=resources.fast_routes(),
            at_once=resources.at_once(),
            **limits,
        )
        self.answering = Answering(CrossOrigin(inside, resources_of(Role.LEADER)))
        self.path = f"/tasks/{pair.task.task_id}/reports"
        self.uploads = resources._uploads
        self.address = ("", 0)
        self.tasks = 0

    @contextmanager
    def served(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        real = Edge.__call__

        async def counted(edge: Edge, *asked: object) -> None:
            self.tasks += 1
            await real(edge, *asked)  # type: ignore[arg-type]  # as they come

        monkeypatch.setattr(Edge, "__call__", counted)
        with serving(self.answering) as url:
            parts = urlsplit(url)
            self.address = (parts.hostname or "", parts.port or 0)
            yield

    def request(self, body: bytes, *more: str, version: str = "1.1", path: str = "") -> bytes:
        lines = [f"POST {path or self.path} HTTP/{version}", "host: x", *more]
        if not any(line.startswith("content-type") for line in more):
            lines.append(f"content-type: {MEDIA_TYPE}")
        if "transfer-encoding: chunked" in more:
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        else:
            lines.append(f"content-length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, PATIENCE_SECONDS)

    def ask(self, *pieces: bytes) -> Told:
        """Send a request, the rest of it once its beginning is being answered by a task."""
        before = self.tasks
        with closing(self.connect()) as connection:
            for piece in pieces[:-1]:
                connection.sendall(piece)
                wait_until(lambda: self.tasks > before)
            return told(connection, pieces[-1])


def told(connection: socket.socket, request: bytes = b"") -> Told:
    connection.sendall(request)
    answer = HTTPResponse(connection)
    answer.begin()
    changing = ("date", "x-trace-id")
    assert all(answer.getheader(name) for name in changing)
    headers = {k.lower(): v for k, v in answer.getheaders() if k.lower() not in changing}
    return Told(answer.status, headers, answer.read())


def noted_connections(monkeypatch: pytest.MonkeyPatch) -> list[BoundedConnection]:
    """Return a list to which each connection will be added."""
    made: list[BoundedConnection] = []
    begin = BoundedConnection.connection_made

    def note(connection: BoundedConnection, transport: asyncio.Transport) -> None:
        begin(connection, transport)
        made.append(connection)

    monkeypatch.setattr(BoundedConnection, "connection_made", note)
    return made


async def lone(pair: Pair, count: int) -> list[bytes]:
    """Return requests of one report each, of a task that the leader knows."""
    await pair.leader.runtime.upload_terms(TASK_ID)
    return [encode(UploadRequest((each,))) for each in await pair.reports([0] * count)]


def stored(pair: Pair) -> dict[str, int]:
    return pair.leader.database.read_sync(
        "counts", lambda tx: report_counts(tx, TASK_ID.value, Stage.UPLOAD)
    )


async def test_what_comes_whole_is_answered_as_what_comes_in_pieces(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, leader = await lone(pair, 5), Leader(pair)

    def send() -> None:
        request = leader.request(bodies[0])
        with leader.served(monkeypatch), closing(leader.connect()) as connection:
            first = leader.ask(request[:-1], request[-1:])
            assert (first.status, leader.tasks) == (200, 1)
            for body in bodies[1:3]:
                assert told(connection, leader.request(body)) == first
            chunked = leader.request(bodies[3], "transfer-encoding: chunked")
            assert told(connection, chunked) == first
            last = told(connection, leader.request(bodies[4], "connection: close"))
            assert last.headers == first.headers | {"connection": "close"}
            assert connection.recv(1) == b""
            assert leader.tasks == 1
            assert leader.ask(leader.request(bodies[4])) == first  # a report that is not new
            assert leader.tasks == 2

    await to_thread.run_sync(send)
    assert stored(pair)["stored"] == 5
    assert leader.answering.under_way == 0


async def test_the_rest_of_a_body_may_come_a_moment_later(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, leader, made = await lone(pair, 2), Leader(pair), noted_connections(monkeypatch)
    monkeypatch.setattr(prompt_connection, "SOON_SECONDS", 2 * PATIENCE_SECONDS)

    def send() -> None:
        request, other = map(leader.request, bodies)
        with leader.served(monkeypatch), closing(leader.connect()) as connection:
            for missing, part in ((100, request[:-100]), (1, request[-100:-1])):
                connection.sendall(part)
                come = len(bodies[0]) - missing
                wait_until(lambda size=come: bool(made) and made[-1]._body_bytes == size)
            assert told(connection, request[-1:]).status == 200
            assert leader.tasks == 0
            assert made[-1]._soon is None
            connection.sendall(other[:-1])
            wait_until(lambda: made[-1]._soon is not None)
            connection.close()  # before the rest
            wait_until(lambda: leader.tasks == 1)

    with capture_logs() as lines:
        await to_thread.run_sync(send)
        wait_until(lambda: leader.answering.under_way == 0)
    assert [line["event"] for line in lines if "cut off" in str(line["event"])] == [
        "request cut off"
    ]
    assert stored(pair) == {"stored": 1}


@pytest.mark.parametrize("more", ["expect: 100-continue", "transfer-encoding: chunked", "x: y"])
async def test_a_task_waits_at_once_for_what_may_be_long_or_is_asked_for(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    (body,), leader = await lone(pair, 1), Leader(pair)
    monkeypatch.setattr(prompt_connection, "SOON_SECONDS", 2 * PATIENCE_SECONDS)
    body = body if more != "x: y" else body * 100

    def send() -> None:
        request = leader.request(body, more)
        with leader.served(monkeypatch), closing(leader.connect()) as connection:
            connection.sendall(request[: -len(body) // 2])
            wait_until(lambda: leader.tasks == 1)

    await to_thread.run_sync(send)


async def test_it_has_a_trace_is_measured_and_leaves_nothing_to_the_collector_of_garbage(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, leader = await lone(pair, 10), Leader(pair)
    trace, template = "ab" * 16, "/tasks/{task_id}/reports"

    def measured() -> float:
        labels = {"resource": template, "method": "POST", "status": "200"}
        return metrics._REGISTRY.get_sample_value("prio_request_seconds_count", labels) or 0.0

    def send() -> None:
        before = measured()
        with leader.served(monkeypatch), closing(leader.connect()) as connection:
            for body in bodies:
                connection.sendall(leader.request(body, f"traceparent: 00-{trace}-{'cd' * 8}-01"))
                answer = HTTPResponse(connection)
                answer.begin()
                assert answer.read() == b""
                assert answer.getheader("x-trace-id") == trace
            wait_until(lambda: leader.answering.under_way == 0)
            assert (leader.tasks, measured() - before) == (0, len(bodies))

    gc.collect()
    gc.disable()
    try:
        await to_thread.run_sync(send)
        left = [type(each) for each in gc.get_objects() if isinstance(each, WholeRequest | Upload)]
    finally:
        gc.enable()
    assert left == []


async def test_an_idle_connection_keeps_nothing_of_what_was_answered(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, leader, made = await lone(pair, 1), Leader(pair), noted_connections(monkeypatch)

    gc.collect()

    def send() -> None:
        request = leader.request(bodies[0])
        with leader.served(monkeypatch), closing(leader.connect()) as connection:
            for tasks in (0, 1):  # the second time the report is not new
                assert told(connection, request).status == 200
                assert leader.tasks == tasks
                wait_until(lambda: not made[-1].cycle.body)
                wait_until(lambda: not any(isinstance(each, Upload) for each in gc.get_objects()))

    await to_thread.run_sync(send)


async def test_what_is_not_as_usual_is_answered_as_ever(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, leader = await lone(pair, 9), Leader(pair)
    of = leader.request

    def send() -> dict[str, tuple[int, bool]]:
        with leader.served(monkeypatch):
            requests = {
                "in two pieces": (of(bodies[1])[:-100], of(bodies[1])[-100:]),
                "an old version": (of(bodies[2], version="1.0"),),
                "two reports": (of(bodies[3] + bodies[4]),),
                "with spaces": (of(bodies[5], f"content-type: {MEDIA_TYPE} "),),
                "in other words": (of(bodies[6], f"content-type: {MEDIA_TYPE.upper()}"),),
                "of another type": (of(bodies[7], "content-type: text/plain"),),
                "packed": (of(bodies[7], "content-encoding: gzip"),),
                "cut short": (of(bodies[7][:-1]),),
                "empty": (of(b""),),
                "of no task": (of(bodies[7], path="/tasks/x/reports"),),
                "of an unknown task": (of(bodies[7], path=f"/tasks/{'A' * 43}/reports"),),
                "escaped": (of(bodies[7], path=leader.path.replace("reports", "%72eports")),),
            }
            found = {}
            for why, pieces in requests.items():
                before = leader.tasks
                found[why] = leader.ask(*pieces).status, leader.tasks > before
            return found

    found = await to_thread.run_sync(send)
    assert found == {
        "in two pieces": (200, True),
        "an old version": (200, False),
        "two reports": (200, True),
        "with spaces": (200, True),
        "in other words": (415, True),
        "of another type": (415, True),
        "packed": (415, True),
        "cut short": (400, True),
        "empty": (200, True),
        "of no task": (404, True),
        "of an unknown task": (404, True),
        "escaped": (404, True),
    }
    assert leader.answering.under_way == 0


async def test_who_waits_for_a_hundred_continue_is_told_to_go_on(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    (body,), leader = await lone(pair, 1), Leader(pair)

    def send() -> bytes:
        with leader.served(monkeypatch), closing(leader.connect()) as connection:
            connection.sendall(leader.request(body, "expect: 100-continue"))
            return connection.recv(12)

    assert await to_thread.run_sync(send) == b"HTTP/1.1 100"


async def test_what_the_store_refuses_is_told_and_counted_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, leader = await lone(pair, 2), Leader(pair)

    def send() -> None:
        with leader.served(monkeypatch):
            leader.ask(leader.request(bodies[0]))
            pair.leader.database.run_sync("end", lambda tx: end_task(tx, TASK_ID.value))
            answer = leader.ask(leader.request(bodies[1]))
            assert (answer.status, leader.tasks) == (200, 1)
            assert len(answer.body) > ReportId.size
            assert answer.headers["content-type"] == media_type(UploadErrors.message)
            again = leader.ask(leader.request(bodies[1]))  # its terms are known by now
            assert again == answer

    await to_thread.run_sync(send)
    counted = Counter(stored(pair))
    assert counted.pop("stored") == 1
    assert [*counted.values()] == [2]  # of the same reason, once a request
    assert leader.answering.under_way == 0


@pytest.mark.parametrize("when", ["before commit", "committed"])
@pytest.mark.parametrize(("error", "status"), [(Busy("x"), 503), (ZeroDivisionError(), 500)])
async def test_what_the_store_fails_is_answered_as_ever(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, when: str
) -> None:
    bodies, leader = await lone(pair, 2), Leader(pair)

    def fail(transaction: str, moment: str) -> None:
        if (transaction, moment) == ("upload", when):
            raise error

    def send() -> None:
        with leader.served(monkeypatch):
            leader.ask(leader.request(bodies[0]))
            pair.leader.on_moment = fail
            answer = leader.ask(leader.request(bodies[1]))
            assert (answer.status, leader.tasks) == (status, 1)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["access-control-allow-origin"] == "*"
            pair.leader.on_moment = nothing_happens
            assert leader.ask(leader.request(bodies[1])).status == 200

    await to_thread.run_sync(send)
    assert stored(pair)["stored"] == 2


async def test_a_fault_of_ours_before_it_is_taken_sends_it_the_long_way(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, budget = await lone(pair, 1), BodyBudget(2**20)
    monkeypatch.setattr(web_app, "BodyBudget", lambda _: budget)
    leader = Leader(pair)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(leader.uploads, "begin", fail)

    def send() -> None:
        with leader.served(monkeypatch):
            assert leader.ask(leader.request(bodies[0])).status == 200
            assert leader.tasks == 1
            wait_until(lambda: leader.answering.under_way == 0)

    with capture_logs() as lines:
        await to_thread.run_sync(send)
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        "request not taken"
    ]
    assert stored(pair) == {"stored": 1}
    assert budget._free == budget._budget


class Held:
    """A leader whose transactions of uploads wait."""

    def __init__(self, pair: Pair) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        pair.leader.on_moment = self._hold

    def _hold(self, transaction: str, moment: str) -> None:
        if (transaction, moment) == ("upload", "begin"):
            self.begun.set()
            self.released.wait(PATIENCE_SECONDS)


async def test_who_is_not_answered_in_time_is_sent_away(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, leader = await lone(pair, 2), Leader(pair, answer_seconds=1.0)

    def send() -> None:
        held = Held(pair)
        with leader.served(monkeypatch), closing(leader.connect()) as connection:
            connection.sendall(leader.request(bodies[0]))
            assert held.begun.wait(PATIENCE_SECONDS)
            answers = [leader.ask(leader.request(bodies[1])), told(connection)]
            assert [(each.status, each.headers["retry-after"]) for each in answers] == [
                (503, "1"),
                (503, "1"),
            ]
            assert not [*leader.uploads._waiting]  # nobody asks for the second any more
            held.released.set()
            wait_until(lambda: leader.uploads._writer is None)

    await to_thread.run_sync(send)
    assert stored(pair) == {"stored": 1}
    assert leader.answering.under_way == 0


async def test_reports_whose_senders_have_left_are_stored_and_hold_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, budget = await lone(pair, 3), BodyBudget(2**20)
    monkeypatch.setattr(web_app, "BodyBudget", lambda _: budget)
    leader = Leader(pair)

    def send() -> None:
        held = Held(pair)
        with leader.served(monkeypatch):
            for number, body in enumerate(bodies):
                with closing(leader.connect()) as connection:
                    connection.sendall(leader.request(body))
                    wait_until(lambda most=number: leader.answering.under_way > most)
            assert budget._free == budget._budget - sum(map(len, bodies))
            held.released.set()
            wait_until(lambda: leader.answering.under_way == 0)
            assert leader.tasks == 0

    await to_thread.run_sync(send)
    assert stored(pair) == {"stored": 3}
    assert budget._free == budget._budget
    assert not budget._bodies


async def test_a_second_request_before_the_first_is_answered_ends_the_connection(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, leader = await lone(pair, 2), Leader(pair)

    def is_ended(connection: socket.socket) -> bool:
        try:
            return connection.recv(1) == b""
        except ConnectionError:
            return True

    def send() -> None:
        held = Held(pair)
        one, other = map(leader.request, bodies)
        with leader.served(monkeypatch):
            with closing(leader.connect()) as connection:
                connection.sendall(one + other)
                assert is_ended(connection)
            with closing(leader.connect()) as connection:
                connection.sendall(one)
                wait_until(lambda: leader.answering.under_way > 0)
                connection.sendall(other)
                assert is_ended(connection)
            held.released.set()
            wait_until(lambda: leader.answering.under_way == 0)

    await to_thread.run_sync(send)


async def test_without_room_for_its_bytes_a_report_is_asked_to_come_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await lone(pair, 2)
    leader = Leader(pair, max_bytes_in_flight=len(first) * 3 // 2)

    def send() -> None:
        held = Held(pair)
        with leader.served(monkeypatch), closing(leader.connect()) as connection:
            connection.sendall(leader.request(first))
            assert held.begun.wait(PATIENCE_SECONDS)
            assert leader.ask(leader.request(second)).status == 429
            held.released.set()
            assert told(connection).status == 200
            assert leader.ask(leader.request(second)).status == 200

    await to_thread.run_sync(send)
    assert stored(pair) == {"stored": 2}


async def test_a_connection_that_is_told_to_stop_answers_what_it_has_taken(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    (body,), leader = await lone(pair, 1), Leader(pair)
    made = noted_connections(monkeypatch)

    def send() -> None:
        held = Held(pair)
        with leader.served(monkeypatch), closing(leader.connect()) as connection:
            connection.sendall(leader.request(body))
            assert held.begun.wait(PATIENCE_SECONDS)
            made[-1].loop.call_soon_threadsafe(made[-1].shutdown)
            made[-1].loop.call_soon_threadsafe(held.released.set)
            answer = told(connection)
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert connection.recv(1) == b""
            assert leader.tasks == 0

    await to_thread.run_sync(send)
    assert stored(pair) == {"stored": 1}


async def test_a_fault_while_one_is_answered_keeps_no_other_waiting(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, leader = await lone(pair, 4), Leader(pair)
    usual, failed = WholeRequest.succeed, list[bytes]()

    def succeed(request: WholeRequest) -> None:
        if request.body == bodies[1]:
            failed.append(request.body)
            raise MemoryError
        usual(request)

    def send() -> None:
        held = Held(pair)
        with leader.served(monkeypatch), ExitStack() as open_ones:
            asking = [open_ones.enter_context(closing(leader.connect())) for _ in bodies]
            for number, (connection, body) in enumerate(zip(asking, bodies, strict=True)):
                connection.sendall(leader.request(body))
                wait_until(lambda most=number: leader.answering.under_way > most)
                assert held.begun.wait(PATIENCE_SECONDS)
            held.released.set()
            for connection in (asking[0], *asking[2:]):
                assert told(connection).status == 200
            assert (leader.tasks, failed) == (0, [bodies[1]])

    monkeypatch.setattr(WholeRequest, "succeed", succeed)
    await to_thread.run_sync(send)
    assert stored(pair) == {"stored": 4}


@pytest.mark.parametrize("size", [SHORT_BODY, SHORT_BODY + 1])
async def test_only_short_bodies_are_offered(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    offered: list[int] = []

    def take(_: object, request: WholeRequest) -> bool:
        offered.append(len(request.body))
        return False

    monkeypatch.setattr(prompt_connection, "takes_at_once", take)
    leader = Leader(pair)
    with leader.served(monkeypatch):
        answer = await to_thread.run_sync(leader.ask, leader.request(bytes(size)))
    assert (answer.status, leader.tasks) == (400, 1)
    assert offered == ([size] if size <= SHORT_BODY else [])
