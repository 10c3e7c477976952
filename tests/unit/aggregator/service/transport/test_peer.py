"""What a peer is sent, where its token goes, and what is made of its answers."""

import gzip
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable

import anyio
import anyio.abc
import httpx
import pytest

from aggregator.codec import encode
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import ReportUploadStatus, UploadErrors
from aggregator.dap.problems import BatchMismatch, BatchOverlap, UnsupportedExtension
from aggregator.dap.resources import media_type
from aggregator.service.transport.interpretation import PeerRefused, PeerUnreachable
from aggregator.service.transport.peer import MAX_LOCATION, Peer
from tests.support.patience import PATIENCE_SECONDS

BASE = "https://helper.example/dap/"
TOKEN = "a-token-of-the-tests"  # noqa: S105 - a test's token
Handler = Callable[[httpx.Request], httpx.Response]


class Waits:
    """Sleeps in no time, and remembers how long it should have."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def peer_of(handler: Handler, attempts: int = 1, waits: Waits | None = None) -> Peer:
    http = httpx.AsyncClient(transport=httpx.MockTransport(handler))
    return Peer(http, BASE, TOKEN, attempts=attempts, sleep=waits or Waits())


def answering(status: int, body: bytes = b"", **headers: str) -> Handler:
    names = {name.replace("_", "-"): value.encode("latin-1") for name, value in headers.items()}
    return lambda _request: httpx.Response(status, content=body, headers=names)


async def test_a_message_is_sent_below_the_endpoint_with_token_type_and_trace() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=b"answer")

    answer = await peer_of(handler).send("/tasks/x/reports", "application/thing", b"body")
    (request,) = seen
    assert str(request.url) == "https://helper.example/dap/tasks/x/reports"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/thing"
    assert request.headers["traceparent"].startswith("00-")
    assert (request.content, answer.body) == (b"body", b"answer")


@pytest.mark.parametrize(
    "location",
    [
        "https://helper.example/dap/tasks/x/jobs/1",
        "/dap/tasks/x/jobs/1",
        "/tasks/x/jobs/1",
        "jobs/1",
        "https://HELPER.example:443/dap/tasks/x/jobs/1",
    ],
)
async def test_every_form_of_location_within_the_origin_is_understood(location: str) -> None:
    answer = await peer_of(answering(201, location=location)).send("/tasks/x/jobs", "a/b", b"")
    assert answer.location == "https://helper.example/dap/tasks/x/jobs/1"


@pytest.mark.parametrize(
    "location",
    [
        "https://elsewhere.example/dap/tasks/x/jobs/1",
        "http://helper.example/dap/tasks/x/jobs/1",
        "https://helper.example:8443/dap/tasks/x/jobs/1",
        "//elsewhere.example/jobs/1",
        "https://[broken/",
        "/\x01",
        "//\x01",
        "/" * 2 + "x" * 70_000,
    ],
)
async def test_a_location_of_another_origin_is_refused(location: str) -> None:
    with pytest.raises(PeerRefused):
        await peer_of(answering(201, location=location)).send("/tasks/x/jobs", "a/b", b"")


async def test_a_location_that_is_too_long_to_keep_is_refused() -> None:
    longest = "/" + "a" * (MAX_LOCATION - 1)
    answer = await peer_of(answering(201, location=longest)).send("/tasks/x/jobs", "a/b", b"")
    assert str(answer.location).endswith(longest)
    with pytest.raises(PeerRefused, match="too long"):
        await peer_of(answering(201, location=longest + "a")).send("/tasks/x/jobs", "a/b", b"")


async def test_a_redirect_is_not_followed_so_the_token_stays_within_the_origin() -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(307, headers={"location": "https://elsewhere.example/"})

    with pytest.raises(PeerRefused):
        await peer_of(handler).get("/hpke_config")
    assert seen == ["helper.example"]


@pytest.mark.parametrize("location", ["javascript:1", "http://[", "https://x:99999999/", "\xff"])
async def test_a_redirect_to_nowhere_is_no_answer(location: str) -> None:
    with pytest.raises((PeerRefused, PeerUnreachable)):
        await peer_of(answering(302, location=location)).get("/hpke_config")


async def test_a_problem_document_comes_back_as_the_problem_it_names() -> None:
    body = f'{{"type": "{BatchMismatch.type_uri}", "detail": "3 and 4"}}'.encode()
    handler = answering(400, body, content_type="application/problem+json; charset=utf-8")
    with pytest.raises(PeerRefused) as refused:
        await peer_of(handler).get("/x")
    assert isinstance(refused.value.problem, BatchMismatch)
    assert refused.value.problem.detail == "3 and 4"
    assert refused.value.status == 400


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 200_000])
async def test_an_error_without_a_usable_document_is_a_bare_refusal(body: bytes) -> None:
    with pytest.raises(PeerRefused) as refused:
        await peer_of(answering(403, body, content_type="application/problem+json")).get("/x")
    assert not isinstance(refused.value.problem, BatchOverlap)
    assert "403" in str(refused.value)


async def test_a_code_that_nobody_knows_means_what_its_class_does() -> None:
    assert (await peer_of(answering(299, b"answer")).get("/x")).body == b"answer"
    with pytest.raises(PeerRefused):
        await peer_of(answering(499), 3).get("/x")
    waits = Waits()
    with pytest.raises(PeerUnreachable):
        await peer_of(answering(599), 3, waits).get("/x")
    assert len(waits.seconds) == 2


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_transient_status_is_tried_again_as_late_as_the_peer_asks(status: int) -> None:
    waits = Waits()
    with pytest.raises(PeerUnreachable) as unreachable:
        await peer_of(answering(status, retry_after="4"), 3, waits).get("/x")
    assert waits.seconds == [4.0, 4.0]
    assert unreachable.value.retry_after == 4


@pytest.mark.parametrize(
    ("answers", "is_unprocessed"),
    [
        ([413], True),
        ([401], True),
        ([503, 413], False),
        ([429, 413], True),
        ([None, 413], True),
        ([None, 429, None], True),
        ([None, 503, None], False),
        ([307], False),
        ([501], False),
    ],
)
async def test_only_what_never_got_through_has_surely_changed_nothing(
    answers: list[int | None], *, is_unprocessed: bool
) -> None:
    """Here None stands for a connection that cannot be made."""
    coming = iter(answers)

    def answer(_request: httpx.Request) -> httpx.Response:
        status = next(coming)
        if status is None:
            raise httpx.ConnectError("nobody there")
        return httpx.Response(status)

    with pytest.raises((PeerRefused, PeerUnreachable)) as failed:
        await peer_of(answer, attempts=3).send("/x", "application/thing", b"")
    assert failed.value.is_unprocessed == is_unprocessed


async def test_a_broken_connection_is_tried_again_and_may_then_succeed() -> None:
    failures = [httpx.ConnectError("refused"), httpx.ReadTimeout("slow")]

    def handler(_request: httpx.Request) -> httpx.Response:
        if failures:
            raise failures.pop()
        return httpx.Response(200, content=b"at last")

    waits = Waits()
    assert (await peer_of(handler, 3, waits).get("/x")).body == b"at last"
    assert waits.seconds == [0.25, 0.5]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7),
        ({"retry_after": "99999999"}, 3600),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "9" * 5000}, 3600),
        ({"retry_after": "0" * 5000 + "7"}, 7),
        ({"retry_after": "\u00b2"}, None),
        (
            {
                "retry_after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30,
        ),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry_after": f"Wed, 21 Oct {'9' * 20} 07:28:30 GMT", "date": "0"}, None),
    ],
)
async def test_retry_after_is_read_as_seconds_or_as_a_date(
    headers: dict[str, str], seconds: int | None
) -> None:
    assert (await peer_of(answering(202, **headers)).get("/x")).retry_after == seconds


def test_a_peer_shows_its_endpoint_and_not_its_token() -> None:
    assert TOKEN not in repr(peer_of(answering(200)))


async def test_no_more_of_an_answer_is_read_than_the_request_can_yield() -> None:
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(1000):
            read += 100
            yield bytes(100)

    peer = peer_of(lambda _: httpx.Response(200, content=body()))
    with pytest.raises(PeerUnreachable, match="longer than the 250 bytes"):
        await peer.get("/x", limit=250)
    assert read == 300
    assert (await peer_of(answering(200, bytes(250))).get("/x", limit=250)).body == bytes(250)


async def test_a_compressed_answer_is_not_asked_for_and_not_unpacked() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        packed = httpx.ByteStream(gzip.compress(bytes(10**6)))
        return httpx.Response(200, stream=packed, headers={"content-encoding": "gzip"})

    with pytest.raises(PeerUnreachable, match="compressed"):
        await peer_of(handler).get("/x", limit=10**7)
    assert seen[0].headers["accept-encoding"] == "identity"


async def test_an_answer_that_drips_is_given_up_when_its_time_is_over() -> None:
    async def body() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await anyio.sleep(0.01)

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body()))
    http = httpx.AsyncClient(transport=transport, timeout=0.2)
    with pytest.raises(PeerUnreachable, match="no complete answer in time"):
        await Peer(http, BASE, attempts=1).get("/x")


async def test_all_attempts_together_take_no_longer_than_one_may() -> None:
    """Three attempts with a time of their own each would outlast the lease on a job."""
    asked: list[httpx.Request] = []

    async def late(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        await anyio.sleep(0 if len(asked) == 1 else PATIENCE_SECONDS)
        return httpx.Response(503)

    http = httpx.AsyncClient(transport=httpx.MockTransport(late), timeout=1)
    with pytest.raises(PeerUnreachable, match="no complete answer in time"):
        await Peer(http, BASE, attempts=3, sleep=Waits()).get("/x")
    assert len(asked) == 2


async def test_a_long_problem_document_is_cut() -> None:
    types = list(range(5000))
    document = {
        "type": UnsupportedExtension.type_uri,
        "detail": "x" * 10**4,
        "unsupported_extensions": [-1, 2**16, *types],
    }
    handler = answering(400, json.dumps(document).encode(), content_type="application/problem+json")
    with pytest.raises(PeerRefused) as refused:
        await peer_of(handler).get("/x")
    problem = refused.value.problem
    assert isinstance(problem, UnsupportedExtension)
    assert problem.unsupported_extensions == tuple(types[:14])
    assert len(problem.detail) == 1000


async def test_a_peer_that_does_not_answer_is_named_with_host_port_and_cause() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as http:
        peer = Peer(http, f"http://127.0.0.1:{port}/dap/", name="the helper", attempts=1)
        with pytest.raises(PeerUnreachable) as unreachable:
            await peer.get("hpke_config")
    named = f"the helper http://127.0.0.1:{port} does not answer: connection refused"
    assert str(unreachable.value) == named


@pytest.mark.parametrize(("size", "is_unprocessed"), [(2**25, True), (100, False)])
async def test_a_peer_that_was_not_sent_all_of_a_request_has_not_processed_it(
    size: int, *, is_unprocessed: bool
) -> None:
    """A server that refuses a large body without reading it, and whose answer the reset swallows.

    Of a short body nobody knows: all of it may have arrived.
    """

    async def slam(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()
        raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)  # noqa: S610  no database
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await stream.aclose()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610  no database
    async with (
        listener,
        anyio.create_task_group() as group,
        httpx.AsyncClient(timeout=PATIENCE_SECONDS) as http,
    ):
        group.start_soon(listener.serve, slam)
        peer = Peer(http, f"http://127.0.0.1:{port}/", attempts=2, sleep=Waits())
        with pytest.raises(PeerUnreachable) as caught:
            await peer.send("jobs", "a/b", bytes(size))
        group.cancel_scope.cancel()
    assert caught.value.is_unprocessed is is_unprocessed


async def test_an_answer_that_was_cut_is_asked_for_again() -> None:
    whole = encode(UploadErrors((ReportUploadStatus(ReportId(bytes(16)), 3),)))
    bodies = [whole[:9], b"<html>", whole]

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.content == b"the same"
        kind = {"content-type": media_type(UploadErrors.message)}
        return httpx.Response(200, content=bodies.pop(0), headers=kind)

    peer = peer_of(handler, attempts=3)
    answer = await peer.send("reports", "a/b", b"the same", carrying=UploadErrors)
    assert (answer.body, bodies) == (whole, [])
