"""A receiver of traces (OTLP over HTTP, protobuf), which keeps what it is sent."""

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATH = "/v1/traces"


@dataclasses.dataclass(frozen=True)
class Received:
    """A span, as a reader of traces sees it.

    Attributes:
        service: Which service sent it.
        name: Its name.
        kind: Its number in the protocol: `Span.SPAN_KIND_SERVER` and the like.
        trace_id: Hexadecimal.
        span_id: Hexadecimal.
        parent: The span that it is below, if any, hexadecimal.
        attributes: By name.
    """

    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent: str
    attributes: dict[str, str | int]


class Receiver:
    """What has been received so far.

    Attributes:
        url: Where it listens.
        bodies: As they came.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[bytes] = []

    def spans(self) -> list[Received]:
        """Return all spans."""
        return [span for body in self.bodies for span in _read(body)]


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """Receive traces on a loopback port, a free one by default."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == PATH
            assert self.headers["content-type"] == "application/x-protobuf"
            receiver.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}{PATH}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def _read(body: bytes) -> Iterator[Received]:
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        (service,) = (
            each.value.string_value
            for each in group.resource.attributes
            if each.key == "service.name"
        )
        for scope in group.scope_spans:
            for span in scope.spans:
                yield _received(service, span)


def _received(service: str, span: Span) -> Received:
    attributes = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        assert kind in ("string_value", "int_value")
        attributes[each.key] = getattr(each.value, kind)
    assert not span.events
    return Received(
        service,
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        attributes,
    )
