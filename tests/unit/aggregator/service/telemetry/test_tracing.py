"""Spans: where they stand in a trace, what they hold, and that nobody waits for their receiver."""

from collections.abc import Iterator, Sequence

import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind as Recorded
from opentelemetry.trace import StatusCode
from structlog.testing import capture_logs
from typing_extensions import override

from aggregator.dap.problems import BatchOverlap
from aggregator.service.telemetry.otlp import SpanRecorder, TellingExporter, provider_of
from aggregator.service.telemetry.tracing import (
    SpanKind,
    TraceContext,
    log_trace_id,
    new_trace,
    note,
    read_traceparent,
    record_with,
    span,
    traceparent,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "do-not-show-this"  # noqa: S105 - a test's secret


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What was recorded so far."""
    exporter = InMemorySpanExporter()
    provider = provider_of("leader")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    record_with(SpanRecorder(provider))
    yield exporter
    record_with(None)
    provider.shutdown()


def trace_of(recorded: ReadableSpan) -> str:
    assert recorded.context is not None
    return f"{recorded.context.trace_id:032x}"


def test_a_span_has_the_trace_of_the_logs_lines_and_the_peer_goes_on_below_it(
    spans: InMemorySpanExporter,
) -> None:
    with new_trace(), span("step", task="a task"):
        logged = log_trace_id()
        with span("ask", SpanKind.CLIENT, None, {"http.request.method": "POST"}):
            sent = traceparent()
        note(reports=3)
    with span("answer", SpanKind.SERVER, read_traceparent(sent)):
        pass
    ask, step, answer = spans.get_finished_spans()
    assert {trace_of(each) for each in (ask, step, answer)} == {logged}
    assert step.parent is None
    assert (ask.parent, ask.kind) == (step.context, Recorded.CLIENT)
    assert ask.context is not None
    assert answer.parent is not None
    assert (answer.parent.span_id, answer.kind) == (ask.context.span_id, Recorded.SERVER)
    assert dict(step.attributes or {}) == {"prio.task": "a task", "prio.reports": 3}
    assert dict(ask.attributes or {}) == {"http.request.method": "POST"}
    assert step.resource.attributes["service.name"] == "prio-leader"


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError(SECRET), StatusCode.ERROR), (BatchOverlap(SECRET), StatusCode.UNSET)],
)
def test_of_an_exception_only_the_type_is_kept(
    spans: InMemorySpanExporter, error: Exception, status: StatusCode
) -> None:
    with pytest.raises(type(error)), span("work"):
        raise error
    (recorded,) = spans.get_finished_spans()
    assert recorded.attributes == {"error.type": type(error).__name__}
    assert recorded.status.status_code is status
    assert SECRET not in recorded.to_json()


def test_without_a_recorder_a_span_is_nothing_and_the_trace_is_still_sent_along() -> None:
    with structlog.contextvars.bound_contextvars(trace_id=TRACE), span("work", task="a task"):
        note(reports=3)
        context = read_traceparent(traceparent())
    assert context is not None
    assert (context.trace_id, context.is_sampled) == (TRACE, True)
    assert read_traceparent(traceparent()) is not None


def test_a_peer_that_does_not_sample_is_not_recorded(spans: InMemorySpanExporter) -> None:
    with span("answer", SpanKind.SERVER, TraceContext(TRACE, SPAN, is_sampled=False)):
        assert read_traceparent(traceparent()) is not None
        assert traceparent().endswith("-00")
    assert spans.get_finished_spans() == ()


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{'a' * 10_000}-{SPAN}-01",
    ],
)
def test_a_header_that_is_none_places_nothing(header: str | None) -> None:
    assert read_traceparent(header) is None


class Receiver(SpanExporter):
    """Answers as it is told to."""

    def __init__(self, answers: Sequence[SpanExportResult]) -> None:
        self.answers = list(answers)
        self.is_ended = False

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self.answers.pop(0)

    @override
    def shutdown(self) -> None:
        self.is_ended = True


def test_a_receiver_that_is_away_is_logged_once_and_once_that_it_is_back() -> None:
    good, bad = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
    exporter = TellingExporter(Receiver([good, bad, bad, bad, good, good, bad]))
    with capture_logs() as logs:
        for _ in range(7):
            exporter.export([])
    assert [line["event"] for line in logs] == [
        "traces cannot be sent: spans are lost until they can",
        "traces are sent again",
        "traces cannot be sent: spans are lost until they can",
    ]


def test_a_process_that_ends_does_not_go_on_trying_a_receiver_that_is_away() -> None:
    good, bad = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
    receiver = Receiver([good, bad, good])
    exporter = TellingExporter(receiver)
    exporter.hurry()
    assert [exporter.export([]) for _ in range(4)] == [good, bad, bad, bad]
    assert receiver.answers == [good]
    assert not receiver.is_ended


def test_a_process_that_ends_gives_up_at_once_what_fails_already() -> None:
    receiver = Receiver([SpanExportResult.FAILURE])
    exporter = TellingExporter(receiver)
    exporter.export([])
    exporter.hurry()
    assert receiver.is_ended
    assert exporter.export([]) is SpanExportResult.FAILURE
