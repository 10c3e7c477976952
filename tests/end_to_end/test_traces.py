"""Traces of a real pair: one for each piece of work, with the spans of both aggregators."""

import re
import time
from collections import Counter
from pathlib import Path

import anyio
import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from aggregator.service.telemetry.otlp import recording
from aggregator.service.telemetry.tracing import span
from tests.support.measured_task import HOUR, MeasuredTask, make_measured_task
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import free_ports
from tests.support.processes import Processes
from tests.support.traces import PATH, Received, receiving

pytestmark = pytest.mark.slow

REPORTS = 60
JOB_SIZE = 20
ID = r"[0-9a-f]{32}"
FORMS = {
    "prio.task": r"[A-Za-z0-9_-]{43}",
    "prio.job": ID,
    "prio.resource": ID,
    "prio.attempt": r"\d",
    "prio.reports": r"\d{1,3}",
    "prio.aggregated": r"\d{1,3}",
    "prio.outcome": r"[a-z]+",
    "prio.peer": r"http://127\.0\.0\.1:\d+",
    "http.request.method": r"GET|POST",
    "http.route": r"/tasks/\{task_id\}/[a-z_{}/]+",
    "http.response.status_code": r"20[012]",
}
"""Everything that a span may say, and how it looks: no report's id and no content."""


def run(folder: Path, endpoint: str, *options: str) -> tuple[Processes, MeasuredTask]:
    """Let a pair with this receiver aggregate and release a batch, and stop it.

    Args:
        folder: Where it lives.
        endpoint: The receiver.
        options: Of both aggregators' commands.
    """
    settings = {"aggregation_job_size": JOB_SIZE, "work_interval_seconds": 0.1}
    with Processes(folder, **settings) as services:
        for party in ("leader", "helper"):
            services.options[party] = options
            services.change(party, traces_endpoint=endpoint)
        start = int(time.time()) // HOUR * HOUR - HOUR
        asked = make_measured_task(services, "task", REPORTS, 3, start, "--epsilon=1")
        services.start("leader", "helper")

        async def upload_and_collect() -> bytes:
            async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as http:
                await asked.upload(http, 1)
                return await asked.collect(http)

        asked.assert_right(asked.open(anyio.run(upload_and_collect)))
        for party in ("leader", "helper"):
            assert services.stop(party) == 0
        asked.assert_counted_once()
        return services, asked


def below(spans: list[Received], above: Received, name: str) -> Received:
    """Return the first span of this name that is right below another."""
    found = [each for each in spans if each.parent == above.span_id and each.name == name]
    assert found, (name, above, [each.name for each in spans])
    assert found[0].trace_id == above.trace_id
    return found[0]


def test_one_trace_has_the_spans_of_both_aggregators(tmp_path: Path) -> None:
    with receiving() as receiver:
        services, asked = run(tmp_path, receiver.url, "--processes=2")
        spans = receiver.spans()
    finished = {
        line["trace_id"]
        for line in services.log("leader")
        if line["event"] == "aggregation job finished"
    }
    jobs = [each for each in spans if each.name == "step aggregation job"]
    assert {job.trace_id for job in jobs} >= finished
    assert len(finished) >= REPORTS / JOB_SIZE
    for job in jobs:
        assert (job.service, job.parent) == ("prio-leader", "")
        below(spans, job, "verify")
        sent = below(spans, job, "POST")
        assert sent.kind == Span.SPAN_KIND_CLIENT
        answered = below(spans, sent, "POST /tasks/{task_id}/aggregation_jobs")
        assert (answered.service, answered.kind) == ("prio-helper", Span.SPAN_KIND_SERVER)
        assert answered.attributes["prio.task"] == asked.task_id
        assert answered.attributes["prio.reports"] == job.attributes["prio.reports"]
        assert below(spans, answered, "verify").service == "prio-helper"
    assert sum(int(job.attributes["prio.aggregated"]) for job in jobs) == REPORTS

    (release,) = (
        each for each in spans if each.name == "release batch" and each.service == "prio-leader"
    )
    (step,) = (each for each in spans if each.span_id == release.parent)
    assert step.name == "step collection job"
    answered = below(spans, below(spans, step, "POST"), "POST /tasks/{task_id}/aggregate_shares")
    assert below(spans, answered, "release batch").attributes == {"prio.reports": REPORTS}

    created = Counter(each.name for each in spans)["create aggregation job"]
    assert created >= len(finished)
    assert not any("reports" in each.name or "hpke" in each.name for each in spans)
    said = {item for each in spans for item in each.attributes.items()}
    assert [item for item in said if not re.fullmatch(FORMS[item[0]], str(item[1]))] == []


def test_a_receiver_that_is_away_holds_up_nothing_and_is_logged_once(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    services, _ = run(tmp_path, f"http://127.0.0.1:{port}{PATH}", "--processes=1")
    for party in ("leader", "helper"):
        logs = services.log(party)
        events = Counter(line["event"] for line in logs if line["level"] != "info")
        assert events == {"traces cannot be sent: spans are lost until they can": 1}, party


def test_a_span_costs_no_wait_though_more_come_than_can_be_sent() -> None:
    (port,) = free_ports(1)
    with recording(f"http://127.0.0.1:{port}{PATH}", "leader"):
        began = time.perf_counter()
        for _ in range(20_000):
            with span("work", task="a task"):
                pass
        seconds = time.perf_counter() - began
        ending = time.perf_counter()
    assert seconds < PATIENCE_SECONDS
    assert time.perf_counter() - ending < PATIENCE_SECONDS
