"""Aggregators behind proxies that serve them below a path, each at one of its own."""

from pathlib import Path

import httpx
import pytest
from typing_extensions import override

from aggregator.client import Client
from aggregator.collector.collect import Pending, TaskCollector
from tests.support.entropy import SeededEntropy
from tests.support.pair import COLLECTOR_TOKEN, Pair, Service
from tests.support.tasks import collector_keypair, make_task

pytestmark = pytest.mark.anyio

LEADER, HELPER = "https://leader.example/a/b", "https://helper.example/dap/"


class Proxies(httpx.AsyncBaseTransport):
    """Take the path of an endpoint off each request; whatever is not below it they do not find."""

    def __init__(self, **services: Service) -> None:
        self.locations: list[str] = []
        self._wires = {
            httpx.URL(endpoint): httpx.ASGITransport(services[name])
            for name, endpoint in (("leader", LEADER), ("helper", HELPER))
        }

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for endpoint, wire in self._wires.items():
            below = endpoint.path.rstrip("/") + "/"
            if request.url.host == endpoint.host and request.url.path.startswith(below):
                inner = request.url.copy_with(path="/" + request.url.path.removeprefix(below))
                passed = httpx.Request(
                    request.method, inner, headers=request.headers, content=await request.aread()
                )
                answer = await wire.handle_async_request(passed)
                self.locations += answer.headers.get_list("location")
                return answer
        return httpx.Response(404, text="<html>not here</html>")


@pytest.mark.parametrize("batch_mode", ["time_interval", "leader_selected"])
async def test_all_parties_find_resources_that_lie_below_a_path(
    tmp_path: Path, batch_mode: str
) -> None:
    task = make_task(leader=LEADER, helper=HELPER, batch_mode=batch_mode)
    pair = Pair(tmp_path, task)
    proxies = Proxies(leader=pair.leader, helper=pair.helper)
    try:
        await pair.provision()
        async with httpx.AsyncClient(transport=proxies) as pair.http:
            client = Client(task, pair.http, SeededEntropy(b"client"), pair.clock)
            assert (await client.upload([0, 1, 1])).accepted == 3
            collector = TaskCollector(task, collector_keypair(), COLLECTOR_TOKEN, pair.http)
            collection, state = await collector.start(pair.request())
            await pair.work_until_idle()
            state = await collector.poll(collection)
            assert not isinstance(state, Pending)
            assert state.values == (1, 2, 0, 0)
            await collector.forget(collection)
        begins = {each.partition("/tasks/")[0] for each in proxies.locations}
        assert begins == {"/a/b", "/dap"}
    finally:
        await pair.close()
