"""The health listener says whether work moves, at once, whatever the store does."""

import os
import time
from collections.abc import Callable

import httpx
import pytest

from aggregator.cli.service.health_checks import health_listener
from aggregator.errors import StoreError
from aggregator.service.config import HelperSettings
from aggregator.service.telemetry.health import Health, Metric, exposition
from aggregator.service.telemetry.probe import Probe
from aggregator.service.web.health import create_health_app
from aggregator.service.web.pages.operator import operator_page
from tests.support.look import Page

READY = Health([], {"role": "leader"}, [Metric("prio_keys", "How many?", "gauge", [({}, 7)])])
STALLED = Health(["5 reports wait"], {"role": "leader"}, [], ["5 reports wait"])


def looked(examine: Callable[[], Health], now: Callable[[], float] = time.monotonic) -> Probe:
    probe = Probe(examine, now)
    probe.look()
    return probe


def client(examine: Callable[[], Health]) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_health_app(looked(examine)))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def test_the_page_shows_names_and_reasons_of_others_as_text() -> None:
    hostile = "<script>alert(1)</script>"
    document = {"role": "leader", "free_bytes": 3 * 10**9, "tasks": [{"task_info": hostile}]}
    page = Page(bytes(operator_page(Health([hostile], document, [])).body).decode())
    assert not page.all("script")
    assert [each.text for each in page.all("bdi")].count(hostile) == 2
    assert "3.0 GB" in page.all("main")[0].text
    async with client(lambda: READY) as http:
        answer = await http.get("/")
    assert (answer.status_code, Page(answer.text).all("script")) == (200, [])
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/healthz"])
async def test_on_this_machine_only_a_page_of_another_site_reads_nothing(path: str) -> None:
    """DNS rebinding: the page gave 127.0.0.1 a name of its own."""
    settings = HelperSettings(database="helper.sqlite", health_listen="127.0.0.1:9001")
    listener = health_listener(settings, looked(lambda: READY))
    assert listener is not None
    transport = httpx.ASGITransport(listener[0])
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9001") as http:
        for host, code in (("evil.example:9001", 421), ("localhost:9001", 200), ("[::1]:1", 200)):
            answer = await http.get(path, headers={"host": host})
            assert answer.status_code == code, host
        answer = await http.get(path, headers={"origin": "http://evil.example"})
        assert (answer.status_code, READY.document["role"] in answer.text) == (403, False)


@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/healthz", "/readyz"])
async def test_on_a_network_it_answers_to_addresses_and_to_names_that_are_given(path: str) -> None:
    """A kubelet's probe and Prometheus say the pod's address, HAProxy's check says nothing."""
    settings = HelperSettings(
        database="helper.sqlite",
        health_listen="0.0.0.0:9000",
        health_hosts="Helper.example, monitor",
    )
    listener = health_listener(settings, looked(lambda: READY))
    assert listener is not None
    transport = httpx.ASGITransport(listener[0])
    async with httpx.AsyncClient(transport=transport, base_url="http://10.1.2.3:9000") as http:
        for host, code in (
            ("10.1.2.3:9000", 200),
            ("[fd00::1]:9000", 200),
            ("localhost:9000", 200),
            ("helper.example", 200),
            ("monitor:9000", 200),
            ("evil.example:9000", 421),
            ("10.1.2.3.evil.example", 421),
            ("0x0a010203", 421),
            ("[fd00::1", 421),
            ("", 421),
        ):
            answer = await http.get(path, headers={"host": host})
            assert answer.status_code == code, host
        for origin, code in (("http://10.1.2.3:9000", 200), ("http://10.6.6.6", 403)):
            answer = await http.get(path, headers={"origin": origin})
            assert answer.status_code == code, origin
        request = http.build_request("GET", path)
        del request.headers["host"]
        assert (await http.send(request)).status_code == 200


async def test_a_ready_service_is_200_and_one_whose_work_stands_still_503_with_its_reason() -> None:
    async with client(lambda: READY) as http:
        answer = await http.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
        assert (await http.head("/health")).status_code == 200
    async with client(lambda: STALLED) as http:
        answer = await http.get("/health")
        assert (answer.status_code, answer.json()["faults"]) == (503, ["5 reports wait"])
        assert (await http.get("/healthz")).status_code == 200


async def test_work_that_stands_still_keeps_no_request_away_and_a_full_disk_does() -> None:
    async with client(lambda: STALLED) as http:
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["obstacles"]) == (200, [])
    full = Health(["the disk is full", "5 reports wait"], {}, [], ["5 reports wait"])
    async with client(lambda: full) as http:
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["obstacles"]) == (503, ["the disk is full"])
        assert (await http.get("/healthz")).status_code == 200


async def test_metrics_are_in_prometheus_text_format() -> None:
    async with client(lambda: READY) as http:
        answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    mine = "# HELP prio_keys How many?\n# TYPE prio_keys gauge\nprio_keys 7\n"
    assert mine in answer.text
    assert "prio_ready 1" in answer.text.splitlines()
    assert f'process="{os.getpid()}"' in answer.text


def test_labels_are_escaped() -> None:
    metric = Metric("n", "Help.", "counter", [({"a": 'x"\\\n', "b": "y"}, 2.5)])
    assert exposition([metric]).splitlines()[2] == 'n{a="x\\"\\\\\\n",b="y"} 2.5'


async def test_a_store_that_cannot_be_read_is_a_reason() -> None:
    def fails() -> Health:
        raise StoreError("the store is damaged")

    async with client(fails) as http:
        answer = await http.get("/health")
        assert (answer.status_code, answer.json()["faults"]) == (503, ["the store is damaged"])
        assert "prio_ready 0" in (await http.get("/metrics")).text.splitlines()


async def test_the_age_of_what_is_said_is_in_the_document_the_page_and_the_metrics() -> None:
    now = 100.0
    app = create_health_app(looked(lambda: READY, lambda: now))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost"
    ) as http:
        now += 30
        answer = await http.get("/health")
        assert (answer.status_code, answer.json()["seen_seconds"]) == (200, 30)
        assert "Seen 30 s ago." in Page((await http.get("/")).text).all("main")[0].text
        assert "prio_seen_seconds 30.0" in (await http.get("/metrics")).text.splitlines()
        now += 1
        answer = await http.get("/health")
        assert answer.status_code == 503
        (fault,) = answer.json()["faults"]
        assert fault == "the last look at the store is 31 s old, and no other has begun"
        assert (await http.get("/readyz")).json()["obstacles"] == [fault]
        assert (await http.get("/healthz")).status_code == 200
        lines = (await http.get("/metrics")).text.splitlines()
        assert {"prio_ready 0", "prio_seen_seconds 31.0"} <= set(lines)
