"""One trace per piece of work, through both aggregators: its id in every log line, its spans apart.

The id of a trace is made by whoever begins the work, bound for the log and sent along with every
request (`traceparent`). Spans, which say how long each part took, are recorded only where a
recorder was set (`telemetry.otlp`); without one a span is nothing. They carry what a log line may:
roles, ids of tasks and jobs, counts and outcomes, and of an error its kind.

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
"""What an attribute of a span may be: nothing that could hold a share or a key."""

_HEADER = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
)
_SAMPLED = 1


class SpanKind(Enum):
    """What a span is in its trace."""

    INTERNAL = auto()
    """A part of our own work."""
    SERVER = auto()
    """A request that another party sent us."""
    CLIENT = auto()
    """A request that we sent to another party."""


@dataclasses.dataclass(frozen=True, slots=True)
class TraceContext:
    """A span in a trace, as `traceparent` names it.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        is_sampled: Whether whoever was there may have recorded it.
    """

    trace_id: str
    span_id: str
    is_sampled: bool = True

    def header(self) -> str:
        """Return the header that places what is asked for below it."""
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
        """Record a span, below `parent` or else below the one that is current."""

    def note(self, attributes: Mapping[str, Value]) -> None:
        """Add to the current span, if there is one."""

    def context(self) -> TraceContext | None:
        """Return where the current span is, if there is one."""


_recorder: Recorder | None = None


def record_with(recorder: Recorder | None) -> None:
    """Record the spans of this process from now on; None ends it."""
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

    Args:
        name: One of few.
        kind: What it is.
        parent: Where the other party was that asked for it.
        conventional: Attributes by the names that OpenTelemetry gives them.
        ours: Attributes by our names, without the prefix `prio.` that they get.
    """
    if _recorder is None:
        return nullcontext()
    return _recorder.span(name, kind, parent, _all(conventional, ours))


def note(conventional: Mapping[str, Value] = MappingProxyType({}), /, **ours: Value) -> None:
    """Say more of the current span, if there is one; the arguments are as for `span`."""
    if _recorder is not None:
        _recorder.note(_all(conventional, ours))


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
    # Without spans of ours the log has what we do: the peer may record its part.
    return (here or TraceContext(log_trace_id() or new_trace_id(), os.urandom(8).hex())).header()


def read_traceparent(header: str | None) -> TraceContext | None:
    """Return where a peer was when it sent us a request; None if it did not say so properly."""
    match = None if header is None else _HEADER.fullmatch(header)
    if match is None:
        return None
    return TraceContext(match[1], match[2], bool(int(match[3], 16) & _SAMPLED))


def _all(conventional: Mapping[str, Value], ours: Mapping[str, Value]) -> dict[str, Value]:
    return {**conventional, **{f"prio.{name}": value for name, value in ours.items()}}
