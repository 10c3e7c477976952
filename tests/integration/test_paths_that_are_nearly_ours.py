"""A path that a proxy reads differently than the framework does is nobody's, at every party."""

import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
from starlette.types import ASGIApp, Message

from aggregator.cli.client.module_route import module_router
from aggregator.cli.local.interop_api import Habits, InteropClient, InteropCollector
from aggregator.cli.steward.plan_serve import planner_guest
from aggregator.dap.auth import token_header_named
from aggregator.dap.profile import Role, profile_named
from aggregator.dap.resources import resources_of
from aggregator.service.telemetry.health import Health
from aggregator.service.telemetry.probe import Probe
from aggregator.service.web.app import create_app
from aggregator.service.web.health import create_health_app
from tests.support.collector_service import CollectorService
from tests.support.pair import Pair
from tests.support.tasks import LAPLACE, make_task

TASK = make_task({"type": "Prio3Count"}, {**LAPLACE, "max_releases": 100})
Paths = set[tuple[str, str]]
"""A method, and a path whose ids are in braces."""


@asynccontextmanager
async def parties(folder: Path) -> AsyncIterator[dict[str, tuple[ASGIApp, Paths]]]:
    """Every application that a party or a tester serves, with all that it answers."""
    pair = Pair(folder, TASK)
    await pair.provision()
    collector = CollectorService(folder, TASK, guests=[planner_guest()])
    probe = Probe(lambda: Health([], {}, []), lambda: 0.0)
    health = create_health_app(probe, any_address=True)
    habits = Habits(profile_named("dap-18"), token_header_named("Authorization"))
    async with httpx.AsyncClient() as http:
        tested = [kind(http, habits).router() for kind in (InteropClient, InteropCollector)]
        resources = {
            role: {
                (method, each.template) for each in resources_of(role) for method in each.methods
            }
            for role in (Role.LEADER, Role.HELPER)
        }
        module = module_router()
        yield {
            "leader": (pair.leader.app, resources[Role.LEADER]),
            "helper": (pair.helper.app, resources[Role.HELPER]),
            "collector": (collector.app, set(served_by(collector.app))),
            "health": (health, set(served_by(health))),
            "module": (create_app("module", [module]), set(served_by(module))),
            "interop": (create_app("interop", tested), {p for r in tested for p in served_by(r)}),
        }
    collector.database.close()
    await pair.close()


def served_by(router: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield all that an application or a router answers."""
    routes: Iterable[object] = getattr(router, "routes", ())
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from served_by(inner, prefix + route.include_context.prefix)  # type: ignore[attr-defined]  # by its kind
        else:
            for method in getattr(route, "methods", None) or ():
                yield method, prefix + route.path  # type: ignore[attr-defined]  # by its kind


async def title_of(app: ASGIApp, method: str, raw_path: str) -> str:
    """Return the title of the 404 that answers a request; another status is an error."""
    said: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw_path),
        "raw_path": raw_path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "root_path": "",
    }
    await app(scope, receive, send)
    assert said[0]["status"] == 404, (method, raw_path, said)
    return str(json.loads(b"".join(each.get("body", b"") for each in said[1:]))["title"])


def near(path: str) -> Iterator[str]:
    """Yield what a proxy would not take for a path, and the framework might."""
    yield f"{path}%0a"
    yield f"{path}%0A"
    for at, character in enumerate(path):
        if character != "/":
            for escaped in (f"%{ord(character):02x}", f"%{ord(character):02X}"):
                yield path[:at] + escaped + path[at + 1 :]
    for found in re.finditer("/", path[1:]):
        before, after = path[: found.start() + 1], path[found.start() + 2 :]
        for escaped in ("%2f", "%2F", "%0a/", "/%0a"):
            yield f"{before}{escaped}{after}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_nearly_every_path_is_nobodys(tmp_path: Path) -> None:
    async with parties(tmp_path) as served:
        for party, (app, paths) in served.items():
            assert len(paths) >= 2, party
            for method, template in sorted(paths):
                path = re.sub(r"\{task_id\}", str(TASK.task_id), template)
                path = re.sub(r"\{[^}]*\}", "A" * 22, path)
                for each in near(path):
                    assert await title_of(app, method, each) == "Not Found", (party, each)
                    if party in {"leader", "helper"}:
                        assert await title_of(app, "OPTIONS", each) == "Not Found", (party, each)
