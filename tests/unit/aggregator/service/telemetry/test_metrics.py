"""What a process measures, what the manual says of it, and what the dashboard asks for."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from anyio import to_thread
from prometheus_client.parser import text_string_to_metric_families

from aggregator.errors import LocalError
from aggregator.service.telemetry.metrics import (
    Outcome,
    note_outcome,
    process_exposition,
    timed_step,
)

ROOT = Path(__file__).parents[5]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "prio.json").read_text(encoding="utf-8"))
NOT_METRICS = {"prio_body", "prio_session"}  # a field of a log line, a cookie


def documented() -> set[str]:
    text = (ROOT / "docs" / "operations" / "metrics.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def samples() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items()) - {("process", sample.labels["process"])}): (
            sample.value
        )
        for family in text_string_to_metric_families(process_exposition())
        for sample in family.samples
    }


def steps() -> dict[Outcome, float]:
    found, name = samples(), "prio_job_step_seconds_count"
    return {
        outcome: found.get((name, frozenset({("kind", "test"), ("outcome", outcome)})), 0)
        for outcome in Outcome
    }


def test_the_manual_names_every_metric_and_no_other() -> None:
    written = {
        name
        for path in (ROOT / "aggregator").rglob("*.py")
        for name in re.findall(r'"(prio_[a-z_]+)"', path.read_text(encoding="utf-8"))
    }
    assert {name for name in documented() if name.startswith("prio_")} == written - NOT_METRICS


def asked() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def test_every_expression_of_the_dashboard_names_metrics_that_exist() -> None:
    histograms = {
        name.removesuffix("_bucket") for name, _ in samples() if name.endswith("_bucket")
    } | {name for name in documented() if f'"{name}"' in _source()}
    known = documented() | {
        f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")
    }
    names = [name for text in asked() for name in re.findall(r"\b(?:prio|process)_\w+", text)]
    assert len(names) > 20
    assert set(names) <= known


def _source() -> str:
    text = (ROOT / "aggregator" / "service" / "telemetry" / "metrics.py").read_text(
        encoding="utf-8"
    )
    return "".join(re.findall(r'Histogram\(\s*("prio_\w+")', text))


async def test_a_step_has_moved_unless_it_says_otherwise_also_in_a_thread() -> None:
    before = steps()
    with timed_step("test"):
        pass
    with timed_step("test"):
        await to_thread.run_sync(note_outcome, Outcome.WAITS)
    with suppress(LocalError), timed_step("test"):
        note_outcome(Outcome.FAILED)
        raise LocalError("it happens")
    note_outcome(Outcome.REFUSED)  # of no step: nobody asks
    rises = {outcome: rise - before[outcome] for outcome, rise in steps().items()}
    ones = (Outcome.MOVED, Outcome.WAITS, Outcome.FAILED)
    assert {outcome for outcome, rise in rises.items() if rise == 1} == set(ones)
    assert sum(rises.values()) == 3
