"""Aggregators that are served below a path, each at one of its own, with and without proxies."""

from pathlib import Path

import httpx
import pytest
from typing_extensions import override

from aggregator.client import AsyncClient
from aggregator.collector.collect import Pending, TaskCollector
from tests.support.pair import COLLECTOR_TOKEN, Pair, Service
from tests.support.tasks import collector_keypair, make_task
from tests.support.through_http import ThroughHttp

LEADER, HELPER = "https://leader.example/a/b", "https://helper.example/dap/"


class Proxies(httpx.AsyncBaseTransport):
    """Pass on what is below the path of an endpoint, and do not find the rest.

    With `takes_off` they take that path off each request.
    """

    def __init__(self, *, takes_off: bool, **services: Service) -> None:
        self.locations: list[str] = []
        self._takes_off = takes_off
        self._wires = {
            httpx.URL(endpoint): httpx.ASGITransport(services[name])
            for name, endpoint in (("leader", LEADER), ("helper", HELPER))
        }

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for endpoint, wire in self._wires.items():
            below = endpoint.path.rstrip("/") + "/"
            if request.url.host == endpoint.host and request.url.path.startswith(below):
                inner = request.url
                if self._takes_off:
                    inner = inner.copy_with(path="/" + inner.path.removeprefix(below))
                passed = httpx.Request(
                    request.method, inner, headers=request.headers, content=await request.aread()
                )
                answer = await wire.handle_async_request(passed)
                self.locations += answer.headers.get_list("location")
                return answer
        return httpx.Response(404, text="<html>not here</html>")


@pytest.mark.parametrize(
    ("batch_mode", "profile", "takes_off"),
    [
        ("time_interval", "dap-18", True),
        ("leader_selected", "dap-18", True),
        ("leader_selected", "dap-18", False),
        ("time_interval", "janus", False),
    ],
)
async def test_all_parties_find_resources_that_lie_below_a_path(
    tmp_path: Path, batch_mode: str, profile: str, *, takes_off: bool
) -> None:
    task = make_task(leader=LEADER, helper=HELPER, batch_mode=batch_mode, profile=profile)
    pair = Pair(tmp_path, task)
    proxies = Proxies(takes_off=takes_off, leader=pair.leader, helper=pair.helper)
    try:
        await pair.provision()
        async with httpx.AsyncClient(transport=proxies) as pair.http:
            client = AsyncClient(task, sender=ThroughHttp(pair.http), clock=pair.clock)
            assert (await client.upload([0, 1, 1])).accepted == 3
            collector = TaskCollector(task, collector_keypair(), COLLECTOR_TOKEN, pair.http)
            collection, state = await collector.start(pair.request())
            await pair.work_until_idle()
            state = await collector.poll(collection)
            assert not isinstance(state, Pending)
            assert state.values == (1, 2, 0, 0)
            await collector.forget(collection)
        begins = {each.partition("/tasks/")[0] for each in proxies.locations}
        named = set() if task.profile.creator_names else {"/a/b", "/dap"}
        assert begins == named
    finally:
        await pair.close()


async def test_nothing_is_served_below_a_path_that_no_task_names(tmp_path: Path) -> None:
    """A stranger would get past what a proxy's rules say of the paths that it knows."""
    pair = Pair(tmp_path, make_task(leader=LEADER, helper=HELPER))
    try:
        wire = httpx.ASGITransport(pair.leader)
        async with httpx.AsyncClient(transport=wire, base_url="https://leader.example") as http:

            async def status(path: str) -> int:
                return (await http.get(path)).status_code

            assert await status("/a/b/hpke_config") == 404  # there is no task yet
            await pair.provision()
            found = [await status(f"{path}/hpke_config") for path in ("", "/a/b")]
            assert found == [200, 200]
            others = ("/a", "/b", "/a/b/c", "/dap", "/a/b/a/b", "/A/b")
            more_slashes = ("/a/b/", "//a/b", "/a/b//", "/a//b")
            for path in (*others, *more_slashes):
                assert await status(f"{path}/hpke_config") == 404, path
            seen = await http.get("/a/b/hpke_config", headers={"origin": "https://page.example"})
            assert seen.headers["access-control-allow-origin"] == "*"
    finally:
        await pair.close()
