"""One trace per piece of work, across both aggregators: log lines have its id, and spans are apart.

The party that begins the work makes the trace's id, binds it for the log and sends it along with
every request (`traceparent`). Spans, which say how long each part took, are recorded only if a
recorder was set (`telemetry.otlp`); otherwise a span does nothing. Spans carry only what a log line
may: roles, ids of tasks and jobs, counts and outcomes, and the type of an error.

Source: W3C, "Trace Context", "traceparent Header".
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum, auto
from types import MappingProxyType
from typing import Protocol

import structlog

Value = str | int
"""The types of a span's attributes: none of them could hold a share or a key."""

_HEADER = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
)
_SAMPLED = 1


class SpanKind(Enum):
    """The kind of a span."""

    INTERNAL = auto()
    """A part of our own work."""
    SERVER = auto()
    """A request that another party sent us."""
    CLIENT = auto()
    """A request that we sent to another party."""


@dataclasses.dataclass(frozen=True, slots=True)
class TraceContext:
    """A span in a trace, as `traceparent` names it, by 32 and 16 hexadecimal digits.

    It is sampled if its sender may have recorded it.
    """

    trace_id: str
    span_id: str
    is_sampled: bool = True

    def header(self) -> str:
        """Return the header that makes a request's work a child of this span."""
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.is_sampled else 0:02x}"


class Recorder(Protocol):
    """Records spans."""

    def span(
        self,
        name: str,
        kind: SpanKind,
        parent: TraceContext | None,
        attributes: Mapping[str, Value],
    ) -> AbstractContextManager[None]:
        """Record a span, as a child of `parent` or else of the current span."""

    def note(self, attributes: Mapping[str, Value]) -> None:
        """Add to the current span, if there is one."""

    def context(self) -> TraceContext | None:
        """Return the context of the current span, if there is one."""


_recorder: Recorder | None = None


def record_with(recorder: Recorder | None) -> None:
    """Record this process's spans with `recorder` from now on; None stops recording."""
    global _recorder  # noqa: PLW0603  one per process, as the log is
    _recorder = recorder


def span(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: TraceContext | None = None,
    conventional: Mapping[str, Value] = MappingProxyType({}),
    /,
    **ours: Value,
) -> AbstractContextManager[None]:
    """Record how long the block takes, if spans are recorded.

    `name` is one of a few fixed ones. `parent` is the span of the party that asked for this work.
    Attributes are by OpenTelemetry's names, or by ours, to which the prefix `prio.` is added.
    """
    if _recorder is None:
        return nullcontext()
    return _recorder.span(name, kind, parent, _attributes(conventional, ours))


def note(conventional: Mapping[str, Value] = MappingProxyType({}), /, **ours: Value) -> None:
    """Add attributes to the current span, if there is one; for the arguments see `span`."""
    if _recorder is not None:
        _recorder.note(_attributes(conventional, ours))


def new_trace_id() -> str:
    """Return a fresh id."""
    return os.urandom(16).hex()


def log_trace_id() -> str | None:
    """Return the id that log lines carry now, if any."""
    bound: str | None = structlog.contextvars.get_contextvars().get("trace_id")
    return bound


@contextmanager
def new_trace() -> Iterator[None]:
    """Begin a trace for the block: for the log, and for the next span."""
    with structlog.contextvars.bound_contextvars(trace_id=new_trace_id()):
        yield


def traceparent() -> str:
    """Return the header that links what the peer logs and records to what we do."""
    here = None if _recorder is None else _recorder.context()
    # If we record no spans, our log still has the trace id, and the peer may record its part.
    return (here or TraceContext(log_trace_id() or new_trace_id(), os.urandom(8).hex())).header()


def read_traceparent(header: str | None) -> TraceContext | None:
    """Return the span from which a peer sent a request; None without a valid header."""
    match = None if header is None else _HEADER.fullmatch(header)
    if match is None:
        return None
    return TraceContext(match[1], match[2], bool(int(match[3], 16) & _SAMPLED))


def _attributes(conventional: Mapping[str, Value], ours: Mapping[str, Value]) -> dict[str, Value]:
    return {**conventional, **{f"prio.{name}": value for name, value in ours.items()}}
