"""A page of another origin can upload, and reads each refusal; nothing else is opened to it."""

import socket
from collections.abc import Iterator

import anyio
import httpx
import pytest
from fastapi import Request, Response
from starlette.types import ASGIApp
from structlog.testing import capture_logs

from aggregator.dap.profile import Role
from aggregator.dap.resources import resources_of
from aggregator.service.telemetry.metrics import REQUEST_SECONDS
from aggregator.service.web.app import create_app
from aggregator.service.web.connections import BoundedConnection
from aggregator.service.web.cross_origin import CrossOrigin
from aggregator.service.web.messages import dap_router, read_bytes
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import serving

ORIGIN = {"origin": "https://survey.example"}
UPLOADS = "/tasks/x/reports"
COLLECTIONS = "/tasks/x/collection_jobs"


def leader(answer_seconds: float = PATIENCE_SECONDS) -> ASGIApp:
    """Return a leader of handlers that take ten bytes, fail on "bug" and hang on "hang"."""

    async def handle(request: Request) -> Response:
        body = await read_bytes(request, 10)
        if body == b"bug":
            raise ValueError("a bug")
        if body == b"hang":
            await anyio.sleep_forever()
        return Response(b"taken")

    served = resources_of(Role.LEADER)
    handlers = {(each.method, each.name): handle for each in served}
    (uploads,) = (each for each in served if each.name == "reports")
    direct = {uploads: handle}
    app = create_app(
        "tests",
        [dap_router(Role.LEADER, handlers)],
        answer_seconds=answer_seconds,
        fast_routes=direct,
    )
    return CrossOrigin(app, served)


async def ask(method: str, path: str, **options: object) -> httpx.Response:
    served = leader(0.05) if options.get("content") == b"hang" else leader()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(served), base_url="http://tests"
    ) as http:
        return await http.request(method, path, headers=ORIGIN, **options)  # type: ignore[arg-type]  # httpx's own


def is_open(answer: httpx.Response) -> bool:
    exposed = answer.headers.get("access-control-expose-headers", "")
    return answer.headers.get("access-control-allow-origin") == "*" and exposed == (
        "retry-after, date, age"
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/hpke_config", b"", 200),
        ("HEAD", "/hpke_config", b"", 200),
        ("POST", UPLOADS, b"one", 200),
        ("POST", UPLOADS, b"far too long", 413),
        ("POST", UPLOADS, b"bug", 500),
        ("POST", UPLOADS, b"hang", 503),
        ("PUT", UPLOADS, b"", 405),
    ],
)
async def test_a_page_can_read_every_answer_that_is_for_clients(
    method: str, path: str, body: bytes, status: int
) -> None:
    answer = await ask(method, path, content=body)
    assert answer.status_code == status
    assert is_open(answer)


async def test_a_page_cannot_read_what_is_for_the_other_parties() -> None:
    """Whose token a page might have got hold of: it would be the reader's browser that asks."""
    for answer in (
        await ask("POST", COLLECTIONS, content=b"one"),
        await ask("OPTIONS", COLLECTIONS),
        await ask("GET", "/elsewhere"),
    ):
        assert "access-control-allow-origin" not in answer.headers
    assert answer.status_code == 404


def counted() -> float:
    """Return how many requests were measured so far."""
    (metric,) = REQUEST_SECONDS.collect()
    return sum(sample.value for sample in metric.samples if sample.name.endswith("_count"))


async def test_a_preflight_is_answered_before_anything_is_counted_or_logged() -> None:
    await ask("POST", UPLOADS, content=b"one")
    before = counted()
    assert before > 0
    with capture_logs() as lines:
        answer = await ask("OPTIONS", UPLOADS)
    assert (answer.status_code, answer.content, lines, counted()) == (204, b"", [], before)
    assert is_open(answer)
    assert answer.headers["access-control-allow-methods"] == "POST, OPTIONS"
    assert answer.headers["access-control-allow-headers"] == "content-type"
    reading = await ask("OPTIONS", "/hpke_config")
    assert reading.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"


@pytest.fixture(name="address")
def _address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(BoundedConnection, "_displace", lambda _: False)
    with serving(leader(), max_connections=1) as url:
        host, port = url.removeprefix("http://").split(":")
        yield host, int(port)


NO_PROXY = "127.0.0.2"
"""A proxy's first request says for whom it asks; a caller that is none is refused before that."""


def test_a_connection_too_many_is_refused_so_that_a_page_can_read_it(
    address: tuple[str, int],
) -> None:
    with (
        socket.create_connection(address, PATIENCE_SECONDS, (NO_PROXY, 0)) as first,
        socket.create_connection(address, PATIENCE_SECONDS, (NO_PROXY, 0)) as second,
    ):
        answer = second.recv(4096).lower()
        assert answer.startswith(b"http/1.1 503")
        assert b"\r\naccess-control-allow-origin: *\r\n" in answer
        assert b"\r\naccess-control-expose-headers: retry-after, date, age\r\n" in answer
        first.sendall(b"HEAD /hpke_config HTTP/1.1\r\nhost: x\r\n\r\n")
        head = first.recv(4096).lower()
        assert head.startswith(b"http/1.1 200")
        assert head.endswith(b"\r\n\r\n")  # and no body
