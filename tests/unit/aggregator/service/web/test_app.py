"""Every failure is a problem document, and what is our own fault says nothing of itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import httpx
import pytest
from fastapi import APIRouter, Request, Response
from structlog.testing import capture_logs

from aggregator.codec import DecodeError
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import UploadRequest
from aggregator.dap.problems import (
    BatchOverlap,
    BudgetExceeded,
    Problem,
    TooManyRequests,
    Unauthorized,
)
from aggregator.dap.profile import Role
from aggregator.dap.resources import media_type
from aggregator.errors import Abort, StoreError
from aggregator.service.storage.engine.backends import Busy, Damaged, DiskFull, Unreachable
from aggregator.service.storage.ledger.journal import JournalError
from aggregator.service.web.app import create_app
from aggregator.service.web.messages import dap_router, read_body, read_bytes, task_id_of
from aggregator.service.web.problems import stored_problem_response
from tests.support.patience import PATIENCE_SECONDS

SECRET = "do-not-show-this"  # noqa: S105 - a test's secret
TASK_ID = TaskId(bytes(32))
Handler = Callable[[Request], Awaitable[Response]]
FAULTS: dict[str, Exception] = {
    "overlap": BatchOverlap("too late", TASK_ID),
    "budget": BudgetExceeded("nothing is left"),
    "overload": TooManyRequests(),
    "truncated": DecodeError("byte 3: 4 bytes expected, 1 left"),
    "abort": Abort("something"),
    "store": StoreError(SECRET),
    "bug": ValueError(SECRET),
    "busy": Busy(SECRET),
    "full": DiskFull(SECRET),
    "damaged": Damaged(SECRET),
    "unreachable": Unreachable(SECRET),
    "journal": JournalError(SECRET),
}


def router() -> APIRouter:
    made = APIRouter()

    @made.get("/fault/{name}")
    async def fault(name: str) -> None:
        raise FAULTS[name]

    @made.post("/tasks/{task_id}/size")  # noqa: FAST003 - read as our handlers read it
    async def size(request: Request) -> Response:
        task_id_of(request)
        return Response(str(len(await read_body(request, UploadRequest.message, 10))))

    return made


async def ask(method: str, path: str, **options: object) -> httpx.Response:
    transport = httpx.ASGITransport(create_app("tests", [router()]))
    async with httpx.AsyncClient(transport=transport, base_url="http://tests") as http:
        return await http.request(method, path, **options)  # type: ignore[arg-type]  # httpx's own


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("overlap", 400, "urn:ietf:params:ppm:dap:error:batchOverlap"),
        ("truncated", 400, "urn:ietf:params:ppm:dap:error:invalidMessage"),
        ("budget", 403, BudgetExceeded.type_uri),
        ("overload", 429, TooManyRequests.type_uri),
        ("abort", 400, Problem.type_uri),
    ],
)
async def test_an_abort_is_answered_with_its_problem(name: str, status: int, kind: str) -> None:
    answer = await ask("GET", f"/fault/{name}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == kind
    assert answer.json()["status"] == status


async def test_who_is_too_many_is_asked_to_come_again() -> None:
    answer = await ask("GET", "/fault/overload")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


@pytest.mark.parametrize("name", ["store", "bug"])
async def test_our_own_fault_is_a_bare_500_without_detail(name: str) -> None:
    answer = await ask("GET", f"/fault/{name}")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "detail" not in answer.json()
    assert SECRET not in answer.text


async def test_our_own_fault_is_logged_once_with_what_was_answered() -> None:
    with capture_logs() as logs:
        answer = await ask("GET", "/fault/bug")
    assert [log["event"] for log in logs] == ["request failed", "request"]
    assert type(logs[0]["exc_info"]) is ValueError
    assert logs[1]["status"] == answer.status_code == 500
    assert len(answer.headers["x-trace-id"]) == 32


async def test_a_busy_store_asks_the_peer_to_come_again() -> None:
    answer = await ask("GET", "/fault/busy")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [("full", "60"), ("damaged", "60"), ("unreachable", "5"), ("journal", "5")],
)
async def test_a_store_that_cannot_be_used_asks_the_peer_to_come_again_later(
    fault: str, seconds: str
) -> None:
    answer = await ask("GET", f"/fault/{fault}")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, seconds)
    assert SECRET not in answer.text


async def test_a_trace_that_is_too_long_is_not_taken() -> None:
    sent = {"traceparent": "00-" + "a" * 10_000 + "-b7ad6b7169203331-01"}
    assert len((await ask("GET", "/nowhere", headers=sent)).headers["x-trace-id"]) == 32


async def test_unknown_paths_and_methods_are_problems_too() -> None:
    unknown = await ask("GET", "/nowhere")
    assert (unknown.status_code, unknown.json()["title"]) == (404, "Not Found")
    wrong = await ask("DELETE", "/fault/bug")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    assert wrong.headers["content-type"] == "application/problem+json"


async def test_a_body_is_taken_up_to_its_limit_and_not_a_byte_more() -> None:
    headers = {"content-type": media_type(UploadRequest.message)}
    url = f"/tasks/{TASK_ID}/size"
    assert (await ask("POST", url, content=bytes(10), headers=headers)).text == "10"
    too_long = await ask("POST", url, content=bytes(11), headers=headers)
    assert too_long.status_code == 413
    assert too_long.json()["taskid"] == str(TASK_ID)
    declared = headers | {"content-length": "9" * 5000}
    assert (await ask("POST", url, content=b"1", headers=declared)).status_code == 413
    declared = headers | {"content-length": "0" * 5000 + "1"}
    assert (await ask("POST", url, content=b"1", headers=declared)).text == "1"


@pytest.mark.parametrize(
    "content_type",
    [
        media_type(UploadRequest.message),
        "Application/PPM-DAP; message=upload-req",
        'application/ppm-dap; version="18"; message="upload-req"',
    ],
)
async def test_media_types_are_compared_by_meaning(content_type: str) -> None:
    url, headers = f"/tasks/{TASK_ID}/size", {"content-type": content_type}
    assert (await ask("POST", url, content=b"", headers=headers)).status_code == 200


@pytest.mark.parametrize("content_type", ["", "application/json", "application/ppm-dap"])
async def test_another_media_type_is_refused(content_type: str) -> None:
    url, headers = f"/tasks/{TASK_ID}/size", {"content-type": content_type}
    assert (await ask("POST", url, content=b"", headers=headers)).status_code == 415


@pytest.mark.parametrize(
    ("codings", "status"),
    [
        (["identity"], 200),
        (["Identity, identity"], 200),
        ([""], 200),
        (["gzip"], 415),
        (["identity, br"], 415),
        (["identity", "zstd"], 415),
        (["x"], 415),
    ],
)
async def test_only_a_body_that_comes_as_it_is_is_taken(codings: list[str], status: int) -> None:
    headers = [("content-type", media_type(UploadRequest.message))]
    headers += [("content-encoding", each) for each in codings]
    answer = await ask("POST", f"/tasks/{TASK_ID}/size", content=b"", headers=headers)
    assert answer.status_code == status
    if status == 415:
        assert "content-encoding" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["x", "A" * 42, "A" * 44, "=" * 43])
async def test_a_path_that_names_no_task_is_an_unknown_task(name: str) -> None:
    answer = await ask("POST", f"/tasks/{name}/size")
    assert answer.status_code == 404
    assert answer.json()["type"].endswith("unrecognizedTask")


async def test_a_request_keeps_the_trace_that_it_came_with() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    sent = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    assert (await ask("GET", "/nowhere", headers=sent)).headers["x-trace-id"] == trace
    bad = {"traceparent": "00-\u00e9-01-01".encode("latin-1")}
    assert len((await ask("GET", "/nowhere", headers=bad)).headers["x-trace-id"]) == 32


def test_a_stored_problem_is_answered_as_one_of_the_job_not_of_the_request() -> None:
    stored = f'{{"type": "{BudgetExceeded.type_uri}", "title": "t"}}'
    assert stored_problem_response(stored).status_code == 403
    for other in ("urn:other", "about:blank", Unauthorized.type_uri):
        assert stored_problem_response(f'{{"type": "{other}"}}').status_code == 400


def test_every_resource_of_a_role_must_be_served() -> None:
    with pytest.raises(KeyError):
        dap_router(Role.HELPER, {})


async def ask_of(handler: Handler, answer_seconds: float, **options: object) -> httpx.Response:
    """Ask an application with one handler, which has a time limit."""
    made = APIRouter()
    made.add_api_route("/", handler, methods=["POST"])
    transport = httpx.ASGITransport(create_app("tests", [made], answer_seconds=answer_seconds))
    async with httpx.AsyncClient(transport=transport, base_url="http://tests") as http:
        return await http.post("/", **options)  # type: ignore[arg-type]  # httpx's own


async def test_a_request_that_takes_too_long_is_answered_503() -> None:
    async def never(_request: Request) -> Response:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(PATIENCE_SECONDS), capture_logs() as logs:
        answer = await ask_of(never, 0.05)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] == "application/problem+json"
    assert [log["event"] for log in logs] == ["request took too long", "request"]


async def test_the_time_that_a_body_takes_is_not_that_of_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = 5.0  # less than what a body may take

    async def slow_body() -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        now = loop.time
        for _ in range(5):
            # That long by the clock of the loop, which looks whose time is over.
            with monkeypatch.context() as patch:
                patch.setattr(loop, "time", lambda: now() + seconds + 1)
                await anyio.sleep(0.01)
            yield b"x"

    async def size(request: Request) -> Response:
        return Response(str(len(await read_bytes(request, 10))))

    assert (await ask_of(size, seconds, content=slow_body())).text == "5"
