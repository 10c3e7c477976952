"""Records spans and sends them away by OTLP over HTTP, with OpenTelemetry's own libraries.

These libraries are an extra of the package; nothing else imports them. Spans wait in a bounded
queue, from which a thread sends them. Recording a span never waits; spans that do not fit, or do
not arrive in time, are lost. Exceptions are named only by type, since a message may contain
anything.

OpenTelemetry's other environment variables apply too, such as `OTEL_EXPORTER_OTLP_HEADERS` for a
token, and `OTEL_TRACES_SAMPLER`.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import requests
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags
from typing_extensions import override

import aggregator
from aggregator.errors import Abort
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.tracing import (
    SpanKind,
    TraceContext,
    Value,
    log_trace_id,
    record_with,
)

EXPORT_SECONDS = 5.0
"""How long all attempts to send one batch of spans may take together; a service that ends waits no
longer for a receiver that does not answer."""

_NOISY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")
"""Loggers that would log each batch that did not arrive."""

_KINDS = {
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
    SpanKind.SERVER: trace.SpanKind.SERVER,
    SpanKind.CLIENT: trace.SpanKind.CLIENT,
}


@contextmanager
def recording(endpoint: str, role: str, *, environment_proxy: bool = False) -> Iterator[None]:
    """Record the spans of this process during the block, and send them to a receiver's URL.

    Call it after the last fork: threads do not survive one.
    """
    session = requests.Session()
    session.trust_env = environment_proxy
    exporter = TellingExporter(OTLPSpanExporter(endpoint, timeout=EXPORT_SECONDS, session=session))
    provider = provider_of(role)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    record_with(SpanRecorder(provider))
    try:
        yield
    finally:
        record_with(None)
        exporter.hurry()
        provider.shutdown()


def provider_of(role: str) -> TracerProvider:
    """Return a provider of spans of a party's process, which does not export them yet."""
    described: dict[str, str | int] = {
        "service.name": f"prio-{role}",
        "service.version": aggregator.__version__,
        "process.pid": os.getpid(),
    }
    return TracerProvider(
        resource=Resource.create(described), id_generator=_LogIds(), shutdown_on_exit=False
    )


class SpanRecorder:
    """A `tracing.Recorder` that uses OpenTelemetry's tracer; any thread may call it."""

    def __init__(self, provider: TracerProvider) -> None:
        """Make spans by `provider`."""
        self._tracer = provider.get_tracer("prio", aggregator.__version__)

    @contextmanager
    def span(
        self,
        name: str,
        kind: SpanKind,
        parent: TraceContext | None,
        attributes: Mapping[str, Value],
    ) -> Iterator[None]:
        """Record a span, as a child of `parent` or else of the current span."""
        with self._tracer.start_as_current_span(
            name,
            context=None if parent is None else trace.set_span_in_context(_remote(parent)),
            kind=_KINDS[kind],
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                if not isinstance(error, Abort):  # an Abort is the peer's fault
                    span.set_status(StatusCode.ERROR)
                raise

    def note(self, attributes: Mapping[str, Value]) -> None:
        """Add to the current span, if there is one."""
        trace.get_current_span().set_attributes(attributes)

    def context(self) -> TraceContext | None:
        """Return the context of the current span, if there is one."""
        here = trace.get_current_span().get_span_context()
        if not here.is_valid:
            return None
        return TraceContext(
            trace.format_trace_id(here.trace_id),
            trace.format_span_id(here.span_id),
            here.trace_flags.sampled,
        )


class TellingExporter(SpanExporter):
    """Sends through another exporter, and logs when that starts and stops failing."""

    def __init__(self, exporter: SpanExporter) -> None:
        """Send through `exporter`."""
        self._exporter = exporter
        self._is_failing = False
        self._is_ending = False

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; one that does not arrive is lost."""
        if self._is_ending and self._is_failing:
            return SpanExportResult.FAILURE  # one batch has had its time already
        result = self._exporter.export(spans)
        is_failing = result is not SpanExportResult.SUCCESS
        if is_failing and not self._is_failing:
            log.warning("traces cannot be sent: spans are lost until they can")
        elif self._is_failing and not is_failing:
            log.info("traces are sent again")
        self._is_failing = is_failing
        return result

    def hurry(self) -> None:
        """Retry no failed batch from now on, since the process is about to end."""
        self._is_ending = True
        if self._is_failing:
            self._exporter.shutdown()

    @override
    def shutdown(self) -> None:
        """Shut down; nothing is sent afterwards."""
        self._exporter.shutdown()

    @override
    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: nothing waits here."""
        return True


class _LogIds(RandomIdGenerator):
    """Gives a trace the id that log lines carry."""

    @override
    def generate_trace_id(self) -> int:
        logged = log_trace_id()
        return super().generate_trace_id() if logged is None else int(logged, 16)


def _remote(given: TraceContext) -> NonRecordingSpan:
    flags = TraceFlags(TraceFlags.SAMPLED if given.is_sampled else TraceFlags.DEFAULT)
    context = SpanContext(
        int(given.trace_id, 16), int(given.span_id, 16), is_remote=True, trace_flags=flags
    )
    return NonRecordingSpan(context)
