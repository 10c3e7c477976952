"""No stranger decides how long a line of the log is: a disk would be full of few requests."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aggregator.dap.profile import Role
from aggregator.dap.resources import media_type, resources_of
from aggregator.service.telemetry.logs import refuse_secrets
from aggregator.service.web.app import create_app
from tests.support import raw_requests
from tests.support.collector_service import CollectorService
from tests.support.pair import Pair
from tests.support.raw_requests import Request
from tests.support.tasks import make_task

LONG = 15_000
"""Characters; a service takes headers of some 16 KiB."""
LONGEST = 2_000
"""Bytes of a line in JSON; what is escaped takes five or six for each character."""
HEADERS = ("accept", "authorization", "content-type", "content-encoding", "content-length")


def requests(method: str, path: str, message: str | None) -> Iterator[Request]:
    """Yield requests of which one part is long."""
    kind = () if message is None else ((b"content-type", media_type(message).encode()),)
    usual = [(b"host", b"127.0.0.1"), *kind]
    for character in ("a", "\x01", "\ufffd", "%", '"'):
        text = character * LONG
        parts = path.split("/")
        for at in range(1, len(parts)):
            yield Request(method, "/".join([*parts[:at], text, *parts[at + 1 :]]), b"", usual, [])
        yield Request(method, f"{path}/{text}", b"", usual, [])
        yield Request(method, path, b"a=" + text.encode(), usual, [])
        yield Request(method, path, b"", usual, [text.encode()])
        for name in HEADERS:
            headers = [each for each in usual if each[0] != name.encode()]
            headers.append((name.encode(), text.encode()))
            yield Request(method, path, b"", headers, [b"{}"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_no_line_of_the_log_is_long_whatever_part_of_a_request_is(tmp_path: Path) -> None:
    pair = Pair(tmp_path, make_task())
    await pair.provision()
    collector = CollectorService(tmp_path, pair.task)
    aggregators = {Role.LEADER: pair.leader.app, Role.HELPER: pair.helper.app}
    served = [
        (app, method, each.template, each.request)
        for role, app in aggregators.items()
        for each in resources_of(role)
        for method in each.methods
    ]
    pages = ("/login", "/api/tasks/{task_id}/collections", "/tasks/{task_id}", "/nowhere")
    served += [(collector.app, method, path, None) for path in pages for method in ("GET", "POST")]
    lines = 0
    for app, method, template, message in served:
        path = template.replace("{task_id}", str(pair.task.task_id))
        for request in requests(method, path, message):
            with capture_logs() as logs:
                await raw_requests.send(app, request)
            for line in logs:
                lines += 1
                shown = json.dumps(refuse_secrets(None, "", dict(line)))
                assert len(shown) < LONGEST, (request.method, shown[:300])
    assert lines > len(served)
    collector.database.close()
    await pair.close()


async def test_what_fails_by_our_own_fault_is_logged_with_the_beginning_of_its_path() -> None:
    app = create_app("failing", [])
    app.layers._app = fail  # type: ignore[attr-defined]  # the outermost, which logs
    with capture_logs() as logs:
        await raw_requests.send(app, Request("GET", f"/{'a' * LONG}", b"", [], []))
    failed = next(line for line in logs if line["event"] == "request failed")
    assert str(failed["path"]).startswith("/aaa")
    assert str(failed["path"]).endswith(f"... and {LONG - 199:,} characters")


async def fail(*_: object) -> None:
    raise RuntimeError("a mistake of ours")
