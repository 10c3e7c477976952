"""A peer that goes away in the middle of its request."""

from fastapi import APIRouter, Request, Response
from starlette.types import Message
from structlog.testing import capture_logs

from aggregator.service.web.app import create_app
from aggregator.service.web.messages import read_bytes


async def test_a_request_that_is_cut_off_is_not_our_fault() -> None:
    """A leader that dies while it sends must not look like a helper that fails."""
    router = APIRouter()

    @router.post("/")
    async def read(request: Request) -> Response:
        return Response(await read_bytes(request, 1000))

    received: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"the first half of", "more_body": True},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return received.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [],
    }
    with capture_logs() as logs:
        await create_app("tests", [router])(scope, receive, send)
    assert [line["log_level"] for line in logs] == ["info", "info"]
    assert [message.get("status") for message in sent] == [400, None]
