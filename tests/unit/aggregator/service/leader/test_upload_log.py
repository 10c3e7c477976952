"""Stored uploads have one line a second, which leaves nothing out."""

import asyncio
from collections.abc import Callable

import anyio
import pytest
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.testing import capture_logs

from aggregator.service.leader import upload_log
from aggregator.service.leader.upload_log import UploadLog
from tests.support.patience import PATIENCE_SECONDS

Line = dict[str, object]


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        while not is_so():  # noqa: ASYNC110  what is awaited says nothing
            await anyio.sleep(0.001)


def line(reports: int, requests: int, tasks: int, transactions: int) -> Line:
    return {
        "event": "uploads stored",
        "log_level": "info",
        "reports": reports,
        "requests": requests,
        "tasks": tasks,
        "transactions": transactions,
    }


async def test_the_first_transaction_has_its_line_at_once_and_the_next_share_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upload_log, "PAUSE_SECONDS", 0.01)
    told = UploadLog()
    with capture_logs() as lines:
        told.note(5, 2, [b"one"])
        assert lines == [line(5, 2, 1, 1)]
        told.note(7, 3, [b"one"])
        told.note(1, 1, [b"two", b"one"])
        assert len(lines) == 1
        await until(lambda: len(lines) == 2)
        assert lines[1] == line(8, 4, 2, 2)
        await until(lambda: told._pausing is None)
        told.note(1, 1, [b"one"])  # after a pause: at once
        assert lines[2:] == [line(1, 1, 1, 1)]


def test_what_the_last_second_of_a_service_stored_is_told_as_it_ends() -> None:
    async def serve() -> None:
        told = UploadLog()
        told.note(1, 1, [b"one"])
        told.note(2, 1, [b"one"])
        await asyncio.sleep(0)

    with capture_logs() as lines:
        asyncio.run(serve())
    assert [each["reports"] for each in lines] == [1, 2]


async def test_a_line_about_many_requests_has_the_trace_of_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upload_log, "PAUSE_SECONDS", 0.01)
    told = UploadLog()
    with capture_logs(processors=[merge_contextvars]) as lines, bound_contextvars(trace_id="mine"):
        told.note(1, 1, [b"one"])
        told.note(2, 1, [b"one"])
        await until(lambda: len(lines) == 2)
    assert not any("trace_id" in each for each in lines)
