"""`prio load`: measures a report's cost here, from the client's request to the result."""

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import Progress

from aggregator.cli.local.costs import Costs, exchange_seconds
from aggregator.cli.local.load_ids import fill_stores
from aggregator.cli.local.load_permits import Permits, given_out, keys_of, task_tables
from aggregator.cli.local.load_stack import Stack, check_here, running_stack, started_stack
from aggregator.cli.options import AsJson, Up
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.cli.local.folder import LocalFolder
    from aggregator.protocol.task import Task

MOST_REPORTS: Final = 1_000_000
MOST_IDS: Final = 100_000_000
_AT_ONCE: Final = 50_000
"""How many reports are sealed, and held in memory, before they are sent."""
_WINDOW: Final = timedelta(hours=1)


console = Console(stderr=True)


def load(
    reports: Annotated[
        int, typer.Option(min=200, max=MOST_REPORTS, help="How many reports are sent in groups.")
    ] = 20_000,
    singles: Annotated[
        int,
        typer.Option(
            min=0, max=100_000, help="How many reports are sent one by one, as phones do."
        ),
    ] = 2000,
    per_request: Annotated[
        int, typer.Option(min=1, max=1000, help="How many reports one request of a group carries.")
    ] = 200,
    connections: Annotated[
        int,
        typer.Option(min=1, max=256, help="How many connections the reports sent one by one use."),
    ] = 64,
    length: Annotated[
        int, typer.Option(min=1, max=4096, help="How many buckets the histogram has.")
    ] = 256,
    stack: Annotated[
        bool,
        typer.Option(
            "--stack",
            help="Start a leader and a helper for the measurement, and stop them at the end.",
        ),
    ] = False,
    postgres: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="With --stack: the URL of a database on a server on this machine, whose "
            "user may create databases. Each aggregator gets one of its own, which is dropped at "
            "the end.",
        ),
    ] = None,
    permits: Annotated[
        Permits | None,
        typer.Option(
            help="Measure a task that counts only reports with a permit, too, in turns with the "
            "plain one: what a permit adds."
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="With --permits: how many turns; the least of each is compared."
        ),
    ] = 3,
    ids: Annotated[
        int,
        typer.Option(
            min=0,
            max=MOST_IDS,
            help="How many ids of earlier reports each task of the measurement has in both stores, "
            "of the 400 days before: as in a store that is not new.",
        ),
    ] = 0,
    up: Up = None,
    as_json: AsJson = False,
) -> None:
    """Measure what reports cost here: real ones, to services on this machine, to the result.

    Without --stack the reports go to the services of a running `prio up`, whose stores keep the
    tasks. Costs are those of the services and the database, without this client. "exchanges" says
    how many X25519 exchanges this machine could do in the same time; a report needs two.
    """
    if postgres is not None:
        if not stack:
            raise ParameterError("postgres: goes with --stack")
        check_here(postgres)
    with ExitStack() as resources:
        began = started_stack(resources, postgres) if stack else running_stack(up)
        phase = partial(_phase, began, ids, length, _window())
        found = _measure(began, phase, reports, singles, per_request, connections)
        if permits is not None:
            turns = partial(phase, reports, per_request, 4)
            compared = [(turns(), turns(permits=permits)) for _ in range(rounds)]
            found["permits"] = _added(compared, reports)
            found["right"] = found["right"] and all(
                phase.is_right for turn in compared for phase in turn
            )
    if as_json:
        print(json.dumps(found))
    else:
        _say(found)
    if not found["right"]:
        raise SystemExit(1)


def _added(compared: "Sequence[tuple[_Phase, _Phase]]", reports: int) -> dict[str, object]:
    """Return what a permit adds to a report, from turns without and with permits."""
    least = [
        min(sum(phase.spent.values(), Costs()).cpu_seconds for phase in phases)
        for phases in zip(*compared, strict=True)
    ]
    plain, permitted = (round(1e6 * seconds / reports, 1) for seconds in least)
    return {
        "cpu_us_per_report_without": plain,
        "cpu_us_per_report_with": permitted,
        "added_us": round(permitted - plain, 1),
        "cpu_us_without": [_by_party(phase, reports) for phase, _ in compared],
        "cpu_us_with": [_by_party(phase, reports) for _, phase in compared],
    }


def _by_party(phase: "_Phase", reports: int) -> dict[str, float]:
    return {name: round(1e6 * each.cpu_seconds / reports, 1) for name, each in phase.spent.items()}


def _window() -> datetime:
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - _WINDOW


def _measure(
    stack: Stack,
    phase: "Callable[[int, int, int], _Phase]",
    reports: int,
    singles: int,
    per_request: int,
    connections: int,
) -> dict[str, object]:
    exchange = exchange_seconds()
    one_by_one = None
    is_right = True
    if singles:
        one_by_one = phase(singles, 1, connections)
        is_right = one_by_one.is_right
    grouped = phase(reports, per_request, 4)
    spent = sum(grouped.spent.values(), Costs())
    cpu = spent.cpu_seconds / reports
    return {
        "version": 1,
        "reports": reports + singles,
        "right": is_right and grouped.is_right,
        "reports_per_second": round(reports / grouped.total_seconds, 1),
        "upload_reports_per_second": round(reports / grouped.upload_seconds, 1),
        "single_uploads_per_second": None
        if one_by_one is None
        else round(singles / one_by_one.upload_seconds, 1),
        "single_upload_us": None
        if one_by_one is None or not stack.serves_alone
        else round(1e6 * one_by_one.serving.cpu_seconds / singles, 1),
        "single_upload_exchanges": None
        if one_by_one is None or not stack.serves_alone
        else round(one_by_one.serving.cpu_seconds / singles / exchange, 2),
        "single_upload_milliseconds": None if one_by_one is None else one_by_one.percentiles(),
        "upload_milliseconds": grouped.percentiles(),
        "cpu_us_per_report": round(1e6 * cpu, 1),
        "cpu_us": {
            name: round(1e6 * each.cpu_seconds / reports, 1) for name, each in grouped.spent.items()
        },
        "exchanges": {
            name: round(each.cpu_seconds / reports / exchange, 2)
            for name, each in grouped.spent.items()
        },
        "exchange_us": round(1e6 * exchange, 1),
        "exchanges_per_report": round(cpu / exchange, 2),
        "peak_mib": {
            "leader": max(
                each.peak_mib
                for name, each in grouped.spent.items()
                if name in ("leader", "worker")
            ),
            "helper": grouped.spent["helper"].peak_mib,
        },
        "database_bytes_per_report": round(grouped.stored_bytes / reports, 1),
        "written_bytes_per_report": None
        if spent.written_bytes is None
        else round(spent.written_bytes / reports, 1),
        "log_bytes_per_report": None
        if grouped.log_bytes is None
        else round(grouped.log_bytes / reports, 1),
        "report_bytes": round(grouped.sent_bytes / reports, 1),
        "written_bytes": {
            name: None if each.written_bytes is None else round(each.written_bytes / reports, 1)
            for name, each in grouped.spent.items()
        },
    }


@dataclass(frozen=True, slots=True)
class _Phase:
    """The outcome for some reports.

    It `is_right` if the result counts all of them, within its noise. `total_seconds` are from the
    first request to the result, `seconds` how long each request waited for its answer, sorted.
    `serving` is what the process that takes uploads used while they came, `spent` what each used
    until the result; `sent_bytes` is the size of all requests, `stored_bytes` by how much the
    stores grew, and `log_bytes` what went into the database server's log.
    """

    is_right: bool
    upload_seconds: float
    total_seconds: float
    serving: Costs
    spent: dict[str, Costs]
    seconds: list[float]
    sent_bytes: int
    stored_bytes: int
    log_bytes: int | None

    def percentiles(self) -> dict[str, float]:
        """Return percentiles of the requests' times to an answer, in milliseconds."""
        last = len(self.seconds) - 1
        return {
            name: round(1000 * self.seconds[round(last * part)], 1)
            for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0))
        }


def _phase(
    stack: Stack,
    ids: int,
    length: int,
    window: datetime,
    count: int,
    per_request: int,
    connections: int,
    *,
    permits: Permits | None = None,
) -> _Phase:
    """Send the reports of one task, and collect them."""
    from aggregator.cli.local import load_client

    signing = keys_of(permits)
    task = _task(stack.folder, length, count, task_tables(permits, signing))
    given = given_out(stack, task, signing, count)
    keys = load_client.configs(task)
    when = task.time(int(window.timestamp()))
    if ids and task.permits is None:
        fill_stores(stack, task, when.day(task.time_precision), ids, console)
    buckets = [int(x) % length for x in memoryview(secrets.token_bytes(8 * count)).cast("Q")]
    before, stored, logged = stack.costs(), stack.stored_bytes(), stack.log_bytes()
    serving, seconds, sent, uploading, pauses = Costs(), [], 0, 0.0, 0.0
    began: float | None = None
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task(f"{count:,} reports, {per_request} a request", total=2 * count)
        for first in range(0, count, _AT_ONCE):
            paused = time.perf_counter()
            bodies = load_client.sealed(
                task,
                keys,
                buckets[first : first + _AT_ONCE],
                when,
                per_request,
                lambda more: progress.advance(bar, more),
                given and given.between(first, first + _AT_ONCE),
            )
            sent += sum(map(len, bodies))
            at_first = stack.costs()["leader"]
            started = time.perf_counter()
            pauses += 0.0 if began is None else started - paused
            began = started if began is None else began
            seconds += load_client.send(task, bodies, connections)
            uploading += time.perf_counter() - started
            serving += stack.costs()["leader"].since(at_first)
            progress.advance(bar, min(_AT_ONCE, count - first))
        is_right = _is_right(stack.folder, task, window, buckets)
    # This client seals all but the first reports between sendings: subtract that time.
    total = time.perf_counter() - (began or 0.0) - pauses
    after, logged_by_now = stack.costs(), stack.log_bytes()
    return _Phase(
        is_right,
        uploading,
        total,
        serving,
        {name: each.since(before[name]) for name, each in after.items()},
        sorted(seconds),
        sent,
        stack.stored_bytes() - stored,
        None if logged is None or logged_by_now is None else logged_by_now - logged,
    )


def _task(folder: "LocalFolder", length: int, reports: int, tables: Mapping[str, Any]) -> "Task":
    from aggregator.cli.local.tasks import collector_config, hand_out
    from aggregator.cli.service.task_making import make_task
    from aggregator.protocol.provisioning import provision

    task = make_task(
        collector_config(folder),
        {"type": "Prio3Histogram", "length": length},
        {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1"},
        leader=folder.url("leader"),
        helper=folder.url("helper"),
        time_precision=int(_WINDOW.total_seconds()),
        min_batch_size=reports,
        max_reports=reports,
        task_info="prio load",
        **tables,
    )
    hand_out(folder, provision(task, SystemEntropy()))
    return task


def _is_right(
    folder: "LocalFolder", task: "Task", window: datetime, buckets: Sequence[int]
) -> bool:
    """Collect the reports; return whether all count, with each bucket within the noise's bound."""
    from aggregator.collector import Collector

    with Collector.open(folder.config("collector")) as collector:
        collected = collector.collect(task, window, _WINDOW)
    truth, circuit = Counter(buckets), task.prio3.circuit
    most = task.policy.mechanism.tail_bound(circuit, aggregators=2)
    values = collected.result["values"]
    assert isinstance(values, list)  # noqa: S101  the result is a histogram
    return collected.result["report_count"] == len(buckets) and all(
        abs(value - truth[bucket]) <= most for bucket, value in enumerate(values)
    )


def _say(found: dict[str, Any]) -> None:
    _say_of_reports(found)
    if "permits" in found:
        permits = found["permits"]
        print(
            f"with permits: {permits['cpu_us_per_report_with']} us a report, without "
            f"{permits['cpu_us_per_report_without']} us in the same run: "
            f"{permits['added_us']:+} us"
        )


def _say_of_reports(found: dict[str, Any]) -> None:
    print(f"{found['reports']:,} reports, {'all' if found['right'] else 'NOT all'} counted once")
    print(f"in groups, to the result: {found['reports_per_second']:,} reports a second")
    print(f"in groups, upload alone: {found['upload_reports_per_second']:,} reports a second")
    if found["single_uploads_per_second"] is not None:
        latency = found["single_upload_milliseconds"]
        print(f"one by one: {found['single_uploads_per_second']:,} reports a second")
        if found["single_upload_us"] is not None:
            print(
                f"  the leader: {found['single_upload_us']} us each, "
                f"{found['single_upload_exchanges']} exchanges"
            )
        print(f"  answered after {latency['p50']} ms, p99 {latency['p99']} ms")
    each = ", ".join(f"{name} {used}" for name, used in found["cpu_us"].items())
    print(f"processor time of a report: {found['cpu_us_per_report']} us ({each})")
    each = ", ".join(f"{name} {count}" for name, count in found["exchanges"].items())
    print(
        f"  {found['exchanges_per_report']} exchanges of {found['exchange_us']} us ({each}); "
        "none has fewer than two"
    )
    peak = found["peak_mib"]
    print(f"memory at most: leader {peak['leader']} MiB, helper {peak['helper']} MiB")
    print(f"stores grew by {found['database_bytes_per_report']:,} bytes a report")
    if found["log_bytes_per_report"] is not None:
        print(f"the server's log grew by {found['log_bytes_per_report']:,} bytes a report")
    if found["written_bytes_per_report"] is not None:
        each = ", ".join(f"{name} {size:,}" for name, size in found["written_bytes"].items())
        print(
            f"written to disk: {found['written_bytes_per_report']:,} bytes a report ({each}), "
            f"of which one has {found['report_bytes']:,}"
        )
