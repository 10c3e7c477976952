"""What a process has measured of its own work since it started, for Prometheus.

`health` has what the store knows, which is the same in every process of a party. Here is the rest:
how long each stage takes, and how it ends. Every sample names its process, because any one of the
processes behind an address may answer; to get totals, add up over processes.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from aggregator.service.telemetry.compiling import AWAITED
from aggregator.service.telemetry.tracing import note

disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's own lack
_REGISTRY = CollectorRegistry()

_MILLISECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_MINUTES = (1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 43_200.0)
_SIZES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)

REQUEST_SECONDS = Histogram(
    "prio_request_seconds",
    "Requests that we answered, from their headers to the end of the answer.",
    ("resource", "method", "status"),
    registry=_REGISTRY,
    buckets=_MILLISECONDS,
)
UPLOAD_GROUP_REPORTS = Histogram(
    "prio_upload_group_reports",
    "Reports that one transaction stored together.",
    registry=_REGISTRY,
    buckets=_SIZES,
)
VERIFICATION_SECONDS = Histogram(
    "prio_verification_seconds",
    "Steps of verification of a job's reports, HPKE and handling included.",
    registry=_REGISTRY,
    buckets=_MILLISECONDS,
)
VERIFICATION_WAIT_SECONDS = Histogram(
    "prio_verification_wait_seconds",
    "How long such a step waited for a thread.",
    registry=_REGISTRY,
    buckets=_MILLISECONDS,
)
JOB_STEP_SECONDS = Histogram(
    "prio_job_step_seconds",
    "Steps of the leader's jobs, by their kind and outcome.",
    ("kind", "outcome"),
    registry=_REGISTRY,
    buckets=_MILLISECONDS,
)
COLLECTION_SECONDS = Histogram(
    "prio_collection_seconds",
    "Collections that have a result, from the collector's request on.",
    registry=_REGISTRY,
    buckets=_MINUTES,
)
PEER_REQUEST_SECONDS = Histogram(
    "prio_peer_request_seconds",
    "Requests that we sent to another party, each attempt by itself.",
    ("peer", "outcome"),
    registry=_REGISTRY,
    buckets=_MILLISECONDS,
)
TRANSACTION_SECONDS = Histogram(
    "prio_transaction_seconds",
    "Transactions on the store, with all their attempts.",
    ("transaction",),
    registry=_REGISTRY,
    buckets=_MILLISECONDS,
)
TRANSACTION_WAIT_SECONDS = Histogram(
    "prio_transaction_wait_seconds",
    "How long a transaction waited in this process for its turn.",
    ("access",),
    registry=_REGISTRY,
    buckets=_MILLISECONDS,
)
TRANSACTION_RETRIES = Counter(
    "prio_transaction_retries_total",
    "Attempts of transactions that others stood in the way of.",
    ("transaction",),
    registry=_REGISTRY,
)
_AWAITED_KERNELS = Gauge(
    "prio_awaited_kernels",
    "Types of VDAF that are verified more slowly, until their kernels are compiled.",
    registry=_REGISTRY,
)
_AWAITED_KERNELS.set_function(lambda: len(AWAITED.records()))
ProcessCollector(registry=_REGISTRY)


class Outcome(StrEnum):
    """How a step of a job ended."""

    MOVED = "moved"
    """It did its part: stored the request, aggregated the reports or released the batch."""
    WAITS = "waits"
    """It is too early: the batch is not ready, or the helper has not finished."""
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    UNUSABLE = "unusable"
    """The helper's answer could not be used."""
    ENDED = "ended"
    """A collection failed for good; the collector is told why."""
    LOST = "lost"
    """Another worker has the job."""
    FAILED = "failed"
    """It failed through our own fault, which the log names."""


_outcome: ContextVar[list[Outcome]] = ContextVar("outcome of a step")


@contextmanager
def timed_step(kind: str) -> Iterator[None]:
    """Time a step of a job; its outcome is MOVED unless `note_outcome` says otherwise."""
    said: list[Outcome] = []
    token = _outcome.set(said)
    started = time.perf_counter()
    try:
        yield
    finally:
        _outcome.reset(token)
        outcome = said[-1] if said else Outcome.MOVED
        note(outcome=outcome)
        JOB_STEP_SECONDS.labels(kind, outcome).observe(time.perf_counter() - started)


def note_outcome(outcome: Outcome) -> None:
    """Set the outcome of the current step, from its asyncio task or a thread that it awaits."""
    said = _outcome.get(None)
    if said is not None:
        said.append(outcome)


class _OfThisProcess(Collector):
    """The metrics, with this process's id in each sample."""

    @override
    def collect(self) -> Iterator[Metric]:
        process = str(os.getpid())
        for metric in _REGISTRY.collect():
            metric.samples = [
                sample._replace(labels={**sample.labels, "process": process})
                for sample in metric.samples
            ]
            yield metric


def process_exposition() -> str:
    """Return everything that was measured, in Prometheus' text format."""
    named = CollectorRegistry()
    named.register(_OfThisProcess())
    return generate_latest(named).decode()
